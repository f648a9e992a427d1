"""A head over a frozen encoder, as a classifier of images.

Shapes: N items, n items asked about, D features of the encoder.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import ref

import torch
from torch import Tensor

from fewlabels.data.derived import ChosenImages
from fewlabels.gram.nodes import RowSource, read_rows
from fewlabels.models import Network
from fewlabels.models.cache import BLOCK, FeatureCache, Rows, StoredRows
from fewlabels.models.classifiers import ChunkedClassifier, slices
from fewlabels.models.embedding import Precision, embedded
from fewlabels.models.encoders import Encoder
from fewlabels.pool import Images

_LEAST_DEVIATION = 0.1

# Where the rows are of the images that were asked about last, as long as these live: a
# test split is measured after every query, and looking up 10,000 rows takes longer than
# what a head makes of them.
_last: list[tuple[ref[Images], object, StoredRows]] = []


@dataclass(frozen=True, eq=False)
class Embedded:
    """Images together with their rows."""

    images: Images
    rows: Rows
    """One row per image, shape (N, D)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FrozenClassifier(ChunkedClassifier):
    """An encoder that is never trained, and a small network over its rows.

    Rows of images in ``known``, and of parts of them, are read and not computed. Other
    images are embedded when asked for, through the cache: a test split that is measured
    in each round is embedded once.
    """

    module: Network
    """The head: it maps rows of the encoder to logits; its own mode is left."""
    num_classes: int
    """Number of classes."""
    encoder: Encoder
    """What makes rows of images."""
    known: tuple[Embedded, ...] = ()
    """Images whose rows are there already, above all those of the pool."""
    cache: FeatureCache | None = None
    """Where rows of other images are kept."""
    dtype: Precision = "float16"
    """How rows are kept; the same as for the rows that the head was trained on."""
    chunk_size: int = 4096
    """Rows in memory at a time."""

    def inputs(self, images: Images, indices: Tensor) -> Tensor:
        """Return what the head sees of the items: rows, float32, shape (n, D)."""
        return read_rows(*self._located(images, indices))

    def chunks(self, images: Images, indices: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows of the result together with the rows that the head sees."""
        rows, positions = self._located(images, indices)
        for part in slices(len(indices), self.chunk_size):
            yield part, read_rows(rows, positions[part])

    def _located(self, images: Images, indices: Tensor) -> tuple[Rows, Tensor]:
        """Return an array that holds the rows of the items, and where they are."""
        for known in self.known:
            if images is known.images:
                return known.rows, indices
            if isinstance(images, ChosenImages) and images.images is known.images:
                return known.rows, images.chosen[indices]
        everything = torch.arange(len(indices))
        key = self.encoder.name, self.cache, self.dtype, indices.numpy().tobytes()
        for asked, last_key, stored in _last:
            if asked() is images and last_key == key:
                return stored, everything
        part = ChosenImages(images, indices)
        rows = embedded(part, self.encoder, cache=self.cache, dtype=self.dtype)
        if isinstance(rows, StoredRows):
            _last[:] = [(ref(images), key, rows)]
        return rows, everything


def moments(rows: RowSource) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each feature, to standardize a head by.

    Args:
        rows: Shape (N, D), at least one row; possibly a memory map, read in blocks.

    Returns:
        Two float32 tensors, shape (D,). No deviation is below a tenth of the typical
        one (the root of the mean square): a feature that hardly moves in the pool may
        move in other images, and would drown all others there. Where all features are
        constant, deviations are 1.
    """
    total = torch.zeros(rows.shape[1], dtype=torch.float64)
    squares = torch.zeros_like(total)
    # Around the first row, so that a mean far from zero costs no digits.
    middle = read_rows(rows, torch.zeros(1, dtype=torch.int64))[0].double()
    for part in slices(len(rows), BLOCK):
        items = torch.arange(part.start, part.stop)
        distance_nD = read_rows(rows, items).double() - middle
        total += distance_nD.sum(dim=0)
        squares += distance_nD.square().sum(dim=0)
    shift = total / len(rows)
    variance = (squares / len(rows) - shift.square()).clamp_(min=0)
    least = _LEAST_DEVIATION * variance.mean().sqrt()
    deviation = variance.sqrt().clamp_(min=least).float()
    return (middle + shift).float(), torch.where(deviation > 0, deviation, 1.0)
