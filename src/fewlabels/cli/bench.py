"""``fewlabels bench, demo``: the paper's experiments and others, and a small one."""

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Exit

from fewlabels import jobs
from fewlabels.cli import options
from fewlabels.cli.options import AllowCode, Encoder, Json, Quiet, QuietOrJson
from fewlabels.cli.terminal import Terminal, table
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.experiments import bench
from fewlabels.experiments.settings import Choice, RunSettings, validated
from fewlabels.progress import duration

if TYPE_CHECKING:
    from fewlabels.report.bench_sections import ConditionContext, Context

_MOST_DRAWN = 1000  # short enough to be typed again
_MOST_SEEDS = 10_000
_SHOWN = (10, 20, 30, 50, 100)  # numbers of labels that a terminal has room for
_WITH_OPTIONS = ("data", "trainer")  # settings that --set changes option by option
_POWERS = {2**power: f"2^{power}" for power in range(16, 31)}

app = options.group("Compare query strategies: the paper's experiments and others.")
Folder = Annotated[Path, Argument(metavar="DIR", help="Benchmark folder.")]


@app.command("list")
@options.documented
def list_recipes(*, terminal: Json) -> None:
    """List the recipes: what each compares and costs.

    Each has a twin NAME_supervised that trains on labeled images alone.
    """
    recipes = [bench.recipe(name) for name in bench.names()]
    terminal.json([recipe.model_dump(mode="json") for recipe in recipes])
    drawn = Table(box=None, pad_edge=False)
    for column in ("recipe", "size", "runs", "trainings", "time", "what it is"):
        drawn.add_column(column, no_wrap=column != "what it is")
    workers = jobs.LocalExecutor().num_workers
    nowhere = bench.BenchFolder(Path(os.devnull))
    for recipe in recipes:
        cost = bench.estimate(recipe, nowhere, num_workers=workers)
        counts = (str(cost.num_cells), str(cost.num_trainings))
        time = duration(3600 * cost.hours)
        drawn.add_row(recipe.name, recipe.scale, *counts, time, recipe.title)
    terminal.result(drawn)


@app.command()
@options.documented
def run(
    recipes: list[str],
    *,
    strategies: str | None = None,
    encoder: Encoder = None,
    seeds: str | None = None,
    out: Path = Path("bench"),
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus: float | None = None,
    dry_run: bool = False,
    measure: int | None = None,
    tensorboard: bool = False,
    mlflow: str | None = None,
    wandb: str | None = None,
    predictions: bool = False,
    option: options.SetOptions = None,
    allow_code: AllowCode = False,
    terminal: QuietOrJson,
) -> None:
    """Do the missing runs of experiments, then write their reports.

    Prints the cost first. Safe to stop or kill at any time: the same command resumes;
    more strategies or seeds add only what is missing.

    Options:
        recipes (RECIPE...): Recipe names, or YAML files with one experiment each.
        strategies: Names or module:Class, comma-separated. [default: recipe's]
        seeds: How many (3) or which (5-9 or 0,4). [default: recipe's]
        out: Benchmark folder; may contain several recipes.
        gpus: GPUs per run; 1 by default where there are some, and with 'ray' none and
            possibly a fraction.
        dry_run: Print the cost and stop.
        measure (STEPS): Time this many training steps first.
        tensorboard: Also write curves for TensorBoard.
        mlflow (URI): Also log finished runs to MLflow.
        wandb (PROJECT): Also log finished runs to Weights & Biases.
        predictions: Also write the probabilities of every round.
    """
    experiments = [
        with_settings(
            build_experiment(recipe, strategies, seeds, encoder, allow_code=allow_code),
            options.read_options(option),
        )
        for recipe in recipes
    ]
    local, on_ray = {"--workers": workers}, {"--address": address}
    options.check_engine(engine, local=local, ray=on_ray)
    executor: jobs.Executor = jobs.RayExecutor(address, gpus=gpus or 0.0)
    if engine == "local":
        executor = jobs.LocalExecutor(workers, gpus=1 if gpus is None else gpus)
    folder = bench.BenchFolder(out)
    folder.check_usable()
    costs = [_cost(each, folder, executor, measure, terminal) for each in experiments]
    if len(experiments) > 1:
        total = bench.num_trainings(experiments)
        own = bench.num_trainings(experiments, other_readings=False)
        lengths = {_steps(cost.steps) for cost in costs}
        length = lengths.pop() if len(lengths) == 1 else "different lengths"
        other = f", and {total - own} for other readings" if total > own else ""
        terminal.result(f"Total: {own} trainings of {length}{other}")
    if dry_run:
        terminal.json([asdict(cost) | {"hours": cost.hours} for cost in costs])
        return
    folder.open()
    any_failed = False
    for experiment in experiments:
        trackers: list[Any] = [bench.Mlflow(mlflow, experiment.name)] if mlflow else []
        trackers += [bench.WeightsAndBiases(wandb)] if wandb else []
        extras = {"tensorboard": tensorboard, "predictions": predictions}
        failed = do_runs(
            experiment, folder, executor, terminal, trackers=trackers, **extras
        )
        any_failed |= failed > 0
        page = _write_report(folder, experiment.name, terminal)
        facts = {"experiment": experiment.name, "failed": failed, "report": page}
        terminal.json(facts)
    if any_failed:
        raise Exit(1)


@app.command()
@options.documented
def report(path: Folder, recipe: str | None = None, *, terminal: Quiet) -> None:
    """Write a page, figures and tables with the results so far.

    Options:
        recipe: Only this experiment. [default: all]
    """
    folder = bench.BenchFolder(path)
    known = list(folder.experiments())
    if recipe and recipe not in known:
        raise UnknownNameError("experiment in this folder", recipe, known)
    if not known:
        raise UsageError(f"No experiment was run in '{path}' yet: no report to write.")
    for name in [recipe] if recipe else known:
        _write_report(folder, name, terminal)


@app.command()
@options.documented
def verify(
    path: Folder,
    *,
    seed: int | None = None,
    allow_code: AllowCode = False,
    terminal: Quiet,
) -> None:
    """Repeat a random finished run from scratch and compare.

    Options:
        seed: Selects the run. [default: a different one each time]
    """
    drawn = secrets.randbelow(_MOST_DRAWN) if seed is None else seed
    folder = bench.BenchFolder(path)
    verdict = bench.verify(folder, seed=drawn, allow_code=allow_code)
    terminal.result(f"{verdict.cell.label} ({verdict.cell.address}), --seed {drawn}")
    for change in verdict.changes:
        terminal.say(f"Note: {change}")
    for difference in verdict.differences:
        terminal.result(difference)
    if verdict.differences:
        raise Exit(1)
    terminal.result("Identical: every round, item by item and bit by bit.")


def build_experiment(
    recipe: str,
    strategies: str | None,
    seeds: str | None,
    encoder: str | None,
    *,
    allow_code: bool,
) -> "bench.Experiment":
    """Return the experiment of a recipe or file, with the given parts replaced."""
    names = [word.strip() for word in (strategies or "").split(",") if word.strip()]
    if recipe.endswith((".yaml", ".yml")):
        experiment = bench.read_experiment(Path(recipe), allow_code=allow_code or names)
    else:
        experiment = bench.recipe(recipe)
    changes: dict[str, object] = {}
    if strategies is not None:  # those of the recipe as they are there
        known = experiment.strategies
        changes["strategies"] = tuple(
            choice
            for name in names
            for choice in [c for c in known if c.name == name] or [Choice(name=name)]
        )
    if seeds is not None:
        changes["seeds"] = read_seeds(seeds)
    if encoder is not None:
        over = [condition.over(encoder) for condition in experiment.conditions]
        changes["conditions"] = tuple(over)
    return bench.checked(experiment.model_copy(update=changes))


def with_settings(
    experiment: "bench.Experiment", changes: Mapping[str, Any]
) -> "bench.Experiment":
    """Return an experiment with other settings in all its conditions.

    Args:
        experiment: The experiment.
        changes: Values by name: ``budget``, or ``trainer.steps`` for an option.

    Returns:
        The experiment, checked.
    """
    conditions = []
    for condition in experiment.conditions:
        settings = condition.settings.model_dump()
        whole = [name for name in settings if name not in {"strategy", *_WITH_OPTIONS}]
        for name, value in changes.items():
            part, _, option = name.partition(".")
            if name in whole:
                settings[name] = value
            elif option and part in _WITH_OPTIONS:
                settings[part]["options"][option] = value
                settings[part].pop("made", None)
            else:
                known = [*whole, *(f"{part}.OPTION" for part in _WITH_OPTIONS)]
                raise UnknownNameError("setting", name, known)
        changed = validated(RunSettings, settings, kind="setting")
        conditions.append(condition.copy_with(settings=changed))
    if not changes:
        return experiment
    return bench.checked(experiment.copy_with(conditions=tuple(conditions)))


def read_seeds(words: str) -> tuple[int, ...]:
    """Return seeds: the first so many, a range, or those that are listed.

    Example:
        >>> read_seeds("3"), read_seeds("5-7"), read_seeds("0,4")
        ((0, 1, 2), (5, 6, 7), (0, 4))
    """
    seeds: Sequence[int] = ()
    with suppress(ValueError):
        if "," in words:
            seeds = [int(word) for word in words.split(",") if word]
        else:
            first, dash, last = words.partition("-")
            seeds = range(int(first), int(last) + 1) if dash else range(int(words))
    if not seeds or seeds[_MOST_SEEDS:]:  # a range may be too long for len
        raise UsageError(
            f"The seeds are '{words}'; give 3, 5-9 or 0,4, at most {_MOST_SEEDS:,}."
        )
    return tuple(seeds)


def _cost(
    experiment: "bench.Experiment",
    folder: "bench.BenchFolder",
    executor: "jobs.Executor",
    num_steps: int | None,
    terminal: Terminal,
) -> "bench.ExperimentCost":
    """Say what an experiment will cost; train a few steps before, if asked to."""
    name, seconds = experiment.name, None
    if num_steps is not None:
        seconds = bench.measure(experiment, num_steps)
        terminal.result(f"{name}: {num_steps} steps took {seconds:.3g} seconds each")
    workers = executor.num_workers
    cost = bench.estimate(
        experiment, folder, num_workers=workers, seconds_per_step=seconds
    )
    other = f", {cost.num_other} of them for another reading of the paper"
    terminal.result(f"{name}: {experiment.title}")
    terminal.result(
        f"  {cost.num_cells} runs with {cost.num_trainings} trainings of "
        f"{_steps(cost.steps)}{other if cost.num_other else ''}"
    )
    terminal.result(
        f"  finished: {cost.num_finished} of {cost.num_cells} runs; trainings left: "
        f"{cost.num_trainings_left}, {duration(3600 * cost.hours)} with "
        f"{cost.num_workers} at a time ({duration(cost.seconds_per_training)} each, "
        f"{cost.source}) and {cost.disk / 1e9:.2g} GB of disk"
    )
    if cost.gpu_hours:
        hours = [f"{number:,.0f} on {gpu}" for gpu, number in cost.gpu_hours.items()]
        terminal.result(
            f"  {cost.core_days:,.0f} core-days; hours of one GPU, from published step "
            f"times: {', '.join(hours)}"
        )
    for sentence in bench.outdated(experiment, folder):
        terminal.say(f"Note: {sentence}")
    return cost


def do_runs(
    experiment: "bench.Experiment",
    folder: "bench.BenchFolder",
    executor: "jobs.Executor",
    terminal: Terminal,
    *,
    trackers: Sequence["bench.Mlflow | bench.WeightsAndBiases"] = (),
    every: int = 1,
    **extras: bool,
) -> int:
    """Do the runs, say how one in ``every`` ended, return how many failed."""
    before = folder.asked(experiment.name)
    asked = folder.ask_for(experiment)
    if before is not None and not asked.continues(before):
        terminal.say(
            f"Note: '{asked.name}' had different conditions, or a different trainer, "
            "before. The report covers the current ones; earlier runs are kept."
        )
    cells = bench.plan(experiment).all
    failed, total = [], len(cells)
    before_now = total - len(folder.missing(cells))
    runs = bench.run(experiment, folder, executor, **extras)
    for done, ended in enumerate(runs, start=before_now + 1):
        if ended.error is not None:
            failed.append(ended.cell)
            outcome = f"failed: {ended.error}"
        else:
            right = folder.run_folder(ended.cell).lines()[-1].accuracy
            outcome = "not measured" if right is None else f"{100 * right:.1f} %"
        if done % every == 0 or ended.error is not None:
            terminal.say(f"[{done}/{total}] {ended.cell.label}: {outcome}")
    finished = [cell for cell in cells if trackers and folder.is_finished(cell)]
    for cell, tracker in product(finished, trackers):
        tracker.send(cell, folder)
    return len(folder.missing(failed))  # another command may have done some


def _write_report(folder: "bench.BenchFolder", name: str, terminal: Terminal) -> Path:
    """Write the report of an experiment, and say where it is."""
    from fewlabels.report import write_bench_report

    page = write_bench_report(folder, name).resolve()
    terminal.result(f"Report: {page}")
    return page


def _steps(number: int | None) -> str:
    return f"{_POWERS.get(number, f'{number:,}')} steps" if number else "unknown length"


def demo(
    *,
    fast: bool = False,
    out: Path | None = None,
    terminal: QuietOrJson,
) -> None:
    """Compare four ways to choose digits to label, and write a report.

    From 10 to 100 labels with a learner that takes milliseconds, and from 10 to 20 with
    FixMatch and DARP, as in the paper; with the same seeds for all.

    Options:
        fast: Train only briefly, to see that it works.
        out: Folder for runs and report. [default: fewlabels-demo]
    """
    from fewlabels.experiments.bench.recipes import demo_experiment
    from fewlabels.report.bench import finding
    from fewlabels.report.bench_sections import context_of

    experiment = bench.checked(demo_experiment(is_fast=fast))
    folder = bench.BenchFolder(out or Path(f"fewlabels-demo{'-fast' * fast}"))
    folder.open()
    failed = do_runs(experiment, folder, jobs.LocalExecutor(), terminal, every=16)
    context = context_of(bench.read_results(folder, experiment))
    shown = {case.condition.name: case for case in context.conditions}
    results = {name: _results(context, case) for name, case in shown.items()}
    for name, case in shown.items():
        terminal.result(_demo_table(name, case.seeds_text, results[name]))
    terminal.result(finding(context))
    page = _write_report(folder, experiment.name, terminal)
    terminal.json({"results": results, "report": page})
    terminal.result("Next, with a folder of your own images:")
    terminal.result("  fewlabels start FOLDER --classes cat,dog --budget 200")
    if failed:
        raise Exit(1)


def _results(context: "Context", case: "ConditionContext") -> list[dict[str, Any]]:
    """Return mean accuracies, what labels were worth, and the lead at the end."""
    from fewlabels.report.bench_sections import END, savings_of

    leads = {
        row.test.name: [row.test.difference, row.test.low, row.test.high]
        for row in context.comparisons
        if (row.case, row.measure, row.test.against) == (case, END, "random")
    }
    return [
        {
            "strategy": name.partition(" (")[0],  # without its options
            "labels": case.paired_labels,
            "accuracy": array.mean(axis=0).tolist() if case.complete_seeds else [],
            "lead": leads.get(name),
            "worth": {
                saving.num_labels: [saving.amount, saving.interval]
                for saving in savings_of(case, name)
            },
        }
        for name, array in case.paired.items()
    ]


def _demo_table(name: str, seeds: str, rows: list[dict[str, Any]]) -> Table:
    """Return accuracies for the terminal: a row per strategy, a column per number."""
    labels = rows[0]["labels"]
    shown = [place for place, number in enumerate(labels) if number in _SHOWN]
    columns = [*(str(labels[place]) for place in shown), "lead (95 % interval)"]
    title = f"{name}, {seeds}: accuracy (%) by labels; lead over random at the end"
    drawn = table("labels", *columns, right=columns, title=title, title_justify="left")
    for row in rows:
        means = [f"{100 * row['accuracy'][place]:.1f}" for place in shown]
        lead = ""
        if row["lead"] is not None:
            difference, low, high = (100 * number for number in row["lead"])
            lead = f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"
        drawn.add_row(row["strategy"], *means, lead)
    return drawn
