"""What a search comes back with."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchResult:
    """The best set of a search, and how good it can be called."""

    indices: Tensor
    """The chosen items, shape (Q,)."""
    value: float
    """Smallest eigenvalue of the Gram matrix of labeled and chosen items."""
    ceiling: float
    """What no set can exceed."""
    is_tie: bool
    """Whether no set tried is better than zero, so that the value chose nothing."""
    num_draws: int
    """How many random sets were tried."""
    num_refuted: int
    """How many of them were ruled out without computing an eigenvalue."""
    num_fallbacks: int
    """How often a named solver did not converge and a dense one took its place."""
    seconds: float
    """How long the search took."""

    @property
    def gap(self) -> float:
        """What is missing to the ceiling, as a share of it."""
        return 1 - self.value / self.ceiling if self.ceiling > 0 else 0.0
