"""Weak and strong views of images, a whole minibatch at a time.

Every image gets its own draws, all from an explicit generator, and there is no loop
over images. Images are uint8 or floats in [-1, 1], shape (n, c, h, w), and come back in
the same type; sizes are shares of the side, so that 8x8 and 32x32 images are changed
alike.
"""

from fewlabels.data.augment.settings import (
    OPERATIONS,
    RandAugment,
    Strong,
    StrongAugment,
    WeakAugment,
    preset,
    preset_names,
)
from fewlabels.data.augment.views import num_draws, strong, view, weak

__all__ = [
    "OPERATIONS",
    "RandAugment",
    "Strong",
    "StrongAugment",
    "WeakAugment",
    "num_draws",
    "preset",
    "preset_names",
    "strong",
    "view",
    "weak",
]
