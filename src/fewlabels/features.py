"""From a network, or from embeddings brought along, to one row per item.

Shapes: N items in the pool, n items asked about, C classes, F features,
K sampled networks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fewlabels import rng
from fewlabels.errors import ShapeError, UsageError
from fewlabels.models import Network, as_input, dropout
from fewlabels.pool import Images
from fewlabels.protocols import Outputs


@dataclass(frozen=True, eq=False)
class NetworkClassifier:
    """A network as a classifier: evaluation mode, no gradients, chunk by chunk."""

    module: Network
    """The network; its own mode (training or evaluation) is left as it was."""
    num_classes: int
    """Number of classes."""
    chunk_size: int = 512
    """Items in memory at a time."""

    def outputs(self, images: Images, indices: Tensor) -> Outputs:
        """Return features and logits of the items at ``indices``."""
        num_items, single = len(indices), torch.float32
        features_nF = torch.empty(num_items, self.module.feature_size, dtype=single)
        logits_nC = torch.empty(num_items, self.num_classes, dtype=single)
        with torch.inference_mode(), _evaluating(self.module):
            for rows, inputs in self._chunks(images, indices):
                embedded = self.module.embed(inputs)
                features_nF[rows] = embedded.float().cpu()
                logits_nC[rows] = self.module.head(embedded).float().cpu()
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
        if not dropout.layers(self.module):
            msg = (
                "The network has no dropout, so every sampled network would be the "
                "same. Train with dropout above 0, for example "
                'training.resolve("fixmatch", {"dropout": 0.1}).'
            )
            raise UsageError(msg)
        key = rng.fork(generator)
        logits_KnC = torch.empty(
            num_samples, len(indices), self.num_classes, dtype=torch.float32
        )
        with torch.inference_mode(), _evaluating(self.module):
            for rows, inputs in self._chunks(images, indices):
                for sample in range(num_samples):
                    masks = rng.stream(key, "masks", sample)
                    with dropout.sampled(self.module, masks):
                        logits_KnC[sample, rows] = self.module(inputs).float().cpu()
        return logits_KnC

    def _chunks(
        self, images: Images, indices: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield rows of the result together with their images, ready as input."""
        device = self.module.head.weight.device
        for start in range(0, len(indices), self.chunk_size):
            rows = slice(start, start + self.chunk_size)
            yield rows, as_input(images.read(indices[rows])).to(device)


@dataclass(frozen=True, eq=False)
class PrecomputedClassifier:
    """Embeddings and logits that somebody computed elsewhere, one row per item."""

    features: Tensor
    """One row per item of the whole pool, shape (N, F)."""
    logits: Tensor
    """Shape (N, C)."""
    samples: Tensor | None = None
    """Logits of sampled networks, shape (K, N, C), for strategies that want them."""
    module: None = None
    """There is no network."""

    def __post_init__(self) -> None:
        """Check that the arrays belong together."""
        num_items = len(self.features)
        is_matrix = self.features.ndim == self.logits.ndim == 2
        if not is_matrix or len(self.logits) != num_items:
            msg = (
                f"features has shape {tuple(self.features.shape)} and logits "
                f"{tuple(self.logits.shape)}; give (N, F) and (N, C), one row per item "
                "of the whole pool."
            )
            raise ShapeError(msg)
        if self.samples is not None and self.samples.shape[1:] != self.logits.shape:
            msg = (
                f"samples has shape {tuple(self.samples.shape)}; give "
                f"(K, {num_items}, {self.num_classes}): K sampled networks, and items "
                "and classes as in logits."
            )
            raise ShapeError(msg)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self.logits.shape[1]

    def outputs(self, images: Images, indices: Tensor) -> Outputs:
        """Return the rows of the items at ``indices``; images are not read."""
        del images
        return Outputs(self.features[indices], self.logits[indices])

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
            msg = (
                f"{num_samples} sampled networks are wanted, but {available} were "
                f"given. Give logits of shape (K, N, C) with K at least {num_samples}, "
                "or ask the strategy for fewer samples."
            )
            raise UsageError(msg)
        return self.samples[:num_samples, indices]


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Put ``module`` into evaluation mode inside the block and restore it after."""
    was_training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in was_training.items():
            part.training = mode
