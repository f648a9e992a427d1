"""What a cache of features holds, and how it gets smaller.

Files are known by a description that names the encoder their own name begins with, and
lies beside rows, as a cache writes them. Whatever else is in the folder is left.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fewlabels import files
from fewlabels.errors import StorageError
from fewlabels.features.cache import ENTRY, FeatureCache, described, in_use, words_of

_NAME = re.compile(r"(.+)-[0-9a-f]{32}\.(json|jsonl)")
_ENCODER = re.compile(rb'\s*\{.*?"encoder": ("(?:[^"\\]|\\.)*")', re.DOTALL)
_MOST_BYTES = 10_000
_BESIDE = {"json": ("index", "rows"), "jsonl": ("npy",)}
"""What lies beside a description; that of earlier versions was ``NAME.jsonl``."""


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
    kept = []
    for path in cache.folder.iterdir() if cache.folder.is_dir() else ():
        if path.is_file() and _is_ours(path):
            others = (path.with_suffix(f".{one}") for one in _BESIDE[path.suffix[1:]])
            there = [other for other in others if other.is_file()]
            kept += [_kept([*there, path])] if there else []
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
    :class:`~fewlabels.errors.StorageError` when the others are gone.
    """
    left: dict[str, None] = {}
    for one in kept:
        lock = one.files[0].with_suffix(".lock")
        try:
            with files.alone(lock, in_use(one.encoder)), files.explained(lock.parent):
                for path in one.files:
                    path.unlink(missing_ok=True)
        except StorageError as error:
            left[str(error)] = None
    if left:
        raise StorageError(" ".join(left))


def _is_ours(path: Path) -> bool:
    """Return whether a file describes rows: it names its encoder, damaged or not."""
    name = _NAME.fullmatch(path.name)
    if not name:
        return False
    try:
        with path.open("rb") as file:
            found = _ENCODER.match(file.read(_MOST_BYTES))
        return found is not None and words_of(json.loads(found[1])) == name[1]
    except (OSError, ValueError):  # what cannot be read cannot be told to be ours
        return False


def _kept(paths: list[Path]) -> Kept:
    """Measure rows; their description is the last of the files."""
    told = described(paths[-1]) if paths[-1].suffix == ".json" else {}
    states = {path.suffix[1:]: path.stat() for path in paths}
    last = states["json"] if told else max(states.values(), key=lambda s: s.st_mtime)
    is_read = told and "index" in states
    return Kept(
        encoder=str(told.get("encoder", paths[-1].stem.rpartition("-")[0])),
        view=str(told["view"]) if is_read else "(earlier version, or damaged)",
        images=str(told.get("images", "")),
        num_rows=states["index"].st_size // ENTRY.itemsize if is_read else 0,
        num_bytes=sum(state.st_size for state in states.values()),
        last_used=datetime.fromtimestamp(last.st_mtime, UTC),
        files=tuple(paths),
    )
