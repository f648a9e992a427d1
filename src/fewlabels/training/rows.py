"""Views of rows: some numbers are left out, and a row moves toward its like.

Of an image everybody knows what may change without changing what it shows; of a row
nobody does. Two things are safe to assume: no single number decides, and what lies
between two neighbors is of their kind (Chawla et al., "SMOTE: Synthetic Minority
Over-sampling Technique", JAIR 2002, make rows so).

Shapes: N items, M items among which neighbors are looked for, n items of a step,
F features, K neighbors.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from fewlabels.features import moments, read_rows
from fewlabels.neighbors import RowSource, closest, others
from fewlabels.training.schedule import check_range

_MOST_NEIGHBORS_FROM = 6000  # rows of a pool that are looked at; others are passed over
_BLOCK = 1024


@dataclass(frozen=True, kw_only=True)
class RowViews:
    """How rows are varied."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    dropout: float = 0.2
    """Share of the numbers that the mean of the pool takes the place of."""
    noise: float = 0.5
    """How far a row moves, at most: 1 is as far as the neighbor that is drawn."""
    neighbors: int = 5
    """Neighbors one of which is drawn (K)."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        check_range("dropout", self.dropout, at_least=0, below=1)
        check_range("noise", self.noise, at_least=0)
        check_range("neighbors", self.neighbors, at_least=1)


@dataclass(frozen=True, eq=False)
class VariedRows:
    """Rows of a pool, and what they become when they are varied."""

    rows: RowSource
    """Shape (N, F)."""
    settings: RowViews

    def of(self, items: Tensor, generator: Generator) -> Tensor:
        """Return a view of each of some items, float32, shape (n, F).

        Three draws are taken, however the settings are.
        """
        own = read_rows(self.rows, items)
        which = torch.randint(2**31, (len(items),), generator=generator)
        far = torch.rand(len(items), 1, generator=generator) * self.settings.noise
        is_left_out = torch.rand(own.shape, generator=generator) < self.settings.dropout
        if self.settings.noise and self._near.shape[1]:
            near = self._near[items, which % self._near.shape[1]]
            own = own + far * (read_rows(self.rows, near) - own)
        return torch.where(is_left_out, self._moments[0], own)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return moments(self.rows)

    @cached_property
    def _near(self) -> Tensor:
        """The nearest other items of each, over standardized rows, shape (N, K)."""
        num_items = len(self.rows)
        num_others = min(num_items, _MOST_NEIGHBORS_FROM)
        others_M = torch.linspace(0, num_items - 1, num_others).long()
        rows_MF = self._standardized(others_M)
        count = min(self.settings.neighbors, num_others - 1)
        found = []
        for part in torch.split(torch.arange(num_items), _BLOCK):
            near = closest(self._standardized(part), [rows_MF], count + 1)
            found.append(others(others_M[near].numpy(), part.numpy(), num_items))
        return torch.from_numpy(np.concatenate(found))

    def _standardized(self, items: Tensor) -> Tensor:
        mean, deviation = self._moments
        return (read_rows(self.rows, items) - mean) / deviation
