"""The strong view, whichever way it is made, and views that given numbers stand for."""

import torch
from torch import Generator, Tensor

from fewlabels.augment import randaugment, shifts, smooth
from fewlabels.augment.settings import Strong, StrongAugment, WeakAugment


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
        dtype = torch.float32 if images.dtype == torch.uint8 else images.dtype
        size = (smooth.NUM_DRAWS, len(images))
        draws = torch.rand(size, generator=generator, dtype=dtype)
        return smooth.smooth(images, draws, settings)
    return randaugment.randaugmented(images, generator, settings)


def num_draws(settings: WeakAugment | Strong) -> int:
    """Return how many uniform numbers a view of one image needs (D)."""
    if isinstance(settings, WeakAugment):
        return shifts.NUM_DRAWS
    if isinstance(settings, StrongAugment):
        return smooth.NUM_DRAWS
    return randaugment.num_draws(settings)


def view(images: Tensor, draws: Tensor, settings: WeakAugment | Strong) -> Tensor:
    """Return the weak or strong views that uniform numbers stand for.

    Args:
        images: uint8, shape (n, c, h, w).
        draws: From 0 to below 1, float64, shape (n, D); see :func:`num_draws`.
        settings: How to change images; they say whether views are weak or strong.

    Returns:
        New images of the same shape.
    """
    if isinstance(settings, WeakAugment):
        return shifts.shifted(images, draws.T, shift=settings.shift, flip=settings.flip)
    if isinstance(settings, StrongAugment):
        return smooth.smooth(images, draws.T.float(), settings)
    told = randaugment.told_by(draws, settings)
    return randaugment.changed(images, told, settings)
