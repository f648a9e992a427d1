"""``fewlabels bench``: the paper's experiments and others."""

import json
import os
import secrets
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fewlabels import bench
from fewlabels.cli import options
from fewlabels.cli.bench_words import (
    cost_lines,
    duration,
    ended_line,
    other_conditions_line,
    read_seeds,
    read_strategies,
    space_lines,
    split_names,
    total_line,
)
from fewlabels.cli.options import AllowCode, Download, Encoder, Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from fewlabels.bench import BenchFolder, Engine, Experiment, ExperimentCost

_MOST_DRAWN = 1000  # short enough to be typed again

app = typer.Typer(
    name="bench",
    help="Compare query strategies: the paper's experiments and others.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Benchmark folder.")]


@app.command("list")
def list_recipes(*, as_json: Json = False) -> None:
    """List the recipes: what each compares and costs.

    Each has a twin NAME_supervised that trains on labeled images alone.
    """
    recipes = [bench.recipe(name) for name in bench.names()]
    if as_json:
        print_line(json.dumps([one.model_dump(mode="json") for one in recipes]))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("recipe", "size", "runs", "trainings", "time"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for one in recipes:
        cost = _new_cost(one)
        counts = (str(cost.num_cells), str(cost.num_trainings))
        table.add_row(one.name, one.scale, *counts, duration(cost.hours), one.title)
    Terminal.open(quiet=False).result(table)


@app.command()
def run(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE...",
            help="Recipe names, or YAML files with one experiment each.",
        ),
    ],
    *,
    strategies: Annotated[
        str | None,
        typer.Option(
            help="Names or module:Class, comma-separated. [default: recipe's]"
        ),
    ] = None,
    encoder: Encoder = None,
    download: Download = False,
    seeds: Annotated[
        str | None,
        typer.Option(help="How many (3) or which (5-9 or 0,4). [default: recipe's]"),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Benchmark folder; may contain several recipes.")
    ] = Path("bench"),
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    gpus: Annotated[
        float, typer.Option(help="GPUs per run with 'ray'; may be a fraction.")
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cost and stop.")
    ] = False,
    measure: Annotated[
        int | None,
        typer.Option(metavar="STEPS", help="Time this many training steps first."),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write curves for TensorBoard.")
    ] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Also log finished runs to MLflow."),
    ] = None,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Do the missing runs of experiments, then write their reports.

    Prints the cost first. Safe to stop or kill at any time: the same command resumes;
    more strategies or seeds add only what is missing.
    """
    features = options.found_encoder(encoder, download=download)
    experiments = [
        _chosen(recipe, strategies, seeds, features, allow_code=allow_code)
        for recipe in recipes
    ]
    from fewlabels.report import write_bench_report

    does = _engine(engine, workers=workers, address=address, gpus=gpus)
    terminal = Terminal.open(quiet=quiet or as_json)
    folder = bench.BenchFolder(out)
    folder.check_usable()
    costs = [_told_cost(one, folder, does, measure, terminal) for one in experiments]
    if len(experiments) > 1:
        terminal.result(total_line(experiments, costs))
    for line in space_lines(sum(cost.disk for cost in costs), bench.free_space(out)):
        terminal.say(line)
    if dry_run:
        if as_json:
            print_line(
                json.dumps([asdict(cost) | {"hours": cost.hours} for cost in costs])
            )
        return
    folder.open()
    any_failed = False
    for one in experiments:
        failed = do_runs(
            one, folder, does, terminal, tensorboard=tensorboard, uri=mlflow
        )
        any_failed |= failed > 0
        page = write_bench_report(folder, one.name).resolve()
        terminal.result(f"Report: {page}")
        if as_json:
            told = {"experiment": one.name, "failed": failed, "report": str(page)}
            print_line(json.dumps(told))
    if any_failed:
        raise typer.Exit(1)


@app.command()
def report(
    path: Folder,
    recipe: Annotated[
        str | None, typer.Argument(help="Only this experiment. [default: all]")
    ] = None,
    *,
    quiet: Quiet = False,
) -> None:
    """Write a page, figures and tables with the results so far."""
    from fewlabels.report import write_bench_report

    folder = bench.BenchFolder(path)
    known = folder.experiments()
    names = [_known_name(recipe, known)] if recipe else list(known)
    terminal = Terminal.open(quiet=quiet)
    if not names:
        raise UsageError(f"No experiment was run in '{path}' yet: no report to write.")
    for name in names:
        page = write_bench_report(folder, name)
        terminal.result(f"Report: {page.resolve()}")


@app.command()
def verify(
    path: Folder,
    *,
    seed: Annotated[
        int | None,
        typer.Option(help="Selects the run. [default: a different one each time]"),
    ] = None,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a random finished run from scratch and compare."""
    terminal = Terminal.open(quiet=quiet)
    drawn = secrets.randbelow(_MOST_DRAWN) if seed is None else seed
    with terminal.busy():
        verdict = bench.verify(
            bench.BenchFolder(path), seed=drawn, allow_code=allow_code
        )
    terminal.result(f"{verdict.cell.label} ({verdict.cell.address}), --seed {drawn}")
    for change in verdict.changes:
        terminal.say(f"Note: {change}")
    if verdict.is_same:
        terminal.result("Identical: every round, item by item and bit by bit.")
        return
    for difference in verdict.differences:
        terminal.result(difference)
    raise typer.Exit(1)


def _known_name(name: str, known: Collection[str]) -> str:
    """Return the name of an experiment; dashes stand for underscores too."""
    for spelling in (name, name.replace("-", "_")):
        if spelling in known:
            return spelling
    raise UnknownNameError("experiment in this folder", name, known)


def _chosen(
    recipe: str,
    strategies: str | None,
    seeds: str | None,
    encoder: str | None,
    *,
    allow_code: bool,
) -> "Experiment":
    """Return the experiment with strategies, seeds and encoder as asked for."""
    if recipe.endswith((".yaml", ".yml")):
        allowed = allow_code or split_names(strategies or "")
        found = bench.read_experiment(Path(recipe), allow_code=allowed)
    else:
        found = bench.recipe(recipe)
    changes: dict[str, object] = {}
    if strategies is not None:
        changes["strategies"] = read_strategies(strategies, found)
    if seeds is not None:
        changes["seeds"] = read_seeds(seeds)
    if encoder is not None:
        changes["conditions"] = tuple(one.over(encoder) for one in found.conditions)
    return bench.checked(found.model_copy(update=changes))


def _engine(
    name: str, *, workers: int | None, address: str | None, gpus: float
) -> "Engine":
    on_cluster = {"--address": address, "--gpus": gpus or None}
    options.check_engine(name, local={"--workers": workers}, ray=on_cluster)
    if name == "local":
        return bench.LocalEngine(num_workers=workers)
    return bench.RayEngine(address=address, gpus=gpus)


def _new_cost(experiment: "Experiment") -> "ExperimentCost":
    """Return what an experiment costs where nothing is done yet."""
    nowhere = bench.BenchFolder(Path(os.devnull))
    workers = bench.LocalEngine().num_workers
    return bench.estimate(experiment, nowhere, num_workers=workers)


def _told_cost(
    experiment: "Experiment",
    folder: "BenchFolder",
    engine: "Engine",
    num_steps: int | None,
    terminal: Terminal,
) -> "ExperimentCost":
    """Say what an experiment will cost; train a few steps before, if asked to."""
    seconds = None
    if num_steps is not None:
        with terminal.busy():
            found = bench.measure(experiment, num_steps)
        seconds = found.seconds_per_step
        loss = "" if found.loss is None else f", loss {found.loss:.3f}"
        told = f"{num_steps} steps took {seconds:.3g} seconds each{loss}"
        terminal.result(f"{experiment.name}: {told}")
    cost = bench.estimate(
        experiment, folder, num_workers=engine.num_workers, seconds_per_step=seconds
    )
    for line in cost_lines(experiment, cost):
        terminal.result(line)
    for sentence in bench.outdated(experiment, folder):
        terminal.say(f"Note: {sentence}")
    return cost


def do_runs(
    experiment: "Experiment",
    folder: "BenchFolder",
    engine: "Engine",
    terminal: Terminal,
    *,
    tensorboard: bool = False,
    uri: str | None = None,
    lines: int | None = None,
) -> int:
    """Do the runs, say how each ended (or ``lines`` of them), return the failed."""
    before = folder.asked(experiment.name)
    asked = folder.ask_for(experiment)
    if before is not None and not asked.continues(before):
        terminal.say(other_conditions_line(asked))
    log = None if uri is None else bench.Mlflow(uri, experiment.name)
    cells = bench.plan(experiment).all
    failed, total = [], len(cells)
    done = total - len(folder.missing(cells))
    with terminal.busy():
        for ended in bench.run(experiment, folder, engine, tensorboard=tensorboard):
            done += 1
            if ended.error is not None:
                failed.append(ended.cell)
            is_due = (
                lines is None or done * lines // total > (done - 1) * lines // total
            )
            if is_due or ended.error is not None:
                terminal.say(ended_line(ended, folder, done, total))
    if log is not None:
        for cell in cells:
            if folder.is_finished(cell):
                log.send(cell, folder)
    return len(folder.missing(failed))  # another command may have done some
