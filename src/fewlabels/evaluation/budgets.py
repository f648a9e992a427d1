"""What a whole curve of accuracy over labels comes to.

Shapes: T numbers of labels at which accuracy was measured.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewlabels.evaluation.numbers import check_same_length, finite, rising

Reach = Literal["from the start", "within the budget", "never"]


@dataclass(frozen=True, kw_only=True)
class Saving:
    """What random labels would have cost for the accuracy of one measurement."""

    num_labels: int
    """Labels that the strategy had."""
    accuracy: float
    """Accuracy that it reached with them."""
    needed_by_random: float | None
    """Labels at which random's curve reaches it; None where that is not known."""
    saved: float | None
    """Labels saved, ``needed_by_random - num_labels``; negative where random needs
    fewer, None where that is not known."""
    reached: Reach
    """Whether random reaches the accuracy between its measurements, or has it before
    the first one already ("from the start"), or does not within its budget ("never":
    it needs more than its last number of labels)."""


def area_under_curve(
    num_labels: ArrayLike, accuracies: ArrayLike
) -> NDArray[np.float64]:
    """Return the area under the budget curve (AUBC), by the trapezoid rule.

    The budget is scaled to [0, 1], so that the area is a mean accuracy over the whole
    range of labels (Zhan et al., 2021; Lüth et al., 2023).

    Example:
        >>> float(area_under_curve([10, 20, 40], [0.5, 0.7, 0.8]).round(3))
        0.7

    Args:
        num_labels: Labels at each measurement, rising, shape (T,).
        accuracies: Shape (..., T): one curve, or one per seed.

    Returns:
        The areas, shape (...). Of a single measurement, its accuracy.
    """
    labels_T = rising("num_labels", num_labels)
    array_T = finite("accuracies", accuracies, "(..., measurements)")
    check_same_length(("num_labels", "accuracies"), (labels_T, array_T))
    if len(labels_T) == 1:
        return array_T[..., 0].copy()
    steps = np.diff(labels_T) / (labels_T[-1] - labels_T[0])
    middles = (array_T[..., 1:] + array_T[..., :-1]) / 2
    return np.asarray((middles * steps).sum(axis=-1))


def labels_saved(
    num_labels: ArrayLike, accuracies: ArrayLike, random_accuracies: ArrayLike
) -> tuple[Saving, ...]:
    """Return how many more labels random needs for what a strategy reached.

    For each measurement of the strategy: the fewest labels at which random's curve is
    as high. Random's curve is its best accuracy so far, joined by straight lines, so
    that a later dip does not count against it. That favours random a little: the saving
    is rather too small. Two cases have no number: random may be as good at its first
    measurement already, or not at its last one.

    Example:
        >>> for one in labels_saved([10, 30, 50], [0.5, 0.8, 0.95], [0.5, 0.7, 0.9]):
        ...     print(one.num_labels, one.saved and round(one.saved, 1), one.reached)
        10 None from the start
        30 10.0 within the budget
        50 None never

    Args:
        num_labels: Labels at each measurement, rising, the same for both, shape (T,).
        accuracies: Mean accuracies of the strategy, shape (T,).
        random_accuracies: Mean accuracies of random, shape (T,).

    Returns:
        A saving per measurement.
    """
    labels_T = rising("num_labels", num_labels)
    own_T = finite("accuracies", accuracies, "(measurements,)")
    random_T = finite("random_accuracies", random_accuracies, "(measurements,)")
    check_same_length(("num_labels", "accuracies"), (labels_T, own_T))
    check_same_length(("num_labels", "random_accuracies"), (labels_T, random_T))
    best_T = np.maximum.accumulate(random_T)
    return tuple(
        _saving(labels, accuracy, labels_T, best_T)
        for labels, accuracy in zip(labels_T.tolist(), own_T.tolist(), strict=True)
    )


def _saving(
    labels: float,
    accuracy: float,
    labels_T: NDArray[np.float64],
    best_T: NDArray[np.float64],
) -> Saving:
    """Return where a curve that never falls reaches an accuracy first."""
    behind = int(np.searchsorted(best_T, accuracy, side="left"))
    reached: Reach = "never" if behind else "from the start"
    needed = None
    if 0 < behind < len(best_T):
        reached = "within the budget"
        before = behind - 1  # below the accuracy, so that the step is not flat
        share = (accuracy - best_T[before]) / (best_T[behind] - best_T[before])
        needed = float(labels_T[before] + share * (labels_T[behind] - labels_T[before]))
    return Saving(
        num_labels=int(labels),
        accuracy=accuracy,
        needed_by_random=needed,
        saved=None if needed is None else needed - labels,
        reached=reached,
    )
