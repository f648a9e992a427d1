"""Who beats whom: the pairwise penalty matrix (Ash et al., 2020, Sec. 4).

Shapes: A strategies, S seeds, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fewlabels.errors import ShapeError

LEVEL = 0.05
"""Two-sided level at which one strategy counts as better than another."""


@dataclass(frozen=True, eq=False)
class Penalties:
    """The matrix, read by rows: the row's strategy beats the column's."""

    names: tuple[str, ...]
    shares: NDArray[np.float64]
    """Entry (i, j): share of the measurements at which i is better than j, (A, A)."""

    @property
    def penalty(self) -> dict[str, float]:
        """How often each strategy is beaten, on average over the others.

        It is the mean of the strategy's *column*. Public implementations fill the
        matrix as (loser, winner) and turn it round when they draw it, so that a row
        read as here would praise the worst.
        """
        others = max(1, len(self.names) - 1)
        return dict(
            zip(self.names, (self.shares.sum(0) / others).tolist(), strict=True)
        )

    def beats(self, winner: str, loser: str) -> float:
        """Return the share of the measurements at which one is better than another."""
        places = self.names.index(winner), self.names.index(loser)
        return float(self.shares[places])


def penalty_matrix(
    accuracies: Mapping[str, ArrayLike], *, level: float = LEVEL
) -> Penalties:
    """Compare strategies pairwise, measurement by measurement.

    At each number of labels, the accuracies of two strategies with the same seeds are
    compared by a paired t-test; the better one gets 1 / T where it is significant.

    Args:
        accuracies: Accuracies of each strategy, shape (S, T), seeds in one order.
        level: Two-sided level of each test; nothing is corrected for their number, as
            in the paper.

    Returns:
        The matrix.
    """
    names = tuple(accuracies)
    arrays = [np.asarray(accuracies[name], dtype=np.float64) for name in names]
    _check(names, arrays)
    shares = np.zeros((len(names), len(names)))
    for i, one in enumerate(arrays):
        for j, other in enumerate(arrays):
            if i != j:
                shares[i, j] = np.mean(_is_better(one - other, level))
    return Penalties(names, shares)


def _is_better(differences_ST: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Return where the mean difference is significantly above zero, (T,)."""
    num_seeds = len(differences_ST)
    means_T = differences_ST.mean(axis=0)
    errors_T = differences_ST.std(axis=0, ddof=1) / np.sqrt(num_seeds)
    bound = stats.t.ppf(1 - level / 2, num_seeds - 1)
    better: NDArray[np.bool_] = (means_T > 0) & (means_T > bound * errors_T)
    return better


def _check(names: tuple[str, ...], arrays: list[NDArray[np.float64]]) -> None:
    shapes = {name: array.shape for name, array in zip(names, arrays, strict=True)}
    first = next(iter(shapes.values()), ())
    is_matrix = len(first) == 2 and first[0] >= 2 and first[1] >= 1
    if len(set(shapes.values())) != 1 or not is_matrix:
        msg = (
            f"The accuracies have shapes {shapes}; give each strategy the same shape "
            "(seeds, measurements), with at least two seeds, paired in one order."
        )
        raise ShapeError(msg)
