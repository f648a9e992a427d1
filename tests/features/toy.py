"""Images and an encoder that take a moment, and count how often they are asked."""

from dataclasses import dataclass, field

import torch

from fewlabels import rng
from fewlabels.data.arrays import item_ids
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


def images(num_items=NUM_ITEMS, shape=(1, 8, 8), seed=0):
    draws = rng.stream(seed, "toy images")
    return CountedImages(
        torch.randint(256, (num_items, *shape), generator=draws, dtype=torch.uint8)
    )


def ids_of(some):
    return item_ids("toy", some.items)


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
