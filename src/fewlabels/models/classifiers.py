"""Classifiers: a network, a head over a frozen encoder, or outputs computed elsewhere.

Shapes: N items in the pool, n items asked about, C classes, F features of a classifier,
D features of an encoder, K sampled networks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import ref

import torch
from torch import Generator, Tensor

from fewlabels import models, rng
from fewlabels.data.derived import ChosenImages
from fewlabels.errors import ShapeError, UsageError
from fewlabels.models.network import Network, as_input, dropout_layers, sampled
from fewlabels.pool import Images, Rows, RowSource, read_rows, take_rows
from fewlabels.protocols import Outputs, evaluation_mode

if TYPE_CHECKING:
    from fewlabels.models.cache import FeatureCache, FeatureRows, StoredRows
    from fewlabels.models.embedding import Precision
    from fewlabels.models.encoders import Encoder

_MAX_VALUES = 2**24  # of the images that are in memory at a time

# Where the rows are of the images that were asked about last, as long as these live: a
# test split is measured after every query, and looking up 10,000 rows takes longer than
# what a head makes of them.
_last: list[tuple[ref[Images], object, "StoredRows"]] = []


class ChunkedClassifier:
    """A network that is asked chunk by chunk: evaluation mode, no gradients."""

    module: Network
    """The network; its own mode (training or evaluation) is left as it was."""

    def chunks(self, images: Images, indices: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows of the result together with the inputs that give them."""
        raise NotImplementedError

    def outputs(self, images: Images, indices: Tensor) -> Outputs:
        """Return features and logits of the items at ``indices``, on the CPU."""
        network, num_items = self.module, len(indices)
        device, num_classes = network.head.weight.device, network.head.out_features
        features_nF = torch.empty(num_items, network.feature_size, dtype=torch.float32)
        logits_nC = torch.empty(num_items, num_classes, dtype=torch.float32)
        with torch.inference_mode(), evaluation_mode(network):
            for rows, inputs in self.chunks(images, indices):
                embedded = network.recall(inputs.to(device))
                features_nF[rows] = embedded.float().cpu()
                logits_nC[rows] = network.head(embedded).float().cpu()
        return Outputs(features_nF, logits_nC)

    def sample_logits(
        self, images: Images, indices: Tensor, num_samples: int, generator: Generator
    ) -> Tensor:
        """Return logits of ``num_samples`` networks sampled through dropout.

        Args:
            images: The images of the pool.
            indices: The items to ask about, shape (n,).
            num_samples: How many networks to sample (K).
            generator: Where the dropout masks come from.

        Returns:
            Logits, shape (K, n, C); one network is the same for all items.

        Raises:
            UsageError: If the network has no dropout, so that all samples would agree.
        """
        network = self.module
        if not dropout_layers(network):
            raise UsageError("The network has no dropout; train with dropout above 0.")
        key = rng.fork(generator)
        device, num_classes = network.head.weight.device, network.head.out_features
        shape = (num_samples, len(indices), num_classes)
        logits_KnC = torch.empty(shape, dtype=torch.float32)
        with torch.inference_mode(), evaluation_mode(network):
            for rows, inputs in self.chunks(images, indices):
                on_device = inputs.to(device)
                for sample in range(num_samples):
                    masks = rng.stream(key, "masks", sample)
                    with sampled(network, masks):
                        logits_KnC[sample, rows] = network(on_device).float().cpu()
        return logits_KnC


@dataclass(frozen=True, eq=False)
class NetworkClassifier(ChunkedClassifier):
    """A network as a classifier of images."""

    module: Network
    """The network; its own mode (training or evaluation) is left as it was."""
    num_classes: int
    """Number of classes."""
    chunk_size: int = 512
    """Items in memory at a time; fewer where they are large."""

    def chunks(self, images: Images, indices: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows of the result together with their images, ready as input."""
        fitting = max(1, _MAX_VALUES // math.prod(images.shape))
        for rows in slices(len(indices), min(self.chunk_size, fitting)):
            yield rows, as_input(images.read(indices[rows]))


@dataclass(frozen=True, eq=False)
class Embedded:
    """Images together with their rows."""

    images: Images
    rows: "FeatureRows"
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
    encoder: "Encoder"
    """What makes rows of images."""
    known: tuple[Embedded, ...] = ()
    """Images whose rows are there already, above all those of the pool."""
    cache: "FeatureCache | None" = None
    """Where rows of other images are kept."""
    dtype: "Precision" = "float16"
    """How rows are kept; the same as for the rows that the head was trained on."""
    chunk_size: int = 4096
    """Rows in memory at a time."""

    def inputs(self, images: Images, indices: Tensor) -> Tensor:
        """Return what the head sees of the items: rows, float32, shape (n, D)."""
        return read_rows(*self._locate(images, indices))

    def chunks(self, images: Images, indices: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows of the result together with the rows that the head sees."""
        rows, positions = self._locate(images, indices)
        for part in slices(len(indices), self.chunk_size):
            yield part, read_rows(rows, positions[part])

    def _locate(self, images: Images, indices: Tensor) -> tuple["FeatureRows", Tensor]:
        """Return an array that holds the rows of the items, and where they are."""
        from fewlabels.models.cache import StoredRows

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
        rows = models.embedded(part, self.encoder, cache=self.cache, dtype=self.dtype)
        if isinstance(rows, StoredRows):
            _last[:] = [(ref(images), key, rows)]
        return rows, everything


@dataclass(frozen=True, eq=False)
class PrecomputedClassifier:
    """Embeddings and logits that were computed elsewhere, one row per item."""

    features: Rows
    """One row per item of the whole pool, shape (N, F)."""
    logits: Tensor
    """Shape (N, C)."""
    samples: Tensor | None = None
    """Logits of sampled networks, shape (K, N, C), for strategies that want them."""
    module: None = None
    """There is no network."""

    def __post_init__(self) -> None:
        """Check that the arrays belong together."""
        is_matrix = self.features.ndim == self.logits.ndim == 2
        samples = self.logits[None] if self.samples is None else self.samples
        are_equal = len(self.logits) == len(self.features)
        if not is_matrix or not are_equal or samples.shape[1:] != self.logits.shape:
            parts = (self.features, self.logits, samples)
            shapes = ", ".join(str(tuple(part.shape)) for part in parts)
            raise ShapeError(
                f"features, logits and samples have the shapes {shapes}; give (N, F), "
                "(N, C) and (K, N, C)."
            )

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self.logits.shape[1]

    def outputs(self, images: Images, indices: Tensor) -> Outputs:
        """Return the rows of the items at ``indices``; images are not read."""
        del images
        if torch.equal(indices, torch.arange(len(self.logits))):  # no copy of all rows
            return Outputs(self.features, self.logits)
        return Outputs(take_rows(self.features, indices), self.logits[indices])

    def sample_logits(
        self, images: Images, indices: Tensor, num_samples: int, generator: Generator
    ) -> Tensor:
        """Return the first ``num_samples`` of the samples that were brought along.

        Args:
            images: Not read.
            indices: The items to ask about, shape (n,).
            num_samples: How many sampled networks are wanted (K).
            generator: Not used.

        Returns:
            Logits, shape (K, n, C).

        Raises:
            UsageError: If fewer samples were brought along.
        """
        del images, generator
        available = 0 if self.samples is None else len(self.samples)
        if self.samples is None or available < num_samples:
            raise UsageError(
                f"{num_samples} samples are needed, but {available} were given."
            )
        return self.samples[:num_samples, indices]


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
    for items in torch.split(torch.arange(len(rows)), 256):
        distance_nD = read_rows(rows, items).double() - middle
        total += distance_nD.sum(dim=0)
        squares += distance_nD.square().sum(dim=0)
    shift = total / len(rows)
    variance = (squares / len(rows) - shift.square()).clamp_(min=0)
    least = 0.1 * variance.mean().sqrt()
    deviation = variance.sqrt().clamp_(min=least).float()
    return (middle + shift).float(), torch.where(deviation > 0, deviation, 1.0)


def slices(num_items: int, chunk_size: int) -> Iterator[slice]:
    """Yield the parts of ``range(num_items)``, each of at most ``chunk_size``."""
    for start in range(0, num_items, chunk_size):
        yield slice(start, min(start + chunk_size, num_items))
