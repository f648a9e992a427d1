"""The strong view, whichever way it is made."""

from torch import Generator, Tensor

from fewlabels.augment.randaugment import randaugmented
from fewlabels.augment.settings import Strong, StrongAugment
from fewlabels.augment.smooth import smooth


def strong(images: Tensor, generator: Generator, settings: Strong) -> Tensor:
    """Return each image changed a lot, each in its own way.

    Args:
        images: uint8, or floats in [-1, 1], shape (n, c, h, w). :class:`RandAugment`
            rounds floats to the 256 levels that bytes stand for.
        generator: The only source of randomness.
        settings: How to change them; see :func:`fewlabels.augment.preset`.

    Returns:
        New images of the same shape and type.
    """
    if not len(images):
        return images.clone()
    if isinstance(settings, StrongAugment):
        return smooth(images, generator, settings)
    return randaugmented(images, generator, settings)
