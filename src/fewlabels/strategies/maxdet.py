"""Largest determinant: the control that the NPC paper lacks.

The same gradients as :mod:`fewlabels.strategies.npc`, the logarithm of the determinant
of their Gram matrix instead of its smallest eigenvalue, greedy search (Holzmüller et
al., 2023, call it MaxDet).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fewlabels.pool import Query
from fewlabels.search import maximize_determinant
from fewlabels.strategies.inputs import Request
from fewlabels.strategies.kernels import KernelStrategy


@dataclass(frozen=True)
class MaxDet(KernelStrategy):
    """Greedily maximize the determinant of the gradient Gram matrix."""

    ignores_order: ClassVar[bool] = True

    def choose(self, request: Request) -> Query:
        """Choose greedily."""
        kernel, candidates, record = self.among_candidates(request, request.outputs())
        indices, value = maximize_determinant(kernel, **request.sets(candidates))
        is_tie = value == -torch.inf
        return Query(indices, None if is_tie else value, {**record, "tie": is_tie})
