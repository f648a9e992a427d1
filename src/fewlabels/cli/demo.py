"""``fewlabels demo``: which labels are worth asking for, on the embedded digits."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from fewlabels import bench
from fewlabels.cli.bench import do_runs
from fewlabels.cli.options import Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line

if TYPE_CHECKING:
    from fewlabels.bench import Experiment
    from fewlabels.report.bench.context import ConditionContext

_FAST_STEPS, _FAST_SEEDS = 200, 2
_RIVAL = "random"
_SHOWN = (10, 20, 30, 50, 100)  # numbers of labels that a terminal has room for


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
    """Compare four ways to choose digits to label, and write a report.

    From 10 to 100 labels with a learner that takes milliseconds, and from 10 to 20 with
    FixMatch and DARP, as in the paper; with the same seeds for all.
    """
    from fewlabels.bench.recipes.cpu import demo as demo_experiment
    from fewlabels.report import write_bench_report
    from fewlabels.report.bench.context import context_of
    from fewlabels.report.bench.headline import finding

    experiment = demo_experiment()
    if fast:
        experiment = _shortened(experiment)
    place = out or Path("fewlabels-demo-fast" if fast else "fewlabels-demo")
    terminal = Terminal.open(quiet=quiet or as_json)
    folder = bench.BenchFolder(place)
    folder.open()
    experiment = bench.checked(experiment)
    failed = do_runs(experiment, folder, bench.LocalEngine(), terminal, lines=10)
    page = write_bench_report(folder, experiment.name).resolve()
    context = context_of(bench.read_results(folder, experiment))
    results = {one.results.condition.name: _results(one) for one in context.conditions}
    if as_json:
        print_line(json.dumps({"results": results, "report": str(page)}))
    for one in context.conditions:
        terminal.result(_table(one, results[one.results.condition.name]))
    terminal.result(finding(context))
    terminal.result(f"Report: {page}")
    is_on_path = shutil.which("fewlabels") or Path(sys.argv[0]).name != "fewlabels"
    command = "fewlabels" if is_on_path else sys.argv[0]
    terminal.result("Next, with a folder of your own images:")
    terminal.result(f"  {command} start FOLDER --classes cat,dog")
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


def _results(one: "ConditionContext") -> list[dict[str, Any]]:
    """Return mean accuracies, what labels were worth, and the lead at the end."""
    from fewlabels.evaluation import paired_tests
    from fewlabels.report.bench.savings import savings_of

    found = one.comparable
    ends = {name: array[:, -1] for name, array in found.accuracies.items()}
    tests = paired_tests(ends, against=_RIVAL) if found.can_be_tested else ()
    leads = {test.name: [test.difference, test.low, test.high] for test in tests}
    return [
        {
            "strategy": name.partition(" (")[0],  # without its options
            "labels": found.num_labels,
            "accuracy": array.mean(axis=0).tolist() if found.seeds else [],
            "lead": leads.get(name),
            "worth": {
                saving.num_labels: [saving.amount, saving.interval]
                for saving in savings_of(one, name)
            },
        }
        for name, array in found.accuracies.items()
    ]


def _table(one: "ConditionContext", rows: list[dict[str, Any]]) -> Table:
    """Return accuracies for the terminal: a row per strategy, a column per number."""
    labels, subject = rows[0]["labels"], one.experiment.subject
    shown = [place for place, number in enumerate(labels) if number in _SHOWN]
    title = (
        f"{one.results.condition.name}, {one.seeds_text}: "
        "accuracy (%) by labels; lead over random at the end"
    )
    table = Table(
        "labels",
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for place in shown:
        table.add_column(str(labels[place]), justify="right")
    table.add_column("lead (95 % interval)", justify="right")
    for row in rows:
        means = [f"{100 * row['accuracy'][place]:.1f}" for place in shown]
        lead = ""
        if row["lead"] is not None:
            difference, low, high = (100 * number for number in row["lead"])
            lead = f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"
        table.add_row(row["strategy"], *means, lead)
        if row["strategy"] == subject and row["worth"]:
            worth = [row["worth"][labels[place]][0] for place in shown]
            table.add_row("worth", *(text.replace("over ", ">") for text in worth))
            table.caption = (
                f"worth: how many random labels reach {subject}'s accuracy\n"
            )
    return table
