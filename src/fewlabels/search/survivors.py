"""The sets that are still in the race.

Shapes: M draws, Q members of a set.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Survivors:
    """Draws with their values, in the order of their numbers."""

    numbers: Tensor
    """Draw numbers, shape (M,)."""
    subsets: Tensor
    """Their sets, shape (M, Q)."""
    values: Tensor
    """Smallest eigenvalue of each with the labeled items, shape (M,)."""

    @classmethod
    def none(cls, size: int) -> "Survivors":
        """Return no survivors for sets of ``size`` items."""
        whole = torch.int64
        return cls(
            torch.empty(0, dtype=whole),
            torch.empty(0, size, dtype=whole),
            torch.empty(0, dtype=torch.float64),
        )

    def __len__(self) -> int:
        """Return the number of survivors."""
        return len(self.numbers)

    @property
    def best(self) -> float:
        """Largest value; minus infinity where there are none."""
        return float(self.values.max()) if len(self) else float("-inf")

    def joined(self, others: "Survivors") -> "Survivors":
        """Return both together."""
        return Survivors(
            torch.cat([self.numbers, others.numbers]),
            torch.cat([self.subsets, others.subsets]),
            torch.cat([self.values, others.values]),
        )

    def at_least(self, value: float) -> "Survivors":
        """Return those whose value is at least ``value``."""
        keep = self.values >= value
        return Survivors(self.numbers[keep], self.subsets[keep], self.values[keep])
