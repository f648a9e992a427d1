"""Whether the classes are as frequent as a training assumes."""

from collections.abc import Sequence

from fewlabels.errors import ShapeError
from fewlabels.evaluation.tails import chi_squared_tail

PLAIN = 0.01
"""Chance of counts as far from the assumed shares, below which it is said."""

LEAST_LABELS = 20
"""Labels of random images below which nothing is said."""


def balance_note(
    classes: Sequence[str], assumed: Sequence[float], counts: Sequence[int]
) -> str | None:
    """Say so when labels speak against the class shares that a training assumes.

    Only labels of images that were drawn at random count: a strategy chooses classes
    as it likes, and the predictions of a classifier that was trained towards some
    shares have them whatever the truth is.

    Example:
        >>> print(balance_note(["cat", "dog"], [0.5, 0.5], [38, 2]))
        Of 40 images drawn at random, 38 are 'cat', but training assumes 50.0 %.

    Args:
        classes: Names of the classes (C).
        assumed: The shares that the training assumes, C numbers that add up to one.
        counts: Labels of each class among images drawn at random, C numbers.

    Returns:
        The class that fits worst; None where the shares may well be right (Pearson's
        chi-squared test), or where there are too few labels to say.

    Raises:
        ShapeError: If there is not one number per class.
    """
    if not len(classes) == len(assumed) == len(counts):
        raise ShapeError(
            f"There are {len(classes)} classes, {len(assumed)} shares and "
            f"{len(counts)} numbers of labels; give one per class."
        )
    total = sum(counts)
    if total < LEAST_LABELS:
        return None
    expected = [total * share for share in assumed]
    misfits = [
        (count - wanted) ** 2 / wanted
        for count, wanted in zip(counts, expected, strict=True)
    ]
    if chi_squared_tail(sum(misfits), len(classes) - 1) >= PLAIN:
        return None
    worst = misfits.index(max(misfits))
    return (
        f"Of {total:,} images drawn at random, {counts[worst]:,} are "
        f"'{classes[worst]}', but training assumes {100 * assumed[worst]:.1f} %."
    )
