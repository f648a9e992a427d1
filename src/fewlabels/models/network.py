"""Networks and their names: heads over rows of features, and the Wide ResNet.

``build("wrn-28-2", ...)`` is the network of the FixMatch and NPC papers;
``build("wrn-10-1", ...)`` is the same code with one block a stage, for small images.
``build("linear", ...)`` and ``build("mlp-256", ...)`` are heads over rows of features.
``build("neighbors-10-500-800", ...)`` remembers 800 rows; the 10 nearest of 500 vote.
``build("blend-10-500-800", ...)`` does so too, and mixes the vote with a regression.

``torch.nn.Dropout`` draws from the global generator, so that a training cannot be
repeated by itself. The one here draws from the generator that the trainer hands in. For
joint predictions (BatchBALD) it can also hold *one* mask for all items: that is one
network sampled from the approximate posterior (Gal and Ghahramani, 2016, Sec. 4).
"""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fewlabels import models
from fewlabels.errors import ShapeError, UnknownNameError, UsageError, check_range

_SLOPE = 0.1
_STEM_WIDTH = 16
_NUM_AXES = {"linear": 1, "mlp": 1, "wrn": 3}
"""Of the items that a network takes, by the first word of its name."""
_NUM_SIZES = {"linear": 0, "mlp": 1, "wrn": 2, "neighbors": 3, "blend": 3}
"""How many sizes follow each word in a name."""
_EXAMPLES = ("linear", "mlp-256", "wrn-10-1", "wrn-28-2")


class Network(nn.Module):
    """A network that ends in a linear layer: logits = head(embed(images)).

    Where the items are vectors, read "rows of shape (n, F)" for images.
    """

    head: nn.Linear
    name = ""
    """What :func:`build` makes it by."""

    @property
    def feature_size(self) -> int:
        """Width of the input of the last layer (F)."""
        return self.head.in_features

    def embed(self, images: Tensor) -> Tensor:
        """Return the features of images in [-1, 1]: (n, c, h, w) to (n, F)."""
        raise NotImplementedError

    def recall(self, images: Tensor) -> Tensor:
        """Return the features as :meth:`embed` does, sooner for what is remembered."""
        return self.embed(images)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of images in [-1, 1]: (n, c, h, w) to (n, C)."""
        logits: Tensor = self.head(self.embed(images))
        return logits


class Dense(nn.Linear):
    """A linear layer that leaves its initialization to the network."""

    def __init__(self, width_in: int, width: int) -> None:
        """Reserve the weights."""
        super().__init__(width_in, width, dtype=torch.float32)

    def reset_parameters(self) -> None:
        """Draw nothing: torch would draw from the global generator."""

    def initialize(self, generator: Generator) -> None:
        """Draw weights from Glorot's normal distribution; biases are zero."""
        nn.init.xavier_normal_(self.weight, generator=generator)
        nn.init.zeros_(self.bias)


def as_input(images: Tensor) -> Tensor:
    """Map bytes to the input range of the networks: 0 to -1, 255 to 1.

    Example:
        >>> as_input(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
        [-1.0, 1.0]

    Args:
        images: Images as uint8, any shape; or vectors in floating point, which have no
            fixed range and keep their values.

    Returns:
        float32 of the same shape; images in [-1, 1].
    """
    if images.is_floating_point():
        return images.to(torch.float32)
    return images.to(torch.float32).div_(255 / 2).sub_(1)


class Dropout(nn.Module):
    """Zero a share of the activations and scale up the rest."""

    def __init__(self, share: float) -> None:
        """Set the share of the activations that is dropped, in [0, 1)."""
        super().__init__()
        check_range("dropout", share, at_least=0, below=1)
        self.share = share
        self._mask: Tensor | None = None
        self.use(None)

    def forward(self, activations: Tensor) -> Tensor:
        """Drop elements in training, or under :func:`sampled`; else do nothing."""
        if self.share == 0.0:
            return activations
        if self.shares_mask:
            if self._mask is None:
                self._mask = self._draw_mask(activations[:1])
            return activations * self._mask
        if self.training:
            return activations * self._draw_mask(activations)
        return activations

    def _draw_mask(self, like: Tensor) -> Tensor:
        if self.generator is None:
            raise UsageError("Dropout has no generator; call draw_from first.")
        draws = torch.rand(like.shape, generator=self.generator, dtype=torch.float32)
        kept = draws >= self.share
        return kept.to(like) / (1.0 - self.share)

    def use(self, generator: Generator | None, *, shares_mask: bool = False) -> None:
        """Draw from ``generator`` from now on, and forget the mask held so far."""
        self.generator = generator
        self.shares_mask = shares_mask
        self._mask = None


def dropout_layers(module: nn.Module) -> list[Dropout]:
    """Return the dropout layers of ``module`` that drop anything."""
    return [m for m in module.modules() if isinstance(m, Dropout) and m.share > 0.0]


def draw_from(module: nn.Module, generator: Generator | None) -> None:
    """Let every dropout layer of ``module`` draw its masks from ``generator``."""
    for layer in dropout_layers(module):
        layer.use(generator)


@contextmanager
def sampled(module: nn.Module, generator: Generator) -> Iterator[None]:
    """Make ``module`` one sampled network inside the block.

    Each layer draws a single mask from ``generator`` when it is first used, in the
    order of the forward pass, and applies it to every item after that. The same
    generator state therefore gives the same network, however the items are chunked.

    Yields:
        Nothing.
    """
    before = [layer.generator for layer in dropout_layers(module)]
    for layer in dropout_layers(module):
        layer.use(generator, shares_mask=True)
    try:
        yield
    finally:
        for layer, previous in zip(dropout_layers(module), before, strict=True):
            layer.use(previous)


class Head(Network):
    """A linear layer over standardized rows, with or without a hidden layer before it.

    The mean and deviation that rows are standardized by are buffers: they are saved
    with the weights and not trained. They begin as 0 and 1.
    """

    def __init__(
        self,
        row_size: int,
        hidden_size: int | None,
        num_classes: int,
        generator: Generator,
        dropout: float = 0.0,
    ) -> None:
        """Build and initialize the network.

        Args:
            row_size: Length of a row (D).
            hidden_size: Width of the hidden layer (F); None: there is none.
            num_classes: Number of classes (C).
            generator: Where the initial weights come from.
            dropout: Share of the last layer's inputs that is dropped in training.
        """
        super().__init__()
        single = torch.float32
        self.mean = nn.Buffer(torch.zeros(row_size, dtype=single))
        self.deviation = nn.Buffer(torch.ones(row_size, dtype=single))
        self.hidden = None if hidden_size is None else Dense(row_size, hidden_size)
        self.dropout = Dropout(dropout)
        self.head = Dense(hidden_size or row_size, num_classes)
        if self.hidden is not None:
            weight = self.hidden.weight
            nn.init.kaiming_normal_(weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(self.hidden.bias)
        self.head.initialize(generator)

    def embed(self, images: Tensor) -> Tensor:
        """Return the input of the last layer: rows (n, D) to (n, F)."""
        features = (images - self.mean) / self.deviation
        if self.hidden is not None:
            features = self.hidden(features).relu()
        dropped: Tensor = self.dropout(features)
        return dropped

    def standardize_by(self, mean: Tensor, deviation: Tensor) -> None:
        """Standardize rows by mean and deviation, above zero, of each feature (D,)."""
        if not mean.shape == deviation.shape == self.mean.shape:
            seen = f"{tuple(mean.shape)} and {tuple(deviation.shape)}"
            raise ShapeError(
                f"mean and deviation have shapes {seen} for {len(self.mean)} features."
            )
        check_range("The smallest deviation", float(deviation.min()), above=0)
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)


class WideResNet(Network):
    """WRN-depth-widen_factor: three stages of (depth - 4) / 6 residual blocks.

    The architecture is Zagoruyko and Komodakis (2016) with the details that Oliver et
    al. (2018) gave it and FixMatch (Sohn et al., 2020, Sec. 4.1) kept: leaky rectifiers
    of slope .1, batch normalization with epsilon .001, a first block that activates
    before the residual. FixMatch's program has biases in convolutions, which the batch
    normalization after them cancels, and pads those of stride 2 as TensorFlow does,
    (0, 1); here there are no such biases, and the padding is (1, 1).

    Weights are drawn from ``generator`` alone: kernels from a normal distribution with
    variance 2 / (k·k·output channels), the head from Glorot's normal distribution,
    biases zero. The global random state is neither read nor changed.
    """

    def __init__(
        self,
        depth: int,
        widen_factor: int,
        in_channels: int,
        num_classes: int,
        generator: Generator,
        dropout: float = 0.0,
        bn_momentum: float | None = None,
    ) -> None:
        """Build and initialize the network.

        Args:
            depth: Number of layers, 6k + 4: 10, 16, 22, 28 and so on.
            widen_factor: How many times wider than 16, 32, 64 channels the stages are.
            in_channels: Channels of the images.
            num_classes: Number of classes.
            generator: Where the initial weights come from.
            dropout: Share of the activations dropped between the two convolutions of
                each block, as in the Wide ResNet paper (Sec. 2.4).
            bn_momentum: Weight of a new minibatch in the running statistics; .001 is
                what TensorFlow calls .999. None: as :func:`build` says.
        """
        super().__init__()
        if bn_momentum is None:
            bn_momentum = 0.001 if depth >= 28 else 0.01
        self.stem = _Convolution(in_channels, _STEM_WIDTH, 3)
        blocks: list[_Block] = []
        width_in = _STEM_WIDTH
        for stage, first_stride in enumerate((1, 2, 2)):
            width = _STEM_WIDTH * widen_factor * 2**stage
            for number in range((depth - 4) // 6):
                stride = 1 if number else first_stride
                block = _Block(width_in, width, stride, dropout, bn_momentum)
                block.activates_before_residual = not blocks
                blocks.append(block)
                width_in = width
        self.blocks = nn.Sequential(*blocks)
        self.norm = _Normalization(width_in, bn_momentum)
        self.head = Dense(width_in, num_classes)
        for layer in self.modules():  # torch left all weights undefined
            if isinstance(layer, _Convolution):
                fan_out = layer.out_channels * math.prod(layer.kernel_size)
                kernel, std = layer.weight, math.sqrt(2.0 / fan_out)
                nn.init.normal_(kernel, std=std, generator=generator)
                # About a quarter faster on CPUs; convolutions pass the layout on.
                kernel.data = kernel.data.to(memory_format=torch.channels_last)
        self.head.initialize(generator)

    def embed(self, images: Tensor) -> Tensor:
        """Return the features of images in [-1, 1]: (n, c, h, w) to (n, F)."""
        maps: Tensor = F.leaky_relu(self.norm(self.blocks(self.stem(images))), _SLOPE)
        return maps.mean(dim=(2, 3))


class _Block(nn.Module):
    """A pre-activation residual block of two 3x3 convolutions."""

    activates_before_residual = False

    def __init__(
        self, width_in: int, width: int, stride: int, dropout: float, bn_momentum: float
    ) -> None:
        super().__init__()
        self.norm1 = _Normalization(width_in, bn_momentum)
        self.conv1 = _Convolution(width_in, width, 3, stride)
        self.norm2 = _Normalization(width, bn_momentum)
        self.dropout = Dropout(dropout)
        self.conv2 = _Convolution(width, width, 3)
        self.shortcut: nn.Module = nn.Identity()
        if width_in != width or stride != 1:
            self.shortcut = _Convolution(width_in, width, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Add the residual to the shortcut.

        The first convolution always sees the normalized, activated input. Only the
        shortcut differs: activated input in the first block of the network, raw input
        everywhere else. (Popular ports feed raw input to the first convolution of a
        stage.)

        Args:
            maps: Shape (n, width_in, h, w).

        Returns:
            Shape (n, width, h / stride, w / stride).
        """
        activated = F.leaky_relu(self.norm1(maps), _SLOPE)
        skipped = activated if self.activates_before_residual else maps
        inner = F.leaky_relu(self.norm2(self.conv1(activated)), _SLOPE)
        residual: Tensor = self.conv2(self.dropout(inner))
        shortcut: Tensor = self.shortcut(skipped)
        return shortcut + residual


class _Convolution(nn.Conv2d):
    """A convolution without bias that keeps the size at stride 1."""

    def __init__(self, width_in: int, width: int, size: int, stride: int = 1) -> None:
        super().__init__(
            width_in, width, size, stride, size // 2, bias=False, dtype=torch.float32
        )

    def reset_parameters(self) -> None:
        """Draw nothing: torch would draw from the global generator."""


class _Normalization(nn.BatchNorm2d):
    """Batch normalization in single precision, whatever torch's default is."""

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__(width, eps=1e-3, momentum=momentum, dtype=torch.float32)


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
    kind, sizes = check_name(name)
    if len(item_shape) != _NUM_AXES.get(kind, len(item_shape)):
        needed = "images" if kind == "wrn" else "rows of features"
        raise UsageError(
            f"The network '{name}' needs {needed}, not shape {item_shape}. Use "
            "'wrn-10-1' for images, 'linear' or 'mlp-256' for features."
        )
    network: Network
    given = num_classes, generator, dropout
    if kind == "wrn":
        depth, factor = sizes
        network = WideResNet(depth, factor, item_shape[0], *given, bn_momentum)
    elif kind in {"linear", "mlp"}:
        network = Head(item_shape[0], sizes[0] if sizes else None, *given)
    else:
        voting = models.BlendNetwork if kind == "blend" else models.Neighbors
        network = voting(math.prod(item_shape), num_classes, *sizes)
    network.name = "-".join(map(str, (kind, *sizes)))
    return network


def name_of(network: Network) -> str:
    """Return the name that :func:`build` makes a network by.

    Example:
        >>> name_of(build("wrn-16-2", (3, 8, 8), 10, Generator().manual_seed(0)))
        'wrn-16-2'
    """
    if not network.name:
        kind = type(network).__name__
        raise UsageError(f"A network of type {kind} has no name; use models.build.")
    return network.name


def check_name(name: str) -> tuple[str, list[int]]:
    """Return the first word of a name and the sizes in it, once they are checked."""
    kind, *digits = name.split("-")
    are_sizes = all(re.fullmatch(r"\d{1,9}", size) for size in digits)
    if len(digits) != _NUM_SIZES.get(kind) or not are_sizes:
        raise UnknownNameError("network", name, _EXAMPLES)
    sizes = [int(size) for size in digits]
    if kind == "mlp":
        width = "The width of a hidden layer"
        check_range(width, sizes[0], at_least=1, at_most=1_000_000)
    elif kind == "wrn":  # the limits are above every published network
        check_range("depth", sizes[0], at_least=10, at_most=400)
        if sizes[0] % 6 != 4:
            raise UsageError(f"depth is {sizes[0]}; give 10, 16, 22, 28 or so on.")
        check_range("widen_factor", sizes[1], at_least=1, at_most=1000)
    elif sizes and not (sizes[0] >= 1 and 1 <= sizes[1] <= sizes[2]):
        raise UsageError(
            f"{sizes[0]} of {sizes[1]} rows vote, {sizes[2]} are remembered; at least "
            "one must vote, and all voters be remembered."
        )
    return kind, sizes
