"""Images and an encoder that take a moment, and count how often they are asked."""

from dataclasses import dataclass, field

import torch

from fewlabels import rng
from fewlabels.pool import ArrayImages

NUM_ITEMS = 600
"""Two whole blocks and a part of a third."""


@dataclass(frozen=True)
class CountedImages(ArrayImages):
    """Images in memory that note which were read."""

    reads: list[list[int]] = field(default_factory=list)

    def read(self, indices):
        self.reads.append(indices.tolist())
        return super().read(indices)


def draws(seed=0):
    return rng.stream(seed, "toy images")


def images(num_items=NUM_ITEMS, shape=(1, 8, 8), seed=0):
    size = (num_items, *shape)
    items = torch.randint(256, size, generator=draws(seed), dtype=torch.uint8)
    return CountedImages(items)


class Means:
    """Means of the rows of an image; no rounding depends on the other images."""

    feature_size = 8

    def __init__(self, name="means", scale=1.0):
        self.name, self.scale = name, scale
        self.num_embedded = 0

    def embed(self, images):
        self.num_embedded += len(images)
        return images.float().sum(dim=(1, 3)) / 64 * self.scale


class Flickering(Means):
    """As the means, and a feature that is all but dead in images as they are.

    It counts black rows of pixels, which strong views have and the images hardly.
    """

    feature_size = 9

    def embed(self, images):
        rows = super().embed(images) / 256
        black = (images.float().mean(dim=(1, 3)) < 8).float().sum(dim=1, keepdim=True)
        return torch.cat([rows, black * 2 + rows[:, :1] * 1e-3], dim=1)
