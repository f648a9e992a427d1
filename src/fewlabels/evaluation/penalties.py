"""Who beats whom: the pairwise penalty matrix (Ash et al., 2020, Sec. 4).

Shapes: A strategies, S seeds, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewlabels.errors import ShapeError, UsageError
from fewlabels.evaluation.differences import paired_differences, t_p_values
from fewlabels.evaluation.numbers import check_same_length, finite, rising

LEVEL = 0.05
"""Two-sided level at which one strategy counts as better than another."""

NEARLY_FINAL = 0.99
"""Share of random's final accuracy past which measurements count no more."""


@dataclass(frozen=True, eq=False)
class Penalties:
    """The matrix, read by rows: the row's strategy beats the column's."""

    names: tuple[str, ...]
    shares: NDArray[np.float64]
    """Entry (i, j): share of the measurements at which i is better than j, (A, A)."""

    @property
    def penalty(self) -> dict[str, float]:
        """How often each strategy is beaten: the mean of its *column*.

        As in the authors' script, the mean is over all A strategies, itself included,
        so that nobody gets past 1 - 1 / A. Public implementations fill the matrix as
        (loser, winner) and turn it round when they draw it, so that a row read as here
        would praise the worst.
        """
        return dict(zip(self.names, self.shares.mean(axis=0).tolist(), strict=True))

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
    Where two differ by the same with every seed, nothing is tested, as in
    :func:`paired_tests`, and neither gets anything; the authors' script would count it.

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
    for name, array in zip(names, arrays, strict=True):
        finite(f"'{name}'", array, "(seeds, measurements)")
    shares = np.zeros((len(names), len(names)))
    for i, one in enumerate(arrays):
        for j, other in enumerate(arrays):
            if i != j:
                shares[i, j] = np.mean(_is_better(one, other, level))
    return Penalties(names, shares)


def penalty_checkpoints(
    num_labels: ArrayLike, random_accuracies: ArrayLike
) -> NDArray[np.intp]:
    """Return which measurements count for the penalty matrix, as in the paper.

    With n0 labels at the start and queries of Q, those at n0, n0 + Q, n0 + 2 Q,
    n0 + 4 Q and so on count, as long as random has at most 99 % of its final accuracy
    there; the start always counts. Later ones are all alike, and would drown the
    difference. So do the authors in their script; the last measurement never counts.

    Example:
        >>> labels = [10, 30, 50, 70, 90, 110]
        >>> penalty_checkpoints(labels, [0.3, 0.5, 0.7, 0.8, 0.9, 0.9]).tolist()
        [0, 1, 2]

    Args:
        num_labels: Labels at each measurement, rising, shape (T,).
        random_accuracies: Mean accuracies of random, shape (T,).

    Returns:
        Positions in ``num_labels``, rising. The columns of these are what to give to
        :func:`penalty_matrix`.

    Raises:
        UsageError: If no accuracy was measured at one of these numbers of labels.
    """
    labels_T = rising("num_labels", num_labels)
    random_T = finite("random_accuracies", random_accuracies, "(measurements,)")
    check_same_length(("num_labels", "random_accuracies"), (labels_T, random_T))
    counted = [0]
    step = labels_T[1] - labels_T[0] if len(labels_T) > 1 else np.inf
    while (wanted := labels_T[0] + step) <= labels_T[-1]:
        place = int(np.searchsorted(labels_T, wanted))
        if labels_T[place] != wanted:
            raise UsageError(
                f"Nothing was measured at {wanted:g} labels, which is n0 + 2^k Q of "
                f"{labels_T.tolist()}; measure after each query, all of one size."
            )
        if random_T[place] > NEARLY_FINAL * random_T[-1]:
            break
        counted.append(place)
        step *= 2
    return np.array(counted, dtype=np.intp)


def _is_better(
    one_ST: NDArray[np.float64], other_ST: NDArray[np.float64], level: float
) -> NDArray[np.bool_]:
    """Return where one is significantly better than the other, (T,)."""
    differences_ST = paired_differences(one_ST, other_ST)
    is_significant_T = t_p_values(differences_ST) < level  # NaN is not below anything
    better_T: NDArray[np.bool_] = is_significant_T & (differences_ST.mean(axis=0) > 0)
    return better_T


def _check(names: tuple[str, ...], arrays: list[NDArray[np.float64]]) -> None:
    shapes = {name: array.shape for name, array in zip(names, arrays, strict=True)}
    first = next(iter(shapes.values()), ())
    is_matrix = len(first) == 2 and first[0] >= 2 and first[1] >= 1
    if len(set(shapes.values())) != 1 or not is_matrix:
        raise ShapeError(
            f"The accuracies have shapes {shapes}; give each strategy the same shape "
            "(seeds, measurements), with at least two seeds, paired in one order."
        )
