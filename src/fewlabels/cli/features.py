"""``fewlabels encoders, cache``: what makes features here, and which are kept."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal
from typer import Argument, Option

from fewlabels.cli import options
from fewlabels.cli.options import Json, documented
from fewlabels.cli.terminal import Terminal, table
from fewlabels.errors import UsageError, check_range
from fewlabels.models.cache import CacheEntry, FeatureCache, remove, select_unused
from fewlabels.models.catalog import RECOMMENDED
from fewlabels.models.encoders import available, describe, forms

Folder = Annotated[Path | None, Argument(help="Cache folder. [default: the user's]")]
_GB = 10**9
cache = options.group("List, measure and prune cached image features.")


def encoders(
    names: list[str] | None = None,
    *,
    download: options.Download = False,
    terminal: options.QuietOrJson,
) -> None:
    """List the encoders on this machine with their licenses, and how to name others.

    Options:
        names (NAME...): Only these, such as local-dir:PATH. [default: all that are
            here]
    """
    for name in names or ():
        options.local_encoder(name, download=download)
    shown = [describe(name) for name in names] if names else available()
    drawn = table("encoder", "license")
    for encoder in shown:
        terminal.json(asdict(encoder))
        drawn.add_row(encoder.name, encoder.license)
    terminal.result(drawn)
    for encoder in shown:
        if encoder.note:
            terminal.result(f"{encoder.name}: {encoder.note}")
    if not names:
        here, columns = {encoder.name for encoder in shown}, ("MB", "pixels")
        drawn = table("to download", "license", *columns, "good for", right=columns)
        for name, facts in RECOMMENDED.items():
            if name not in here:
                terminal.json({"name": name, "is_here": False, **facts._asdict()})
                numbers = (str(facts.megabytes), str(facts.side))
                doubt = "" if facts.is_tried else "; real weights not tested"
                drawn.add_row(name, facts.license, *numbers, facts.good_for + doubt)
        terminal.result(drawn)
        terminal.result("'fewlabels encoders NAME --download' fetches one of them.")
        terminal.result("Any other is named by where it is:")
        for form, note in forms().items():
            terminal.result(f"  {form}: {note}" if note else f"  {form}")


@cache.command("list")
@documented
def show(folder: Folder = None, *, terminal: Json) -> None:
    """Show which rows are cached: encoder, view, number and size."""
    kept_in = _cache(folder)
    _print_kept(kept_in, kept_in.entries(), terminal)


@cache.command()
@documented
def prune(
    folder: Folder = None,
    *,
    encoder: str = "",
    unused: float = 0,
    down_to: float = 0,
    everything: Annotated[bool, Option("--all", help="Remove all.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    terminal: Json,
) -> None:
    """Remove rows, the longest unused first; they are computed again when needed.

    Options:
        encoder: Only encoders whose name contains this.
        unused (DAYS): Only rows unused this long.
        down_to (GB): Stop when this much is left.
    """
    check_range("--unused", unused, at_least=0)
    check_range("--down-to", down_to, at_least=0)
    if not (encoder or unused or down_to or everything):
        raise UsageError("Give --encoder, --unused, --down-to or --all.")
    kept_in = _cache(folder)
    going = select_unused(
        kept_in.entries(),
        encoder=encoder,
        unused=timedelta(days=unused),
        max_bytes=round(down_to * _GB),
    )
    _print_kept(kept_in, going, terminal)
    if going:
        if not yes:
            typer.confirm("Remove these rows?", abort=True, err=True)
        remove(going)
        terminal.result(f"{_size(going)} freed.")


def _cache(folder: Path | None) -> FeatureCache:
    if folder is None:
        return FeatureCache.of_this_user()
    if not folder.is_dir():
        raise UsageError(f"There is no folder '{folder}'.")
    return FeatureCache(folder)


def _print_kept(
    kept_in: FeatureCache, kept: list[CacheEntry], terminal: Terminal
) -> None:
    """Print what is in a cache, or goes from it."""
    rows = [asdict(entry) for entry in kept]
    terminal.json({"folder": kept_in.folder, "kept": rows})
    numbers = ("rows", "size", "last used")
    drawn = table("encoder", "view", "images", *numbers, right=numbers)
    for entry in kept:
        day = f"{entry.last_used.astimezone():%Y-%m-%d}"
        words = (entry.encoder, entry.view, entry.images)
        drawn.add_row(*words, f"{entry.num_rows:,}", _size([entry]), day)
    if kept:
        terminal.result(drawn)
        terminal.result(f"{_size(kept)} in {kept_in.folder}")
    else:
        terminal.result(f"No rows found in {kept_in.folder}.")


def _size(kept: list[CacheEntry]) -> str:
    return decimal(sum(entry.num_bytes for entry in kept))
