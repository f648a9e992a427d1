"""``fewlabels encoders``: what can make features here, and how fast."""

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fewlabels import progress
from fewlabels.cli.options import Download, Json, Quiet, found_encoder
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.errors import FewlabelsError
from fewlabels.features import listing
from fewlabels.features.listing import Listed, Speed


def encoders(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Only these, such as local-dir:PATH. [default: all that are here]",
        ),
    ] = None,
    *,
    untimed: Annotated[
        bool, typer.Option("--untimed", help="Do not try them; takes no time.")
    ] = False,
    download: Download = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """List the encoders on this machine: license, width, time for an image.

    Each is tried on 32 black images of the size it asks for.
    """
    for name in names or ():
        found_encoder(name, download=download)
    found = [listing.brought(name) for name in names] if names else listing.listed()
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy():
        rows = _tried(found, untimed=untimed)
    if as_json:
        for one, speed in rows:
            told = {} if speed is None else speed._asdict()
            print_line(json.dumps(asdict(one) | told))
        return
    terminal.result(_table(rows))
    for one, _ in rows:
        if one.note:
            terminal.result(f"{one.name}: {one.note}")
    if not names:
        terminal.result("Any other is named by where it is:")
        for way in listing.ways():
            terminal.result(f"  {way.name}{way.note and f': {way.note}'}")


def _tried(found: list[Listed], *, untimed: bool) -> list[tuple[Listed, Speed | None]]:
    """Return each with how fast it is; None where that is not known."""
    rows: list[tuple[Listed, Speed | None]] = []
    with progress.track("Measuring", len(found)) as advance:
        for one in found:
            told, speed = one, None
            if one.is_here and not untimed:
                try:
                    speed = listing.speed(one.name)
                except FewlabelsError as error:
                    told = replace(one, note=str(error), is_here=False)
            rows.append((told, speed))
            advance(1)
    return rows


def _table(rows: list[tuple[Listed, Speed | None]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("encoder", overflow="fold")
    table.add_column("license", no_wrap=True)
    for name in ("features", "pixels", "ms an image"):
        table.add_column(name, justify="right", no_wrap=True)
    for one, speed in rows:
        numbers = ("", "", "")
        if speed is not None:
            pixels = "any" if speed.side is None else str(speed.side)
            numbers = (f"{speed.feature_size:,}", pixels, _short(speed.milliseconds))
        table.add_row(one.name, one.license, *numbers)
    return table


def _short(milliseconds: float) -> str:
    least = 0.1
    return f"{milliseconds:.1f}" if milliseconds >= least else f"< {least}"
