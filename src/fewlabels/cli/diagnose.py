"""``fewlabels diagnose``: how well conditioned the labels of each round are."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fewlabels import data
from fewlabels.cli.options import AllowCode, Json, Quiet
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.errors import ForeignFolderError
from fewlabels.runs import Conditioning, RunFolder, RunSettings
from fewlabels.runs import diagnose as diagnosed

_MISSING = "–"
_STAND_IN = "*"
_COLUMNS = (
    "labels",
    "λmin",
    "λmin\nwith\nquery",
    "ceiling",
    "rank",
    "pool\nrank",
    "condition",
    "step\nlimit",
)
_WIDEST = 200


def diagnose(
    path: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Run folder, made by 'run'."),
    ],
    *,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show the spectrum of each round's labeled items, from its saved network.

    The smallest eigenvalue of their Gram matrix, the same including the query, the
    ceiling no set can exceed, rank, condition, and the learning rate above which
    linearized gradient descent diverges. Nothing is trained or written.
    """
    folder = RunFolder(path)
    _check_is_run(folder)
    settings = RunSettings.merged(None, folder.description()["settings"])
    torch.set_num_threads(settings.threads)
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy():
        pool = data.load(settings.data.name, **settings.data.options)
        rows = []
        for row in diagnosed(folder, pool, allow_code=allow_code):
            rows.append(row)
            if as_json:
                print_line(json.dumps(row.to_json(), ensure_ascii=False))
    if not rows:
        terminal.say(f"'{path}' contains no finished round yet.")
        return
    terminal.result(_drawn(rows, f"{settings.strategy.name} on {settings.data.name}"))
    for remark in _remarks(rows):
        terminal.result(remark)


def _check_is_run(folder: RunFolder) -> None:
    """Raise unless the folder is a run's; name the runs in it, if there are some."""
    if folder.settings_file.is_file():
        return
    inside = sorted(file.parent.name for file in folder.path.glob("*/run.json"))
    remedy = "Give a run folder, such as one made by 'fewlabels run'."
    if inside:
        names = ", ".join(f"'{folder.path / name}'" for name in inside)
        remedy = f"It contains runs: give one of {names}."
    msg = f"'{folder.path}' is not a run folder (it has no run.json). {remedy}"
    raise ForeignFolderError(msg)


def _drawn(rows: Sequence[Conditioning], title: str) -> Table:
    """Return the table, a row per round, as wide as its numbers are."""
    table = Table(
        title=f"Conditioning of the labeled items: {title}",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kernel", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    table.width = Console(width=_WIDEST).measure(table).maximum
    return table


def _cells(row: Conditioning) -> tuple[str, ...]:
    found = row.spectrum
    kernel = row.missing or row.kernel + (_STAND_IN if row.is_stand_in else "")
    return (
        str(row.num_labeled),
        _number(found.smallest if found else None),
        _number(row.value),
        _number(row.ceiling),
        _number(found.rank if found else None),
        _number(row.feature_rank),
        _number(found.condition if found else None),
        _number(row.step_limit),
        kernel,
    )


def _number(value: float | None) -> str:
    if value is None:
        return _MISSING
    return "∞" if math.isinf(value) else f"{value:.3g}"


def _remarks(rows: Sequence[Conditioning]) -> list[str]:
    """Say what the marks of the table mean, where there are some."""
    stand_ins = [row for row in rows if row.is_stand_in and row.missing is None]
    others = {row.query_kernel: row.kernel for row in stand_ins if row.query_kernel}
    remarks = [
        f"{_STAND_IN} The run used {'its own' if ':' in used else 'the'} kernel "
        f"'{used}', which is not computed here: the values shown are those of the "
        f"{shown} kernel instead."
        for used, shown in others.items()
    ]
    if stand_ins and not others:
        remarks.append(
            f"{_STAND_IN} The round asked for nothing, or did not use a kernel: shown "
            "is the run's earlier kernel, or else the last layer's."
        )
    if any(row.spectrum and row.spectrum.rank < row.num_labeled for row in rows):
        remarks.append(
            "A rank below the number of labels means a singular matrix: its smallest "
            "eigenvalue is zero up to rounding, and no query can raise it."
        )
    return remarks
