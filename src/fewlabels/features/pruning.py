"""What a cache of features holds, and how it gets smaller.

Files are known by their names: words, a hash of 32 digits, an ending; and at least two
with the same name, as a cache writes them. Whatever else is in the folder is left.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fewlabels import files
from fewlabels.features.cache import ENTRY, FeatureCache, described, in_use

_OURS = re.compile(r"(.+)-[0-9a-f]{32}\.(index|rows|json|npy|jsonl)")
_ORDER = ("index", "npy", "rows", "jsonl", "json")  # what is counted goes first


@dataclass(frozen=True)
class Kept:
    """Rows that were made in the same way: by one encoder, of one view."""

    encoder: str
    """Name of the encoder, which tells its weights."""
    view: str
    """Which view of the images; of what an earlier version left and nobody reads, and
    of what is damaged, a remark in parentheses."""
    images: str
    """Shape of the images, such as ``"3x96x96"``."""
    num_rows: int
    num_bytes: int
    last_used: datetime
    """When somebody last asked for the rows."""
    files: tuple[Path, ...]
    """In the order in which they are removed."""


def listed(cache: FeatureCache) -> list[Kept]:
    """Return what a cache holds, the last used first."""
    found: dict[str, list[Path]] = {}
    if cache.folder.is_dir():
        for path in cache.folder.iterdir():
            if _OURS.fullmatch(path.name) and path.is_file():
                found.setdefault(path.stem, []).append(path)
    kept = [_kept(stem, paths) for stem, paths in found.items() if len(paths) > 1]
    return sorted(kept, key=lambda one: one.last_used, reverse=True)


def chosen(
    kept: Sequence[Kept],
    *,
    encoder: str = "",
    unused: timedelta = timedelta(0),
    most_bytes: int = 0,
) -> list[Kept]:
    """Return what may go, the least recently used first.

    Args:
        kept: What there is.
        encoder: Words in the names of encoders; rows of others stay.
        unused: What was asked for within this time stays.
        most_bytes: As soon as no more than that is left, the rest stays.

    Returns:
        A part of ``kept``.
    """
    before = datetime.now(UTC) - unused
    excess = sum(one.num_bytes for one in kept) - most_bytes
    found = []
    for one in sorted(kept, key=lambda one: one.last_used):
        if excess > 0 and encoder in one.encoder and one.last_used <= before:
            found.append(one)
            excess -= one.num_bytes
    return found


def remove(kept: Iterable[Kept]) -> None:
    """Remove rows; who has opened them can read on, who needs them makes them again.

    Rows that another process is adding to stay, and are told by a
    :class:`~fewlabels.errors.StorageError`.
    """
    for one in kept:
        lock = one.files[0].with_suffix(".lock")
        with files.alone(lock, in_use(one.encoder)), files.explained(lock.parent):
            for path in one.files:
                path.unlink(missing_ok=True)


def _kept(stem: str, paths: list[Path]) -> Kept:
    by_ending = {path.suffix[1:]: path for path in paths}
    told = described(by_ending["json"]) if "json" in by_ending else {}
    states = {ending: path.stat() for ending, path in by_ending.items()}
    last = states["json"] if told else max(states.values(), key=lambda s: s.st_mtime)
    is_read = told and "index" in states
    return Kept(
        encoder=str(told.get("encoder", stem.rpartition("-")[0])),
        view=str(told["view"]) if is_read else "(earlier version, or damaged)",
        images=str(told.get("images", "")),
        num_rows=states["index"].st_size // ENTRY.itemsize if is_read else 0,
        num_bytes=sum(state.st_size for state in states.values()),
        last_used=datetime.fromtimestamp(last.st_mtime, UTC),
        files=tuple(by_ending[one] for one in _ORDER if one in by_ending),
    )
