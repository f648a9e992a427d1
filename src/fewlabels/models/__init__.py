"""Networks, their names and their files.

``build("wrn-28-2", ...)`` is the network of the FixMatch and NPC papers;
``build("wrn-10-1", ...)`` is the same code with one block a stage, for small images.
"""

import re

from torch import Generator

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.models.network import Network, as_input
from fewlabels.models.wide_resnet import WideResNet, check_size

__all__ = ["Network", "WideResNet", "as_input", "build", "check_name"]

_IMAGE_AXES = 3
_PAPER_DEPTH = 28
_PAPER_MOMENTUM = 0.001
_SHORT_MOMENTUM = 0.01


def build(
    name: str,
    image_shape: tuple[int, ...],
    num_classes: int,
    generator: Generator,
    dropout: float = 0.0,
    bn_momentum: float | None = None,
) -> Network:
    """Return a freshly initialized network.

    Example:
        >>> network = build("wrn-10-1", (1, 8, 8), 10, Generator().manual_seed(0))
        >>> network.feature_size
        64

    Args:
        name: ``"wrn-DEPTH-WIDTH"``, such as ``"wrn-28-2"``.
        image_shape: Shape of one image: (channels, height, width).
        num_classes: Number of classes.
        generator: Where the initial weights come from.
        dropout: Share of the activations dropped inside each block.
        bn_momentum: Weight of a new minibatch in the running statistics of batch
            normalization. None: .001 as in the paper for 28 layers and more; .01 for
            shallower networks, which are trained for some hundred steps: after 600 of
            them, .001 would still leave half of the initial statistics in place.

    Returns:
        The network, in training mode.
    """
    depth, widen_factor = _depth_and_width(name)
    if len(image_shape) != _IMAGE_AXES:
        msg = (
            f"The network '{name}' needs images of shape (channels, height, width), "
            f"but the items have shape {image_shape}. Vectors are served by "
            "features.PrecomputedClassifier or by a trainer of your own."
        )
        raise UsageError(msg)
    if bn_momentum is None:
        bn_momentum = _PAPER_MOMENTUM if depth >= _PAPER_DEPTH else _SHORT_MOMENTUM
    return WideResNet(
        depth,
        widen_factor,
        in_channels=image_shape[0],
        num_classes=num_classes,
        generator=generator,
        dropout=dropout,
        bn_momentum=bn_momentum,
    )


def check_name(name: str) -> None:
    """Raise unless :func:`build` knows a network of this name."""
    check_size(*_depth_and_width(name))


def _depth_and_width(name: str) -> tuple[int, int]:
    found = re.fullmatch(r"wrn-(\d+)-(\d+)", name)
    if found is None:
        raise UnknownNameError("network", name, ["wrn-10-1", "wrn-28-2"])
    return int(found[1]), int(found[2])
