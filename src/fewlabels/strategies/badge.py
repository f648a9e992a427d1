"""BADGE: gradients of the loss, their distances, k-means++."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from fewlabels import gram
from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import FirstCenter, check_size, k_means_plus_plus
from fewlabels.strategies.inputs import check_classes


@dataclass(frozen=True)
class Badge:
    """Draw items whose gradients are long and far apart (Ash et al., 2020)."""

    first: FirstCenter = "largest"
    """The longest gradient, as in the authors' code; ``uniform``: as in the paper."""

    def __post_init__(self) -> None:
        """Refuse a misspelt beginning."""
        check_known("first center", self.first, FirstCenter)

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        del history
        check_size(size, len(pool.candidates))
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        check_classes(outputs.logits)
        kernel = gram.gradient_embedding_kernel(outputs.features, outputs.logits)
        indices = k_means_plus_plus(
            kernel,
            candidates=pool.candidates,
            size=size,
            generator=generator,
            first=self.first,
        )
        squared_lengths = kernel.diagonal(pool.candidates)
        record = {
            "mean_length": float(squared_lengths.sqrt().mean()),
            "without_gradient": int((squared_lengths == 0).sum()),
        }
        return Query(indices, record=record)
