"""From a strength, 0 to 10, to what an operation takes: degrees, pixels, factors."""

from collections.abc import Callable, Mapping

from torch import Tensor

from fewlabels.augment.settings import Ranges

_MOST = 10
_BYTES = 256
_OFFICIAL_SIDE = 32
_DIRECTED = frozenset({"rotate", "shear-x", "shear-y", "translate-x", "translate-y"})
_ENHANCERS = ("color", "contrast", "brightness", "sharpness")

_Rule = Callable[[Tensor, int], Tensor]
"""From strengths, signed where there is a direction, and a side in pixels."""


def argument(
    operation: str,
    ranges: Ranges,
    levels: Tensor,
    signs: Tensor,
    sides: tuple[int, int],
) -> Tensor:
    """Return what an operation takes, for one strength and sign per image.

    Args:
        operation: Name of the operation.
        ranges: The table that says what a strength means.
        levels: Strengths, 0 to 10, float64, shape (m,).
        signs: 1 or -1, shape (m,); only directions have a sign.
        sides: Height and width of the images.

    Returns:
        float64, shape (m,): degrees for rotate, a slope for the shears, whole pixels
        for the translations, a threshold for solarize, bits for posterize, a factor for
        color, contrast, brightness and sharpness. The others take nothing: strengths.
    """
    height, width = sides
    rule = _RULES[ranges].get(operation, _as_it_is)
    return rule(
        levels * signs if operation in _DIRECTED else levels,
        width if operation == "translate-x" else height,
    )


def _as_it_is(levels: Tensor, _: int) -> Tensor:
    return levels


def _degrees(levels: Tensor, _: int) -> Tensor:
    return levels * 30 / _MOST


def _slope(levels: Tensor, _: int) -> Tensor:
    return levels * 0.3 / _MOST


def _threshold(levels: Tensor, _: int) -> Tensor:
    return _BYTES - (levels * _BYTES / _MOST).trunc()


def _official_pixels(levels: Tensor, side: int) -> Tensor:
    """As many whole pixels as the strength on images of 32, else in proportion."""
    return (levels * side / _OFFICIAL_SIDE).trunc()


def _table_pixels(levels: Tensor, side: int) -> Tensor:
    """Up to 0.3 of the side; the nearest pixel, halves upward, as Pillow finds it."""
    return (levels * 0.3 / _MOST * side + 0.5).floor()


def _official_bits(levels: Tensor, _: int) -> Tensor:
    """At least one bit, where the official code would fail."""
    return (4 - (levels * 4 / _MOST).trunc()).clamp(min=1)


def _table_bits(levels: Tensor, _: int) -> Tensor:
    return 4 + (levels * 4 / _MOST).trunc()


def _official_factor(levels: Tensor, _: int) -> Tensor:
    return levels * 1.8 / _MOST + 0.1


def _table_factor(levels: Tensor, _: int) -> Tensor:
    return levels * 0.9 / _MOST + 0.05


_SHARED: dict[str, _Rule] = {
    "rotate": _degrees,
    "shear-x": _slope,
    "shear-y": _slope,
    "solarize": _threshold,
}
_RULES: Mapping[Ranges, Mapping[str, _Rule]] = {
    "official": {
        **_SHARED,
        "translate-x": _official_pixels,
        "translate-y": _official_pixels,
        "posterize": _official_bits,
        **dict.fromkeys(_ENHANCERS, _official_factor),
    },
    "paper-table": {
        **_SHARED,
        "translate-x": _table_pixels,
        "translate-y": _table_pixels,
        "posterize": _table_bits,
        **dict.fromkeys(_ENHANCERS, _table_factor),
    },
}
