"""Largest determinant: the control that the NPC paper lacks.

The same gradients as :mod:`fewlabels.strategies.npc`, the logarithm of the determinant
of their Gram matrix instead of its smallest eigenvalue, greedy search (Holzmüller et
al., 2023, call it MaxDet).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Generator

from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import check_size, maximize_determinant
from fewlabels.strategies.kernels import candidates_for, check_kernel, kernel_for


@dataclass(frozen=True)
class MaxDet:
    """Greedily maximize the determinant of the gradient Gram matrix."""

    ignores_order: ClassVar[bool] = True
    kernel: Any = field(default="auto", metadata={"code": True})
    """``last-layer``, while its rank is large enough; else ``wide-head``."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""

    def __post_init__(self) -> None:
        """Refuse a misspelt kernel, which would pass for the last layer's."""
        check_kernel(self)

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
        check_size(size, len(pool.candidates))
        part = candidates_for(self, pool, size, generator)
        among = part.items if part.record else None
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        name, kernel = kernel_for(
            self, classifier, outputs, pool, size, generator, history, among=among
        )
        indices, value = maximize_determinant(
            kernel,
            labeled=pool.labeled,
            candidates=part.items,
            size=size,
            generator=generator,
        )
        is_tie = value == -torch.inf
        record = {"kernel": name, "tie": is_tie, **part.record}
        return Query(indices, None if is_tie else value, record)
