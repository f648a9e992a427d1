"""Embeddings and logits that were computed elsewhere.

Shapes: N items in the pool, n items asked about, C classes, F features,
K sampled networks.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.errors import ShapeError, UsageError
from fewlabels.matrices import Rows, rows_at
from fewlabels.pool import Images
from fewlabels.protocols import Outputs


@dataclass(frozen=True, eq=False)
class PrecomputedClassifier:
    """Embeddings and logits that somebody computed elsewhere, one row per item."""

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
        num_items = len(self.features)
        is_matrix = self.features.ndim == self.logits.ndim == 2
        if not is_matrix or len(self.logits) != num_items:
            raise ShapeError(
                f"features has shape {tuple(self.features.shape)} and logits "
                f"{tuple(self.logits.shape)}; give (N, F) and (N, C), one row per item "
                "of the whole pool."
            )
        if self.samples is not None and self.samples.shape[1:] != self.logits.shape:
            raise ShapeError(
                f"samples has shape {tuple(self.samples.shape)}; give "
                f"(K, {num_items}, {self.num_classes}): K sampled networks, and items "
                "and classes as in logits."
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
        return Outputs(rows_at(self.features, indices), self.logits[indices])

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
                f"{num_samples} sampled networks are wanted, but {available} were "
                f"given. Give logits of shape (K, N, C) with K at least {num_samples}, "
                "or ask the strategy for fewer samples."
            )
        return self.samples[:num_samples, indices]
