"""From a strength, 0 to 10, to what an operation takes: degrees, pixels, factors."""

from collections.abc import Callable, Mapping

from torch import Tensor

from fewlabels.augment.settings import Ranges

_MOST = 10
_BYTES = 256
_OFFICIAL_SIDE = 32
DIRECTED = frozenset({"rotate", "shear-x", "shear-y", "translate-x", "translate-y"})
"""Operations that go either way: a sign says which."""

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
    if operation not in _KINDS:
        return levels
    return _RULES[ranges][_KINDS[operation]](
        levels * signs if operation in DIRECTED else levels,
        width if operation == "translate-x" else height,
    )


_KINDS = {
    "rotate": "degrees",
    "shear-x": "slope",
    "shear-y": "slope",
    "translate-x": "pixels",
    "translate-y": "pixels",
    "solarize": "threshold",
    "posterize": "bits",
    **dict.fromkeys(("color", "contrast", "brightness", "sharpness"), "factor"),
}
_SHARED: dict[str, _Rule] = {
    "degrees": lambda levels, _: levels * 30 / _MOST,
    "slope": lambda levels, _: levels * 0.3 / _MOST,
    "threshold": lambda levels, _: _BYTES - (levels * _BYTES / _MOST).trunc(),
}
_RULES: Mapping[Ranges, Mapping[str, _Rule]] = {
    "official": {
        **_SHARED,
        # As many whole pixels as the strength on images of 32, else in proportion.
        "pixels": lambda levels, side: (levels * side / _OFFICIAL_SIDE).trunc(),
        # At least one bit, where the official code would fail.
        "bits": lambda levels, _: (4 - (levels * 4 / _MOST).trunc()).clamp(min=1),
        "factor": lambda levels, _: levels * 1.8 / _MOST + 0.1,
    },
    "paper-table": {
        **_SHARED,
        # Up to 0.3 of the side; the nearest pixel, halves upward, as Pillow finds it.
        "pixels": lambda levels, side: (levels * 0.3 / _MOST * side + 0.5).floor(),
        "bits": lambda levels, _: 4 + (levels * 4 / _MOST).trunc(),
        "factor": lambda levels, _: levels * 0.9 / _MOST + 0.05,
    },
}
