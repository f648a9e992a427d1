"""Small classifiers of each kind that can be exported."""

import torch

from fewlabels import models, training
from fewlabels.models.classifiers import FrozenClassifier, NetworkClassifier
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream

CLASSES = ("cat", "dog", "a|b_*c*")
SHAPE = (1, 8, 8)


def images(num_images=7, shape=SHAPE, seed=0):
    draws = stream(seed, "images")
    pixels = torch.randint(0, 256, (num_images, *shape), generator=draws)
    return ArrayImages(pixels.to(torch.uint8))


def moved(network):
    """Give running statistics other values than they begin with."""
    for number, buffer in enumerate(network.buffers()):
        if buffer.is_floating_point():
            away = torch.rand(buffer.shape, generator=stream(number, "buffer"))
            buffer.copy_(away + 0.5)
    return network.eval()


def from_scratch(network="wrn-10-1", shape=SHAPE):
    built = models.build(network, shape, len(CLASSES), stream(1, "weights"))
    return NetworkClassifier(moved(built), len(CLASSES))


def over(encoder, network="linear"):
    built = models.build(
        network, (encoder.feature_size,), len(CLASSES), stream(2, "weights")
    )
    return FrozenClassifier(
        module=moved(built), num_classes=len(CLASSES), encoder=encoder
    )


def by_neighbors():
    """Return a vote of 30 images, the first of which are those of ``images()``."""
    found = images(30)
    labels = torch.tensor([*range(3), *range(3), *[UNKNOWN] * 24])
    pool = Pool.build(found, labels, CLASSES)
    trainer = training.make("spreading", neighbors=4)
    return trainer.fit(pool, stream(4, "train"))


def own_encoder():
    return ModuleEncoder(torch.nn.Flatten(), feature_size=64)
