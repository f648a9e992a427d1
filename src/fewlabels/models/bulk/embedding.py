"""All images of a source once through an encoder, into a folder of shards."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fewlabels.errors import UnreadableFile, UsageError, check_range, whole_number
from fewlabels.jobs import Executor, LocalExecutor, error_of
from fewlabels.models import encoders
from fewlabels.models.bulk import sources
from fewlabels.models.bulk.shards import ShardFolder
from fewlabels.models.bulk.sources import Listing, Portion
from fewlabels.models.encoders import NORMAL, QUALITIES
from fewlabels.names import check_known
from fewlabels.progress import track

SHARD_SIZE = 1024
"""Images of a shard, unless told otherwise."""

_CALL = "fewlabels.models.bulk.shards:embed_portion"
_MOST_PIXELS = 2**31  # bytes that a worker holds of a shard
_COLORS = 3
_FIRST, _SAMPLE = 32, 128  # images that a worker tries, unwatched and watched
_PARTS = ("decoding", "embedding", "writing")


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
class Cost:
    """What embedding will cost: seconds of a worker, and bytes.

    Workers do not wait for each other, so W of them are W times as fast, after each has
    loaded its encoder.
    """

    num_images: int
    """Images of the source."""
    shard_size: int
    """Images of a shard."""
    starting: float
    """Seconds until a worker is ready, once."""
    decoding: float
    """Seconds to read and decode an image."""
    embedding: float
    """Seconds that the encoder takes for an image."""
    writing: float
    """Seconds to write a shard, whatever its size."""
    processor: float
    """Seconds of a processor for an image: less where workers wait for a disk, for a
    GPU, or for others who use the machine."""
    row_bytes: float
    """Bytes of an image in a shard."""

    @property
    def per_image(self) -> float:
        """Seconds of a worker for an image."""
        return self.decoding + self.embedding + self.writing / self.shard_size

    @property
    def worker_hours(self) -> float:
        """Hours of all workers together."""
        return self.num_images * self.per_image / 3600

    def seconds(self, num_workers: float) -> float:
        """Return how long so many workers take."""
        return self.starting + 3600 * self.worker_hours / num_workers

    @property
    def num_bytes(self) -> float:
        """Bytes of the shards."""
        return self.num_images * self.row_bytes


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

    @cached_property
    def num_images(self) -> int:
        """Number of images, readable or not."""
        return self.listing.num_images

    def run(self, executor: Executor) -> Embedded:
        """Make the shards that are missing; what was killed goes on with this call.

        Args:
            executor: Who does the work.

        Returns:
            How much there is now.
        """
        portions, file = self.listing.portions, self.folder.file
        digests = list(enumerate(map(sources.digest, portions)))
        with self.folder.begun(self.plan):
            missing = {
                file(number): portions[number]
                for number, digest in digests
                if self.folder.written(number, digest) is None
            }
            sizes = list(map(sources.num_images, missing.values()))
            before = self.num_images - sum(sizes)
            with track("Embedding", self.num_images, done=before) as advance:
                for number, _ in self._done(executor, missing):
                    advance(sizes[number])
            found = [self.folder.written(*which) for which in digests]
            written = [shard for shard in found if shard is not None]
            unreadable = [*self.listing.left_out]
            for _, files in written:
                unreadable += files
            self.folder.list_unreadable(unreadable)
            return Embedded(
                folder=self.folder.path,
                num_rows=sum(num_rows for num_rows, _ in written),
                num_shards=len(written),
                num_found=len(portions) - len(missing),
                unreadable=tuple(unreadable),
            )

    def estimated(self, num_workers: int) -> Cost:
        """Embed some images by as many workers as there will be, and keep nothing.

        Args:
            num_workers: Workers at a time; they share memory and disk.

        Returns:
            The cost of all of it.
        """
        portions = self.listing.portions
        step = max(1, len(portions) // num_workers)
        chosen = portions[::step][:num_workers]
        tried = [sources.first(portion, _SAMPLE) for portion in chosen]
        # What a process does first takes longer than all that follows: not counted.
        some = [*(sources.first(portion, _FIRST) for portion in tried), *tried]
        with tempfile.TemporaryDirectory() as place:
            shards = {
                Path(place) / f"{number}.parquet": portion
                for number, portion in enumerate(some)
            }
            begun = time.perf_counter()
            done = dict(self._done(LocalExecutor(len(tried)), shards))
            seconds = time.perf_counter() - begun
        counted = [done[number] for number in range(len(tried), len(some))]
        num_tried = sum(map(sources.num_images, tried))

        def each(part: str) -> float:
            return float(sum(result[part] for result in counted)) / num_tried

        busy = sum(map(each, _PARTS)) * num_tried / len(tried)
        return Cost(
            num_images=self.num_images,
            shard_size=self.plan["shard_size"],
            starting=max(0.0, seconds - busy),
            decoding=each("decoding"),
            embedding=each("embedding"),
            writing=each("writing") * num_tried / len(tried),
            processor=each("processor"),
            row_bytes=each("num_bytes"),
        )

    def _done(
        self, executor: Executor, shards: Mapping[Path, Portion]
    ) -> Iterator[tuple[int, dict[str, float]]]:
        """Write shards; yield the number of each and what it took."""
        common = {"encoder": self.encoder, "options": self.options, "side": self.side}
        orders = [
            {**common, "portion": portion, "file": str(file.absolute())}
            for file, portion in shards.items()
        ]
        with closing(executor.run(_CALL, orders, self.folder.path)) as running:
            for number, end in running:
                if end["event"] != "done":
                    raise error_of(end)
                yield number, end["result"]


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
        encoder: What makes the rows: any name that :mod:`fewlabels.models.encoders`
            knows, but none that has to learn from the images first.
        quality: How many pixels it sees: ``"fast"`` (96 a side), ``"normal"`` (160) or
            ``"best"`` (224); None: as the encoder says, else normal.
        shard_size: Images of a shard, and so what is lost when a worker is.

    Returns:
        The work, to be run by an executor.
    """
    shard_size = whole_number("shard_size", shard_size)
    name = encoder or encoders.ENCODER
    options, side = _seen_at(name, quality)
    most = _MOST_PIXELS // (_COLORS * side * side)  # a worker holds a shard in memory
    check_range("shard_size", shard_size, at_least=1, at_most=most)
    made = encoders.resolve(name, **options)
    listing = sources.listed(source.expanduser(), shard_size)
    digest = blake2b(digest_size=16)
    for portion in listing.portions:
        digest.update(sources.digest(portion).encode())
    plan = {
        "source": str(source.expanduser().resolve()),
        "images": listing.num_images,
        "listing": digest.hexdigest(),
        "encoder": made.name,
        "side": side,
        "shard_size": shard_size,
    }
    placed = encoders.absolute(name)
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
    options = encoders.options_for_side(encoder, {}, side, is_asked=quality is not None)
    return options, encoders.side(encoder, **options) or side
