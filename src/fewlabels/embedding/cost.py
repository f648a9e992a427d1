"""What embedding will cost, from a few images that are embedded on this machine.

An image takes so many seconds of a worker for reading and decoding and for the encoder,
and a shard so many to be written and flushed to the disk. Workers do not wait for each
other, so W of them are W times as fast, after each has loaded its encoder.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fewlabels.embedding import sources
from fewlabels.embedding.embedding import Work
from fewlabels.embedding.engines import Local

_FIRST, _SAMPLE = 32, 128  # images that a worker tries, unwatched and watched
_PARTS = ("decoding", "embedding", "writing")


@dataclass(frozen=True)
class Cost:
    """Seconds of a worker, and bytes."""

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


def estimated(work: Work, num_workers: int) -> Cost:
    """Embed some images by as many workers as there will be, and keep nothing of it.

    Args:
        work: What is to be done.
        num_workers: Workers at a time; they share memory and disk, so that it matters.

    Returns:
        The cost of all of it.
    """
    portions = work.listing.portions
    step = max(1, len(portions) // num_workers)
    tried = [sources.first(one, _SAMPLE) for one in portions[::step][:num_workers]]
    # What a process does first takes longer than all that follows, and is not counted.
    some = [*(sources.first(one, _FIRST) for one in tried), *tried]
    with tempfile.TemporaryDirectory() as folder:
        orders = [
            work.order(number, portion, Path(folder) / f"{number}.parquet")
            for number, portion in enumerate(some)
        ]
        begun = time.perf_counter()
        done = list(Local(len(tried)).run(orders, Path(folder)))
        seconds = time.perf_counter() - begun
    counted = [one for one in done if one["number"] >= len(tried)]
    num_tried = sum(map(sources.num_images, tried))

    def each(part: str) -> float:
        return float(sum(one[part] for one in counted)) / num_tried

    busy = sum(one[part] for one in counted for part in _PARTS) / len(tried)
    return Cost(
        num_images=work.num_images,
        shard_size=work.plan["shard_size"],
        starting=max(0.0, seconds - busy),
        decoding=each("decoding"),
        embedding=each("embedding"),
        writing=each("writing") * num_tried / len(tried),
        processor=each("processor"),
        row_bytes=each("num_bytes"),
    )
