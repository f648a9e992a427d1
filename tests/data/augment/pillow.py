"""The operations one image at a time, by Pillow; and real and made images."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

import fewlabels
from fewlabels.data.augment import num_draws, read_draws
from fewlabels.rng import stream

NUM_IMAGES = 60
SIGNED = ("rotate", "shear-x", "shear-y", "translate-x", "translate-y")
LEVELLESS = ("identity", "autocontrast", "equalize")
OPAQUE = ("autocontrast", "equalize", "solarize", "posterize")
ENHANCERS = {
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "brightness": ImageEnhance.Brightness,
    "sharpness": ImageEnhance.Sharpness,
}


def draw_operations(num_images, generator, settings):
    """Return what so many images get, as :func:`strong` draws it."""
    size = (num_images, num_draws(settings))
    uniform = torch.rand(size, generator=generator, dtype=torch.float64)
    return read_draws(uniform, settings)


def operated(image, name, level, sign=1, ranges="official"):
    """Return a Pillow image after one operation at a level of 0 to 10."""
    share, official = level / 10, ranges == "official"
    if name in OPAQUE and image.mode == "RGBA":  # so does the official code
        return operated(image.convert("RGB"), name, level, sign, ranges).convert("RGBA")
    if name in ENHANCERS:
        factor = level * 1.8 / 10 + 0.1 if official else level * 0.9 / 10 + 0.05
        return ENHANCERS[name](image).enhance(factor)
    if name == "rotate":
        return image.rotate(sign * 30 * share)
    if name in SIGNED:
        return image.transform(
            image.size, Image.Transform.AFFINE, map_of(name, image, level, sign, ranges)
        )
    if name == "posterize":
        bits = 4 - int(level * 4 / 10) if official else 4 + int(level * 4 / 10)
        return ImageOps.posterize(image, bits)
    return {
        "identity": lambda: image,
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
    }[name]()


def map_of(name, image, level, sign, ranges):
    """Return the six numbers of Pillow's affine maps."""
    side = image.size[0] if name == "translate-x" else image.size[1]
    pixels = int(level * side / 32) if ranges == "official" else 0.03 * level * side
    slope = sign * 0.3 * level / 10
    return {
        "shear-x": (1, slope, 0, 0, 1, 0),
        "shear-y": (1, 0, 0, slope, 1, 0),
        "translate-x": (1, 0, sign * pixels, 0, 1, 0),
        "translate-y": (1, 0, 0, 0, 1, sign * pixels),
    }[name]


def as_pillow(image):
    """Turn a tensor (c, h, w) of one or three channels into a Pillow image."""
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def as_tensors(images):
    """Turn Pillow images into a tensor (n, c, h, w)."""
    array = np.stack([np.asarray(image) for image in images])
    channels_last = array[..., None] if array.ndim == 3 else array
    return torch.from_numpy(channels_last).permute(0, 3, 1, 2)


@cache
def pictures(kind):
    """Return some images, uint8, (n, c, h, w)."""
    if kind == "digits":
        return fewlabels.load("digits").images.read(torch.arange(NUM_IMAGES))
    if kind == "cifar10":
        folder = Path(os.environ.get("FEWLABELS_DATA", "."))
        if not (folder / "cifar10.npz").is_file():
            pytest.skip("cifar10.npz is not in the folder that FEWLABELS_DATA names")
        return fewlabels.load("cifar10").images.read(torch.arange(NUM_IMAGES))
    return {"color": scenes(3, 32, 32), "oblong": scenes(3, 18, 27)}[kind]


def scenes(num_channels, height, width):
    """Make images with slopes, blobs, edges and noise, some of them dim or flat."""
    draws = stream(0, "scenes", num_channels, height, width)

    def uniform(*shape):
        return torch.rand(NUM_IMAGES, num_channels, *shape, 1, 1, generator=draws)

    down = torch.linspace(-1, 1, height)[:, None]
    right = torch.linspace(-1, 1, width)
    slopes = (uniform() - 0.5) * down
    slopes = slopes + (uniform() - 0.5) * right
    centers = uniform(3, 2) * 2 - 1
    distance = (down - centers[:, :, :, 0]) ** 2 + (right - centers[:, :, :, 1]) ** 2
    radius = uniform(3) * 0.6
    blobs = ((distance < radius) * (uniform(3) - 0.5)).sum(dim=2)
    noise = torch.randn(
        NUM_IMAGES, num_channels, height, width, generator=draws
    ) * torch.rand(NUM_IMAGES, 1, 1, 1, generator=draws).mul(0.1)
    range_of_values = torch.rand(NUM_IMAGES, 1, 1, 1, generator=draws) * 1.6
    values = 0.5 + (slopes + blobs + noise) * range_of_values
    values[:5] = values[:5].mean(dim=(2, 3), keepdim=True)  # flat ones
    return (values * 255).round().clamp(0, 255).to(torch.uint8)
