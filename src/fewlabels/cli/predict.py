"""``fewlabels predict``: an exported model on new images."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fewlabels.cli.options import Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.integers import count
from fewlabels.projects import Predictions
from fewlabels.projects import predict as predicted
from fewlabels.projects.export import check_replaceable_table
from fewlabels.projects.export.tables import check_ending


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of an exported model.")
    ],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Folder of images, including subfolders; or rows: a file (.parquet, "
            ".npz, .npy) or a folder of shards.",
        ),
    ],
    *,
    out: Annotated[
        Path, typer.Option(help="Where to write: a .csv or .parquet file.")
    ] = Path("predictions.csv"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Use an exported model on new images and write its predictions.

    One row per image: file_name, label, confidence, source, and a probability per
    class. Unreadable files are listed and left out. Earlier predictions are replaced;
    any other file is left alone.
    """
    check_ending(out)
    check_replaceable_table(out)
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy():
        found = predicted(model, source)
    found.write(out)
    for file in found.unreadable:
        terminal.say(f"Left out: {file}")
    if as_json:
        print_line(json.dumps(_summary(found, out)))
    else:
        terminal.result(_described(found, out))


def _summary(found: Predictions, out: Path) -> dict[str, object]:
    return {
        "out": str(out),
        "num_images": len(found),
        "labels": dict(Counter(found.labels)),
        "unreadable": {file.name: file.reason for file in found.unreadable},
    }


def _described(found: Predictions, out: Path) -> str:
    """Say in a line what came out."""
    counts = Counter(found.labels).most_common()
    shares = ", ".join(f"{name} {number}" for name, number in counts)
    left_out = len(found.unreadable)
    rest = f" {left_out} could not be read." if left_out else ""
    items = count(len(found), "row" if found.are_rows else "image")
    return f"{items}: {shares}.{rest} Written to {out}"
