"""The Wide ResNet of the semi-supervised literature.

The architecture is Zagoruyko and Komodakis (2016) with the details that Oliver et al.
(2018) gave it and FixMatch (Sohn et al., 2020, Sec. 4.1) kept: leaky rectifiers of
slope .1, batch normalization with epsilon .001, a first block that activates before the
residual. FixMatch's program has biases in convolutions, which the batch normalization
after them cancels, and pads those of stride 2 as TensorFlow does, (0, 1); here there
are no such biases, and the padding is (1, 1).
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fewlabels.errors import UsageError, check_range
from fewlabels.models.network import Dense, Dropout, Network

_SLOPE = 0.1
_EPSILON = 1e-3
_STEM_WIDTH = 16
_KERNEL_AXES = 4
_STAGE_STRIDES = (1, 2, 2)
_DEEPEST, _WIDEST = 400, 1000  # of all that anybody has trained, and then some


class WideResNet(Network):
    """WRN-depth-widen_factor: three stages of (depth - 4) / 6 residual blocks.

    Weights are drawn from ``generator`` alone: kernels from a normal distribution with
    variance 2 / (k·k·output channels), the head from Glorot's normal distribution,
    biases zero. The global random state is neither read nor changed.
    """

    def __init__(
        self,
        depth: int,
        widen_factor: int,
        *,
        in_channels: int,
        num_classes: int,
        generator: Generator,
        dropout: float = 0.0,
        bn_momentum: float = 0.001,
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
                what TensorFlow calls .999.
        """
        super().__init__()
        check_depth_and_width(depth, widen_factor)
        self.depth = depth
        self.widen_factor = widen_factor
        num_blocks = (depth - 4) // 6
        self.stem = _Convolution(in_channels, _STEM_WIDTH, 3)
        blocks: list[_Block] = []
        width_in = _STEM_WIDTH
        for stage, stage_stride in enumerate(_STAGE_STRIDES):
            width = _STEM_WIDTH * widen_factor * 2**stage
            for number in range(num_blocks):
                blocks.append(
                    _Block(
                        width_in,
                        width,
                        stride=stage_stride if number == 0 else 1,
                        activates_before_residual=not blocks,
                        dropout=dropout,
                        bn_momentum=bn_momentum,
                    )
                )
                width_in = width
        self.blocks = nn.Sequential(*blocks)
        self.norm = _Normalization(width_in, bn_momentum)
        self.head = Dense(width_in, num_classes)
        for layer in self.modules():  # torch left all weights undefined
            if isinstance(layer, _Convolution):
                fan_out = layer.out_channels * math.prod(layer.kernel_size)
                std = math.sqrt(2.0 / fan_out)
                nn.init.normal_(layer.weight, std=std, generator=generator)
            elif isinstance(layer, Dense):
                layer.initialize(generator)
        # About a quarter faster on CPUs; convolutions pass the layout on.
        for kernel in self.parameters():
            if kernel.ndim == _KERNEL_AXES:
                kernel.data = kernel.data.to(memory_format=torch.channels_last)

    def embed(self, images: Tensor) -> Tensor:
        """Return the features of images in [-1, 1]: (n, c, h, w) to (n, F)."""
        maps: Tensor = F.leaky_relu(self.norm(self.blocks(self.stem(images))), _SLOPE)
        return maps.mean(dim=(2, 3))


class _Block(nn.Module):
    """A pre-activation residual block of two 3x3 convolutions."""

    def __init__(
        self,
        width_in: int,
        width: int,
        *,
        stride: int,
        activates_before_residual: bool,
        dropout: float,
        bn_momentum: float,
    ) -> None:
        super().__init__()
        self.activates_before_residual = activates_before_residual
        self.norm1 = _Normalization(width_in, bn_momentum)
        self.conv1 = _Convolution(width_in, width, 3, stride=stride)
        self.norm2 = _Normalization(width, bn_momentum)
        self.dropout = Dropout(dropout)
        self.conv2 = _Convolution(width, width, 3)
        self.shortcut: nn.Module = nn.Identity()
        if width_in != width or stride != 1:
            self.shortcut = _Convolution(width_in, width, 1, stride=stride)

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

    def __init__(
        self, width_in: int, width: int, size: int, *, stride: int = 1
    ) -> None:
        super().__init__(
            width_in,
            width,
            size,
            stride=stride,
            padding=size // 2,
            bias=False,
            dtype=torch.float32,
        )

    def reset_parameters(self) -> None:
        """Draw nothing: torch would draw from the global generator."""


class _Normalization(nn.BatchNorm2d):
    """Batch normalization in single precision, whatever torch's default is."""

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__(width, eps=_EPSILON, momentum=momentum, dtype=torch.float32)


def check_depth_and_width(depth: int, widen_factor: int) -> None:
    """Raise unless there is a Wide ResNet of this size, and say which there are."""
    num_blocks, rest = divmod(depth - 4, 6)
    if rest or num_blocks < 1:
        below = 6 * max(1, num_blocks) + 4
        raise UsageError(
            f"depth is {depth}; it must be 6k + 4, such as {below} or {below + 6}."
        )
    check_range("depth", depth, at_most=_DEEPEST)
    check_range("widen_factor", widen_factor, at_least=1, at_most=_WIDEST)
