"""What embedding will cost, from a few images that are embedded on this machine.

An image takes so many seconds of a worker for reading and decoding, for the encoder,
and for its row in a shard. Workers do not wait for each other, so N images on W workers
take N / W times that, after a worker has loaded its encoder.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fewlabels.embedding import sources
from fewlabels.embedding.embedding import Work
from fewlabels.embedding.engines import Local

_SAMPLE = 128  # images that a worker tries
_PARTS = ("decoding", "embedding", "writing")


@dataclass(frozen=True)
class Cost:
    """Seconds of a worker, and bytes."""

    num_images: int
    """Images of the source."""
    starting: float
    """Seconds until a worker is ready, once."""
    decoding: float
    """Seconds to read and decode an image."""
    embedding: float
    """Seconds that the encoder takes for an image."""
    writing: float
    """Seconds to write a row."""
    processor: float
    """Seconds of a processor for an image: less where workers wait for a disk, for a
    GPU, or for others who use the machine."""
    row_bytes: float
    """Bytes of an image in a shard."""

    @property
    def per_image(self) -> float:
        """Seconds of a worker for an image."""
        return self.decoding + self.embedding + self.writing

    def seconds(self, num_workers: float, num_images: int | None = None) -> float:
        """Return how long images take, all of the source unless told how many."""
        number = self.num_images if num_images is None else num_images
        return self.starting + number * self.per_image / num_workers

    def worker_hours(self, num_images: int | None = None) -> float:
        """Return the hours of all workers together."""
        number = self.num_images if num_images is None else num_images
        return number * self.per_image / 3600

    def num_bytes(self, num_images: int | None = None) -> float:
        """Return the bytes of the shards."""
        number = self.num_images if num_images is None else num_images
        return number * self.row_bytes


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
    some = [sources.first(one, _SAMPLE) for one in portions[::step][:num_workers]]
    with tempfile.TemporaryDirectory() as folder:
        orders = [
            work.order(number, portion, Path(folder) / f"{number}.parquet")
            for number, portion in enumerate(some)
        ]
        begun = time.perf_counter()
        done = list(Local(num_workers).run(orders, Path(folder)))
        seconds = time.perf_counter() - begun
    tried = sum(map(sources.num_images, some))
    parts = (*_PARTS, "processor")
    per_image = {part: sum(one[part] for one in done) / tried for part in parts}
    busy = max(sum(one[part] for part in _PARTS) for one in done)
    return Cost(
        num_images=work.num_images,
        starting=seconds - busy,
        **per_image,
        row_bytes=sum(one["num_bytes"] for one in done) / tried,
    )
