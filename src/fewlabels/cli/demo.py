"""``fewlabels demo``: which labels are worth asking for, on the embedded digits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fewlabels import bench
from fewlabels.cli.bench import do_runs
from fewlabels.cli.options import Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line

if TYPE_CHECKING:
    from fewlabels.bench import Experiment
    from fewlabels.bench.results import ConditionResults

_FAST_STEPS, _FAST_SEEDS = 200, 2
_RIVAL = "random"


def demo(
    *,
    fast: Annotated[
        bool, typer.Option("--fast", help="Train only briefly, to see that it works.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs and report. [default: fewlabels-demo]"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare four ways to choose ten digits to label, and write a report.

    With the same seeds for all, by two learners: FixMatch with DARP, the paper's, and
    label spreading, which trains in milliseconds.
    """
    from fewlabels.bench.recipes.cpu import demo as demo_experiment
    from fewlabels.report import write_bench_report
    from fewlabels.report.bench.page import bench_page

    experiment = demo_experiment()
    if fast:
        experiment = _shortened(experiment)
    place = out or Path("fewlabels-demo-fast" if fast else "fewlabels-demo")
    terminal = Terminal.open(quiet=quiet or as_json)
    folder = bench.BenchFolder(place)
    folder.open()
    experiment = bench.checked(experiment)
    failed = do_runs(experiment, folder, bench.LocalEngine(), terminal)
    page = write_bench_report(folder, experiment.name).resolve()
    results = bench.read_results(folder, experiment)
    told = {one.condition.name: list(_rows(one)) for one in results.conditions}
    if as_json:
        print_line(json.dumps({"results": told, "report": str(page)}))
    terminal.result(_drawn(told))
    terminal.result(bench_page(results).headline)
    terminal.result(f"Report: {page}")
    if failed:
        raise typer.Exit(1)


def _shortened(experiment: "Experiment") -> "Experiment":
    """Return the experiment with short trainings of few seeds."""
    conditions = []
    for one in experiment.conditions:
        trainer = one.settings.trainer
        if "checkpoint_every" in trainer.options:  # it takes steps
            options = {"steps": _FAST_STEPS, "checkpoint_every": _FAST_STEPS}
            trainer = trainer.model_copy(update={"options": options})
        settings = one.settings.model_copy(update={"trainer": trainer})
        conditions.append(one.model_copy(update={"settings": settings}))
    changes = {
        "conditions": tuple(conditions),
        "seeds": experiment.seeds[:_FAST_SEEDS],
    }
    return experiment.model_copy(update=changes)


def _rows(found: "ConditionResults") -> Iterator[dict[str, Any]]:
    """Yield what each strategy came to at the end, and its lead over random labels."""
    from fewlabels.evaluation import paired_tests

    seeds = found.complete_seeds
    ends = {name: found.accuracies(name, seeds)[:, -1] for name in found.strategies}
    tests = paired_tests(ends, against=_RIVAL) if len(seeds) > 1 else ()
    leads = {one.name: [one.difference, one.low, one.high] for one in tests}
    for name, accuracies in ends.items():
        mean = float(accuracies.mean()) if len(seeds) else None
        yield {
            "strategy": name.partition(" (")[0],  # without its options
            "accuracy": mean,
            "lead": leads.get(name),
        }


def _drawn(told: dict[str, list[dict[str, Any]]]) -> Table:
    """Return a table for the terminal: a row per strategy, two columns per learner."""
    title = "Accuracy at 20 labels; lead over random, with its 95 % interval"
    table = Table("strategy", title=title)
    for learner in told:
        table.add_column(learner, justify="right")
        table.add_column("lead", justify="right")
    for rows in zip(*told.values(), strict=True):
        cells = [text for row in rows for text in _cells(row)]
        table.add_row(rows[0]["strategy"], *cells)
    return table


def _cells(row: dict[str, Any]) -> tuple[str, str]:
    mean, lead = row["accuracy"], row["lead"]
    accuracy = "" if mean is None else f"{100 * mean:.1f} %"
    if lead is None:
        return accuracy, ""
    difference, low, high = (100 * number for number in lead)
    return accuracy, f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"
