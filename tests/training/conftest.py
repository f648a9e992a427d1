"""A pool that trains in a moment: dark and bright images with a little noise."""

from dataclasses import fields, replace

import pytest
import torch

from fewlabels import rng
from fewlabels.pool import UNKNOWN, ArrayImages, Pool

NUM_ITEMS = 40


def tiny_pool(labeled=6, num_classes=2, shape=(1, 4, 4), seed=0):
    draws = rng.stream(seed, "tiny")
    classes = torch.arange(NUM_ITEMS) % num_classes
    level = 60 + classes * (150 // max(1, num_classes - 1))
    noise = torch.randint(-40, 41, (NUM_ITEMS, *shape), generator=draws)
    images = (level.view(-1, *[1] * len(shape)) + noise).clamp(0, 255).to(torch.uint8)
    labels = torch.full((NUM_ITEMS,), UNKNOWN)
    labels[:labeled] = classes[:labeled]
    return Pool.build(ArrayImages(images), labels, [str(c) for c in range(num_classes)])


def changed(trainer, **options):
    """Return a training with other values of some options."""
    parts = {}
    for part in fields(trainer):
        own = getattr(trainer, part.name)
        known = () if own is None else [field.name for field in fields(own)]
        new = {name: options.pop(name) for name in known if name in options}
        parts[part.name] = replace(own, **new) if new else own
    assert not options
    return replace(trainer, **parts)


@pytest.fixture
def pool():
    return tiny_pool()
