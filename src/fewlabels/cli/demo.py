"""``fewlabels demo``: NPC against random on the embedded digits."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fewlabels import data
from fewlabels.cli.options import Json, Quiet
from fewlabels.cli.run import described, in_folder
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.files import check_free
from fewlabels.report import AccuracyTable, accuracy_table, write_report
from fewlabels.runs import Choice, RunFolder, RunSettings

_STRATEGIES = ("npc", "random")
_FAST_STEPS = 200
_REPORT = "report.html"


def demo(
    *,
    fast: Annotated[
        bool, typer.Option("--fast", help="Train only briefly, to see that it works.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs and report. [default: fewlabels-demo]"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label digits with NPC and at random, side by side, and write a report.

    Ten labels, one per digit, then twenty more, twice; after each query a network is
    trained on labeled and unlabeled images by FixMatch with DARP.
    """
    place = out or Path("fewlabels-demo-fast" if fast else "fewlabels-demo")
    hidden = (entry.name for entry in place.glob(".*"))
    check_free(place, "demo", *_STRATEGIES, _REPORT, *hidden)
    terminal = Terminal.open(quiet=quiet or as_json)
    folders = {name: RunFolder(place / name) for name in _STRATEGIES}
    options = {"steps": _FAST_STEPS} if fast else {}
    with terminal.busy():
        pool = data.load("digits")
        for strategy, folder in folders.items():
            terminal.say(f"{strategy}: choosing from {len(pool)} images of digits")
            settings = RunSettings(
                data=Choice(name="digits"),
                strategy=Choice(name=strategy),
                trainer=Choice(name="fixmatch-darp", options=options),
                seed=seed,
            )
            with folder.listening():
                for finished in in_folder(settings, folder, pool):
                    terminal.say(described(finished))
        report = write_report(place / _REPORT, list(folders.values()), pool)
    found = accuracy_table(list(folders.values()))
    if as_json:
        accuracy = {
            row.name: dict(zip(found.num_labels, row.accuracies, strict=True))
            for row in found.rows
        }
        print_line(json.dumps({"accuracy": accuracy, "report": str(report.resolve())}))
    terminal.result(_drawn(found))
    terminal.result(f"Report: {report.resolve()}")


def _drawn(found: AccuracyTable) -> Table:
    """Return the accuracies for a terminal: a row per strategy, a column per budget."""
    table = Table("strategy", title="Accuracy by number of labels")
    for amount in found.num_labels:
        table.add_column(f"{amount} labels", justify="right")
    for row in found.rows:
        cells = ("" if a is None else f"{100 * a:.1f} %" for a in row.accuracies)
        table.add_row(row.name, *cells)
    return table
