"""Strong views that have a name."""

from fewlabels.augment.settings import RandAugment, Strong, StrongAugment
from fewlabels.errors import UnknownNameError

_PRESETS: dict[str, Strong] = {
    # google-research/fixmatch, the variant with RandAugment, on CIFAR.
    "official": RandAugment(flip=True),
    # Table 12 of the paper, with continuous strengths.
    "paper-table": RandAugment(
        levels="continuous", ranges="paper-table", empty="black", flip=True
    ),
    # microsoft/Semi-supervised-learning.
    "usb": RandAugment(
        num_operations=3,
        probability=1.0,
        levels="continuous",
        ranges="paper-table",
        empty="black",
        varies_cutout=True,
        cutout_fill=(125, 123, 114),
        flip=True,
    ),
    "small-grey": StrongAugment(),
}


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(_PRESETS)


def preset(name: str) -> Strong:
    """Return the settings of a strong view by name.

    The first three are for photographs and mirror them; for images with a left and a
    right, such as digits, take ``dataclasses.replace(preset(name), flip=False)``.

    Example:
        >>> preset("usb").num_operations
        3

    Args:
        name: One of :func:`preset_names`.

    Returns:
        The settings.

    Raises:
        UnknownNameError: If there is no such preset.
    """
    if name not in _PRESETS:
        raise UnknownNameError("preset of strong views", name, _PRESETS)
    return _PRESETS[name]
