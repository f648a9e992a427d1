"""All images of a source once through an encoder, into a folder of shards."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fewlabels.embedding import sources
from fewlabels.embedding.engines import Done, Engine
from fewlabels.embedding.shards import ShardFolder
from fewlabels.embedding.sources import Listing, Portion
from fewlabels.embedding.work import Order
from fewlabels.errors import UnreadableFile, UsageError
from fewlabels.features import encoders
from fewlabels.features.encoders import NORMAL, QUALITIES
from fewlabels.integers import whole_number
from fewlabels.naming import check_known
from fewlabels.progress import track

SHARD_SIZE = 1024
"""Images of a shard, unless told otherwise."""

_MOST_PIXELS = 2**31  # bytes that a worker holds of a shard
_COLORS = 3


@dataclass(frozen=True)
class Embedded:
    """What became of a source."""

    folder: Path
    num_rows: int
    num_shards: int
    num_found: int
    """Shards that were there already."""
    unreadable: tuple[UnreadableFile, ...]
    """Images that are in no shard; ``unreadable.csv`` lists them too."""


@dataclass(frozen=True)
class Work:
    """Images to embed, by what, and where the shards go."""

    listing: Listing
    encoder: str
    options: Mapping[str, Any]
    side: int
    """Side of the squares that images are brought to."""
    folder: ShardFolder
    plan: Mapping[str, Any]
    """What decides the rows."""
    done: list[Done] = field(default_factory=list)
    """What took how long, of every shard that was made here."""

    @cached_property
    def num_images(self) -> int:
        """Number of images, readable or not."""
        return self.listing.num_images

    def order(self, number: int, portion: Portion, file: Path | None = None) -> Order:
        """Return what a worker is told to do with a portion."""
        return {
            "portion": portion,
            "encoder": self.encoder,
            "options": dict(self.options),
            "side": self.side,
            "file": str((file or self.folder.file(number)).absolute()),
        }

    def run(self, engine: Engine) -> Embedded:
        """Make the shards that are missing.

        A process that is killed goes on with the same call.

        Args:
            engine: Who does the work.

        Returns:
            How much there is now.
        """
        with self.folder.alone():
            self.folder.begin(self.plan)
            missing = [number for number, found in self._found() if found is None]
            portions = self.listing.portions
            sizes = [sources.num_images(portions[number]) for number in missing]
            orders = [self.order(number, portions[number]) for number in missing]
            before = self.num_images - sum(sizes)
            with track("Embedding", self.num_images, done=before) as advance:
                for one in _run(engine, orders, self.folder.path):
                    self.done.append(one)
                    advance(sizes[one["number"]])
            return self._summary(num_found=len(portions) - len(missing))

    def _found(self) -> Iterator[tuple[int, Any]]:
        for number, portion in enumerate(self.listing.portions):
            yield number, self.folder.written(number, sources.digest(portion))

    def _summary(self, *, num_found: int) -> Embedded:
        written = [found for _, found in self._found() if found is not None]
        unreadable = [
            *self.listing.left_out,
            *(file for one in written for file in one.unreadable),
        ]
        self.folder.list_unreadable(unreadable)
        num_rows = sum(one.num_rows for one in written)
        return Embedded(
            self.folder.path, num_rows, len(written), num_found, tuple(unreadable)
        )


def planned(
    source: Path,
    out: Path,
    *,
    encoder: str | None = None,
    quality: str | None = None,
    shard_size: int = SHARD_SIZE,
) -> Work:
    """Look at a source and an encoder; nothing is written yet.

    Args:
        source: A folder of images, of tar files (a WebDataset) or of Parquet tables
            with images; a manifest; such a tar file or table.
        out: The folder of the shards: new, or one that was begun with the same.
        encoder: What makes the rows: any name that :mod:`fewlabels.features.encoders`
            knows, but none that has to learn from the images first.
        quality: How many pixels it sees: ``"fast"`` (96 a side), ``"normal"`` (160) or
            ``"best"`` (224); None: as the encoder says, else normal.
        shard_size: Images of a shard, and so what is lost when a worker is.

    Returns:
        The work, to be run by an engine.
    """
    shard_size = whole_number("shard_size", shard_size)
    name = encoder or encoders.ENCODER
    options, side = _seen_at(name, quality)
    most = _MOST_PIXELS // (_COLORS * side * side)
    if not 0 < shard_size <= most:
        raise UsageError(
            f"The shard size is {shard_size}; a worker holds a shard in memory, which "
            f"at {side} pixels a side may have 1 to {most:,} images."
        )
    made = encoders.resolve(name, **options)
    listing = sources.listed(source.expanduser(), shard_size)
    plan = {
        "source": str(source.expanduser().resolve()),
        "images": listing.num_images,
        "listing": _digest(listing.portions),
        "encoder": made.name,
        "side": side,
        "shard_size": shard_size,
    }
    placed = encoders.placed(name)
    return Work(listing, placed, options, side, ShardFolder(out.expanduser()), plan)


def _seen_at(encoder: str, quality: str | None) -> tuple[dict[str, Any], int]:
    """Return the options of an encoder, and the side of the images that it sees."""
    if encoder == encoders.LEARNED:
        raise UsageError(
            f"The encoder '{encoder}' learns from all images first, which needs them "
            "in one place; choose one that is trained already."
        )
    if quality is not None:
        check_known("quality", quality, encoders.Quality)
        if encoder == encoders.PIXELS:
            raise UsageError(
                f"The quality '{quality}' would have no effect, since the encoder "
                f"'{encoder}' has a size of its own; leave it out."
            )
    side = next(size for name, size in QUALITIES.items() if name == (quality or NORMAL))
    options = encoders.sized(encoder, {}, side, is_asked=quality is not None)
    return options, encoders.side(encoder, **options) or side


def _digest(portions: Sequence[Portion]) -> str:
    found = blake2b(digest_size=16)
    for portion in portions:
        found.update(sources.digest(portion).encode())
    return found.hexdigest()


def _run(engine: Engine, orders: Sequence[Order], out: Path) -> Iterator[Done]:
    if not orders:
        return
    with closing(engine.run(orders, out)) as running:
        yield from running
