"""Networks, their names and their files.

``build("wrn-28-2", ...)`` is the network of the FixMatch and NPC papers;
``build("wrn-10-1", ...)`` is the same code with one block a stage, for small images.
``build("linear", ...)`` and ``build("mlp-256", ...)`` are heads over rows of features.
``build("neighbors-10-500-800", ...)`` remembers 800 rows; the 10 nearest of 500 vote.
``build("blend-10-500-800", ...)`` does so too, and mixes the vote with a regression.
"""

import math
import re
from collections.abc import Callable

from torch import Generator

from fewlabels import models
from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.models.network import Head, Network, check_hidden
from fewlabels.models.wide_resnet import WideResNet, check_depth_and_width

_IMAGE_AXES = 3
_PAPER_DEPTH = 28
_PAPER_MOMENTUM = 0.001
_SHORT_MOMENTUM = 0.01


def _check_neighbors(num_neighbors: int, num_voters: int, num_nodes: int) -> None:
    """Raise unless there is somebody to vote, and no voter is unknown."""
    if not (num_neighbors >= 1 and 1 <= num_voters <= num_nodes):
        raise UsageError(
            f"{num_neighbors} of {num_voters} rows vote, {num_nodes} are remembered; "
            "at least one must vote, and all voters be remembered."
        )


_CHECKS: dict[str, tuple[int, Callable[..., None]]] = {
    "linear": (0, lambda: None),
    "mlp": (1, check_hidden),
    "wrn": (2, check_depth_and_width),
    "neighbors": (3, _check_neighbors),
    "blend": (3, _check_neighbors),
}
"""How many sizes follow each word in a name, and what they may be."""
_EXAMPLES = ("linear", "mlp-256", "wrn-10-1", "wrn-28-2")


def build(
    name: str,
    item_shape: tuple[int, ...],
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
        >>> build("mlp-256", (64,), 10, Generator().manual_seed(0)).feature_size
        256

    Args:
        name: For images ``"wrn-DEPTH-WIDTH"``, such as ``"wrn-28-2"``; for rows of
            features ``"linear"``, or ``"mlp-WIDTH"`` with a hidden layer; for either
            ``"neighbors-K-R-M"`` and ``"blend-K-R-M"``, with nothing to initialize.
        item_shape: Shape of one item: (channels, height, width), or (features,).
        num_classes: Number of classes.
        generator: Where the initial weights come from.
        dropout: Share of the activations dropped inside each block of a Wide ResNet,
            or before the last layer of a head.
        bn_momentum: Weight of a new minibatch in the running statistics of batch
            normalization. None: .001 as in the paper for 28 layers and more; .01 for
            shallower networks, which are trained for some hundred steps: after 600 of
            them, .001 would still leave half of the initial statistics in place. A head
            has no batch normalization.

    Returns:
        The network, in training mode.
    """
    kind, sizes = _parse(name)
    if kind in {"neighbors", "blend"}:
        network = models.BlendNetwork if kind == "blend" else models.Neighbors
        keys = ("num_neighbors", "num_voters", "num_nodes")
        options = dict(zip(keys, sizes, strict=True))
        return network(math.prod(item_shape), num_classes=num_classes, **options)
    if len(item_shape) != (_IMAGE_AXES if kind == "wrn" else 1):
        needed, other = (
            ("images (channels, height, width)", "'linear' or 'mlp-256'")
            if kind == "wrn"
            else ("rows of features", "'wrn-10-1', or embed images (models.embedded)")
        )
        raise UsageError(
            f"The network '{name}' needs {needed}, not shape {item_shape}. Use {other}."
        )
    if kind != "wrn":
        return Head(
            item_shape[0],
            sizes[0] if sizes else None,
            num_classes=num_classes,
            generator=generator,
            dropout=dropout,
        )
    depth, widen_factor = sizes
    if bn_momentum is None:
        bn_momentum = _PAPER_MOMENTUM if depth >= _PAPER_DEPTH else _SHORT_MOMENTUM
    return WideResNet(
        depth,
        widen_factor,
        in_channels=item_shape[0],
        num_classes=num_classes,
        generator=generator,
        dropout=dropout,
        bn_momentum=bn_momentum,
    )


def name_of(network: Network) -> str:
    """Return the name that :func:`build` makes a network by.

    Example:
        >>> name_of(build("wrn-16-2", (3, 8, 8), 10, Generator().manual_seed(0)))
        'wrn-16-2'
    """
    if isinstance(network, WideResNet):
        return f"wrn-{network.depth}-{network.widen_factor}"
    if isinstance(network, Head):
        hidden = network.hidden
        return "linear" if hidden is None else f"mlp-{hidden.out_features}"
    if isinstance(network, models.Neighbors):
        kind = "blend" if isinstance(network, models.BlendNetwork) else "neighbors"
        sizes = network.num_neighbors, network.num_voters, len(network.hashes)
        return f"{kind}-{'-'.join(map(str, sizes))}"
    raise UsageError(
        f"A network of type {type(network).__name__} has no name; use models.build."
    )


def check_name(name: str) -> None:
    """Raise unless :func:`build` knows a network of this name."""
    _parse(name)


def _parse(name: str) -> tuple[str, list[int]]:
    """Return the first word of a name and the sizes in it, once they are checked."""
    kind, *digits = name.split("-")
    num_sizes, check = _CHECKS.get(kind, (-1, check_hidden))
    are_sizes = all(re.fullmatch(r"\d{1,9}", size) for size in digits)
    if len(digits) != num_sizes or not are_sizes:
        raise UnknownNameError("network", name, _EXAMPLES)
    sizes = [int(size) for size in digits]
    check(*sizes)
    return kind, sizes
