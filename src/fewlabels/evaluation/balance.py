"""Whether the classes look too unequal for a uniform target."""

from collections.abc import Sequence

from fewlabels.errors import ShapeError

PLAIN = 0.25
"""Share of all items that would have to change class, above which it is said."""

RARE = 0.2
"""Part of an equal share below which a class that has labels counts as rare."""

_LEAST_ITEMS = 20


def balance_note(
    classes: Sequence[str], predicted: Sequence[int], labeled: Sequence[int]
) -> str | None:
    """Say so when the classes look too unequal for DARP's uniform target.

    The predictions decide. Labels that a strategy chose say nothing about how frequent
    classes are; they only tell whether a class had a chance to be predicted at all: one
    without a label is not called rare. A classifier that was trained towards equal
    shares predicts them more equal than they are, so a note is rather too seldom.

    Example:
        >>> print(balance_note(["cat", "dog"], [950, 50], [10, 10])[:60])
        The classes look unequal: of 1,000 images, 'cat' gets 95.0 %

    Args:
        classes: Names of the classes (C).
        predicted: How many images of the pool are predicted to be of each class, C
            numbers.
        labeled: How many labels each class has, C numbers.

    Returns:
        The note with the remedy; None where equal shares fit, or where too few images
        were predicted to say.

    Raises:
        ShapeError: If there is not one number per class.
    """
    if not len(classes) == len(predicted) == len(labeled):
        msg = (
            f"There are {len(classes)} classes, {len(predicted)} numbers of predicted "
            f"images and {len(labeled)} numbers of labels; give one per class."
        )
        raise ShapeError(msg)
    total = sum(predicted)
    if total < _LEAST_ITEMS or not all(labeled):
        return None
    equal = 1 / len(classes)
    shares = [count / total for count in predicted]
    misfit = sum(abs(share - equal) for share in shares) / 2
    least, most = min(shares), max(shares)
    if misfit < PLAIN and least >= RARE * equal:
        return None
    return (
        f"The classes look unequal: of {total:,} images, "
        f"'{classes[shares.index(most)]}' gets {100 * most:.1f} % and "
        f"'{classes[shares.index(least)]}' {100 * least:.1f} %, where equal shares "
        f"would be {100 * equal:.1f} %. DARP's uniform target would move "
        f"{100 * misfit:.0f} % of the images to another class. If you know the shares, "
        "train with the option target=[...], one number per class in this order: "
        f"{', '.join(classes)}. If you do not, take target='estimated', which trusts "
        "the predictions, or the trainer without DARP ('fixmatch' for "
        "'fixmatch-darp'). target='labeled' is for labels of images chosen at random."
    )
