"""``fewlabels cache list, prune``: which features are kept, and how to free space."""

import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fewlabels.cli.options import Json
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.errors import UsageError
from fewlabels.features import pruning
from fewlabels.features.cache import FeatureCache
from fewlabels.features.pruning import Kept

app = typer.Typer(
    name="cache",
    help="List, measure and prune cached image features.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Folder = Annotated[
    Path | None,
    typer.Argument(help="Cache folder. [default: the user's]"),
]
_GB = 10**9


@app.command("list")
def show(folder: Folder = None, *, as_json: Json = False) -> None:
    """Show which rows are cached: encoder, view, number and size."""
    cache = _cache(folder)
    _told(cache, pruning.listed(cache), as_json=as_json)


@app.command()
def prune(
    folder: Folder = None,
    *,
    encoder: Annotated[
        str, typer.Option(help="Only encoders whose name contains this.")
    ] = "",
    unused: Annotated[
        float,
        typer.Option(min=0, metavar="DAYS", help="Only rows unused this long."),
    ] = 0,
    down_to: Annotated[
        float, typer.Option(min=0, metavar="GB", help="Stop when this much is left.")
    ] = 0,
    everything: Annotated[bool, typer.Option("--all", help="Remove all.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove rows, the longest unused first; they are computed again when needed."""
    if not (encoder or unused or down_to or everything):
        raise UsageError(
            "Nothing says which rows may go. Name an --encoder, how long they have "
            "been --unused, a size to go --down-to, or --all."
        )
    cache = _cache(folder)
    going = pruning.chosen(
        pruning.listed(cache),
        encoder=encoder,
        unused=timedelta(days=unused),
        most_bytes=round(down_to * _GB),
    )
    _told(cache, going, as_json=as_json)
    if going and not yes:
        typer.confirm("Remove these rows?", abort=True, err=True)
    pruning.remove(going)
    if going:
        Terminal.open(quiet=as_json).result(f"{_size(going)} freed.")


def _cache(folder: Path | None) -> FeatureCache:
    if folder is None:
        return FeatureCache.of_this_user()
    if not folder.is_dir():
        raise UsageError(f"There is no folder '{folder}'.")
    return FeatureCache(folder)


def _told(cache: FeatureCache, kept: list[Kept], *, as_json: bool) -> None:
    """Print what is in a cache, or goes from it."""
    if as_json:
        told = {"folder": cache.folder, "kept": [asdict(one) for one in kept]}
        print_line(json.dumps(told, default=str))
        return
    terminal = Terminal.open(quiet=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("encoder", "view", "images"):
        table.add_column(name, overflow="fold")
    for name in ("rows", "size", "last used"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in kept:
        day = f"{one.last_used.astimezone():%Y-%m-%d}"
        words = (one.encoder, one.view, one.images)
        table.add_row(*words, f"{one.num_rows:,}", _size([one]), day)
    if kept:
        terminal.result(table)
        terminal.result(f"{_size(kept)} in {cache.folder}")
    else:
        terminal.result(f"No rows found in {cache.folder}.")


def _size(kept: list[Kept]) -> str:
    num_bytes = sum(one.num_bytes for one in kept)
    return (
        f"{num_bytes / _GB:.2f} GB" if num_bytes >= _GB else f"{num_bytes / 1e6:.1f} MB"
    )
