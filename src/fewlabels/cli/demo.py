"""``fewlabels demo``: the whole story on the embedded digits."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fewlabels import data
from fewlabels.cli.run import Json, Quiet, described, in_folder
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.errors import ForeignFolderError
from fewlabels.report import write_report
from fewlabels.runs import Choice, RunFolder, RunSettings

_STRATEGIES = ("npc", "random")
_FAST_STEPS = 200
_REPORT = "report.html"


def demo(
    *,
    fast: Annotated[
        bool, typer.Option("--fast", help="A short training, to see that it works.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of runs and report. [default: fewlabels-demo]"),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label digits with NPC and at random, side by side, and write a report.

    Ten labels, one per digit, then twenty more, twice; after each query a network is
    trained on labeled and unlabeled images with FixMatch.
    """
    place = out or Path("fewlabels-demo-fast" if fast else "fewlabels-demo")
    _check_place(place)
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
                trainer=Choice(name="fixmatch", options=options),
                seed=seed,
            )
            for finished in in_folder(settings, folder, pool):
                terminal.say(described(finished))
        report = write_report(place / _REPORT, list(folders.values()), pool)
    accuracy = {
        name: {line.num_labeled: line.accuracy for line in folder.lines()}
        for name, folder in folders.items()
    }
    if as_json:
        print_line(json.dumps({"accuracy": accuracy, "report": str(report.resolve())}))
    terminal.result(_drawn(accuracy))
    terminal.result(f"Report: {report.resolve()}")


def _check_place(place: Path) -> None:
    """Raise unless the folder is new, empty or a demo's."""
    strangers = {entry.name for entry in place.glob("*")} - {*_STRATEGIES, _REPORT}
    if strangers or place.is_file():
        msg = (
            f"'{place}' holds something else than a demo (such as "
            f"'{min(strangers, default=place.name)}'); nothing was touched. Give an "
            "empty or new folder with --out."
        )
        raise ForeignFolderError(msg)


def _drawn(accuracy: Mapping[str, Mapping[int, float | None]]) -> Table:
    """Return the accuracies as a table: a row per strategy, a column per budget."""
    counts = sorted({count for row in accuracy.values() for count in row})
    table = Table("strategy", title="Accuracy after so many labels")
    for count in counts:
        table.add_column(f"{count} labels", justify="right")
    for name, row in accuracy.items():
        cells = [row.get(count) for count in counts]
        table.add_row(name, *("" if c is None else f"{100 * c:.1f} %" for c in cells))
    return table
