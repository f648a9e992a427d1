"""Largest determinant: the control that the NPC paper lacks.

The same gradients as :mod:`fewlabels.strategies.npc`, the logarithm of the determinant
of their Gram matrix instead of its smallest eigenvalue, greedy search (Holzmüller et
al., 2023, call it MaxDet).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from fewlabels.pool import Query
from fewlabels.search import maximize_determinant
from fewlabels.strategies.inputs import BuiltIn, Request
from fewlabels.strategies.kernels import candidates_for, check_kernel, kernel_for


@dataclass(frozen=True)
class MaxDet(BuiltIn):
    """Greedily maximize the determinant of the gradient Gram matrix."""

    ignores_order: ClassVar[bool] = True
    kernel: Any = field(default="auto", metadata={"code": True})
    """``last-layer``, while its rank is large enough; else ``wide-head``."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""

    def __post_init__(self) -> None:
        """Refuse a misspelt kernel, which would pass for the last layer's."""
        check_kernel(self.kernel, normalize=self.normalize)

    def choose(self, request: Request) -> Query:
        """Choose greedily."""
        part = candidates_for(self.kernel, request)
        name, kernel = kernel_for(
            self.kernel,
            request,
            request.outputs(),
            normalize=self.normalize,
            among=part.items if part.record else None,
        )
        indices, value = maximize_determinant(
            kernel,
            labeled=request.pool.labeled,
            candidates=part.items,
            size=request.size,
            generator=request.generator,
        )
        is_tie = value == -torch.inf
        record = {"kernel": name, "tie": is_tie, **part.record}
        return Query(indices, None if is_tie else value, record)
