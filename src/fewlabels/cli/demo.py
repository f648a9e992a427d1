"""``fewlabels demo``: strategies compared on digits."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from typer import Exit

from fewlabels.cli.bench import do_runs
from fewlabels.cli.options import Json, Quiet
from fewlabels.cli.terminal import Terminal, print_json, table
from fewlabels.experiments import bench
from fewlabels.jobs import LocalExecutor

if TYPE_CHECKING:
    from fewlabels.report.bench_sections import ConditionContext

_SHOWN = (10, 20, 30, 50, 100)  # numbers of labels that a terminal has room for


def demo(
    *,
    fast: bool = False,
    out: Path | None = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare four ways to choose digits to label, and write a report.

    From 10 to 100 labels with a learner that takes milliseconds, and from 10 to 20 with
    FixMatch and DARP, as in the paper; with the same seeds for all.

    Options:
        fast: Train only briefly, to see that it works.
        out: Folder for runs and report. [default: fewlabels-demo]
    """
    from fewlabels.experiments.bench.recipes import demo as demo_experiment
    from fewlabels.report import write_bench_report
    from fewlabels.report.bench import finding
    from fewlabels.report.bench_sections import context_of

    experiment = bench.checked(demo_experiment(is_fast=fast))
    terminal = Terminal(quiet or as_json)
    folder = bench.BenchFolder(out or Path(f"fewlabels-demo{'-fast' * fast}"))
    folder.open()
    failed = do_runs(experiment, folder, LocalExecutor(), terminal, lines=10)
    page = write_bench_report(folder, experiment.name).resolve()
    context = context_of(bench.read_results(folder, experiment))
    shown = {each.results.condition.name: each for each in context.conditions}
    results = {name: _results(each) for name, each in shown.items()}
    if as_json:
        print_json({"results": results, "report": page})
    for name, each in shown.items():
        terminal.result(_demo_table(each, results[name]))
    terminal.result(finding(context))
    terminal.result(f"Report: {page}")
    is_on_path = shutil.which("fewlabels") or Path(sys.argv[0]).name != "fewlabels"
    command = "fewlabels" if is_on_path else sys.argv[0]
    terminal.result("Next, with a folder of your own images:")
    terminal.result(f"  {command} start FOLDER --classes cat,dog")
    if failed:
        raise Exit(1)


def _results(condition: "ConditionContext") -> list[dict[str, Any]]:
    """Return mean accuracies, what labels were worth, and the lead at the end."""
    from fewlabels.experiments.evaluation import paired_tests
    from fewlabels.report.bench_sections import savings_of

    ends = {name: array[:, -1] for name, array in condition.accuracies.items()}
    tests = paired_tests(ends, against="random") if condition.can_be_tested else ()
    leads = {test.name: [test.difference, test.low, test.high] for test in tests}
    return [
        {
            "strategy": name.partition(" (")[0],  # without its options
            "labels": condition.num_labels,
            "accuracy": array.mean(axis=0).tolist() if condition.seeds else [],
            "lead": leads.get(name),
            "worth": {
                saving.num_labels: [saving.amount, saving.interval]
                for saving in savings_of(condition, name)
            },
        }
        for name, array in condition.accuracies.items()
    ]


def _demo_table(condition: "ConditionContext", rows: list[dict[str, Any]]) -> Table:
    """Return accuracies for the terminal: a row per strategy, a column per number."""
    labels, subject = rows[0]["labels"], condition.experiment.subject
    shown = [place for place, number in enumerate(labels) if number in _SHOWN]
    columns = [*(str(labels[place]) for place in shown), "lead (95 % interval)"]
    drawn = table(
        *("labels", *columns),
        right=columns,
        title=f"{condition.results.condition.name}, {condition.seeds_text}: accuracy "
        "(%) by labels; lead over random at the end",
        title_justify="left",
        caption_justify="left",
    )
    for row in rows:
        means = [f"{100 * row['accuracy'][place]:.1f}" for place in shown]
        lead = ""
        if row["lead"] is not None:
            difference, low, high = (100 * number for number in row["lead"])
            lead = f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"
        drawn.add_row(row["strategy"], *means, lead)
        if row["strategy"] == subject and row["worth"]:
            worth = [row["worth"][labels[place]][0] for place in shown]
            drawn.add_row("worth", *(text.replace("over ", ">") for text in worth))
            drawn.caption = (
                f"worth: how many random labels reach {subject}'s accuracy\n"
            )
    return drawn
