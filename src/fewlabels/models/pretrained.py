"""Networks of timm and transformers in a folder, as encoders.

Their own configuration says how images are prepared. Nothing is downloaded, nothing is
unpickled, and no code that comes with a model is run.

Shapes: n images, c channels, h and w pixels.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import get_ident
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules import module as registration

from fewlabels import rng
from fewlabels.errors import UsageError, whole_number
from fewlabels.models.local_models import (
    CONFIG,
    OF_IMAGES,
    hash_of_files,
    library_of,
    read_json,
)
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.names import check_known

Interpolation = Literal["nearest", "bilinear", "bicubic"]
Shapes = Mapping[str, tuple[int, ...]]

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colors of ImageNet, which most networks are told to expect."""

LARGEST_SIDE = 2048
"""Largest height or width, in pixels, that images are resized or cut to."""

USUAL_SIDE = 224
_COLORS = 3
_HIGHEST = 255.0
_USUAL_SHARE = 0.875
_OF_THE_NETWORK = ("input_size", "fixed_input_size", "pool_size", "first_conv")
_REFUSED = {
    "pretrained",
    "pretrained_cfg",
    "checkpoint_path",
    "cache_dir",
    "cache_file",
}
_LARGEST_NUMBERS = {"timm": 2**16, "transformers": 2**19}
"""Largest whole number in a configuration: of layers, of classes, of anything. Those of
transformers may have the vocabulary of a text model."""
_LEAST_SHARE = 0.25
"""Least share of an image that is cut out; images are resized to the inverse of it."""
_REGISTRATIONS = (
    registration.register_module_parameter_registration_hook,
    registration.register_module_buffer_registration_hook,
    registration.register_module_module_registration_hook,
)


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How images become the input of a network, in this order."""

    scale: int | tuple[int, int] | None
    """The shorter side, or height and width, they are resized to; None: not at all."""
    crop: tuple[int, int] | None = None
    """Height and width that are cut out of the center; None: all is kept."""
    interpolation: Interpolation = "bilinear"
    """How they are resized, always with antialiasing unless it is ``"nearest"``."""
    mean: tuple[float, ...] = MEAN
    """Subtracted from colors in [0, 1]."""
    spread: tuple[float, ...] = SPREAD
    """What colors are divided by after that."""

    def __post_init__(self) -> None:
        """Check what files may say."""
        check_known("interpolation", self.interpolation, Interpolation)
        scale = self.scale if isinstance(self.scale, tuple) else (self.scale or 1,)
        for side in (*scale, *(self.crop or ())):
            if not isinstance(side, int) or not 1 <= side <= LARGEST_SIDE:
                raise UsageError(
                    f"Images would be brought to {self.scale} and cut to {self.crop} "
                    f"pixels; sides of 1 to {LARGEST_SIDE:,} are supported."
                )
        if {len(self.mean), len(self.spread)} != {_COLORS} or 0 in self.spread:
            raise UsageError(
                f"Mean and spread of the colors are {self.mean} and {self.spread}; "
                "three numbers each are needed, no spread of 0."
            )

    @property
    def side(self) -> int | None:
        """Shorter side of the images that it takes without enlarging them."""
        return min(self.scale) if isinstance(self.scale, tuple) else self.scale

    def of(self, images: Tensor) -> Tensor:
        """Return the input of the network.

        Args:
            images: In [-1, 1], shape (n, c, h, w); grey ones get three equal channels.

        Returns:
            float32, shape (n, 3, h, w).
        """
        levels = ((images + 1) * (_HIGHEST / 2)).round()
        levels = self._resized(levels.expand(-1, _COLORS, -1, -1))
        if self.crop is not None:
            (height, width), (tall, wide) = levels.shape[2:], self.crop
            top, left = round((height - tall) / 2), round((width - wide) / 2)
            levels = levels[:, :, top : top + tall, left : left + wide]
        mean, spread = (
            levels.new_tensor(values)[:, None, None]
            for values in (self.mean, self.spread)
        )
        return (levels / _HIGHEST - mean) / spread

    def _resized(self, levels: Tensor) -> Tensor:
        """Bring images to a size, rounded to whole levels, as image libraries do."""
        height, width = levels.shape[2:]
        scale = self.scale
        if isinstance(scale, int):
            short = min(height, width)
            scale = (int(scale * height / short), int(scale * width / short))
        if scale is None or scale == (height, width):
            return levels
        if self.interpolation == "nearest":
            return F.interpolate(levels, scale, mode="nearest-exact")
        for size in ((height, scale[1]), scale):  # rows first, as Pillow does
            levels = F.interpolate(
                levels, size, mode=self.interpolation, antialias=True
            )
            levels = levels.round().clamp(0, _HIGHEST)
        return levels


class Preparing(Protocol):
    """Makes the input of a network of images; its ``repr`` tells all that decides."""

    @property
    def side(self) -> int | None:
        """Shorter side of images that need not be enlarged; None: of no size."""
        ...

    def of(self, images: Tensor) -> Tensor:
        """Return the input (n, 3, h, w) that images in [-1, 1] become."""
        ...


class Prepared(nn.Module):
    """A network together with the preparation of its images."""

    def __init__(self, network: nn.Module, preparation: Preparing) -> None:
        """Put both together.

        Args:
            network: Gives rows, or maps, of its input.
            preparation: What makes the input of images in [-1, 1].
        """
        super().__init__()
        self.network = network
        self.preparation = preparation

    @property
    def side(self) -> int | None:
        """Side of images that need not be resized."""
        return self.preparation.side

    def tried(self) -> int:
        """Return how many features the network gives for an image of noise.

        One that draws at random, such as a masked autoencoder, is refused.
        """
        side = self.side or USUAL_SIDE
        size, draws = (1, _COLORS, side, side), rng.stream(0, "noise to try")
        noise = 2 * torch.rand(size, generator=draws) - 1
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            first, again = self.eval()(noise), self(noise)
        if not torch.allclose(first, again):
            raise UsageError(
                "The network gives other features for the same image when asked again; "
                "choose another."
            )
        return int(first.shape[1])

    def forward(self, images: Tensor) -> Tensor:
        """Return what the network gives for images, shape (n, c, h, w)."""
        outputs: Tensor = self.network(self.preparation.of(images))
        return outputs


def from_folder(path: Path, *, size: int | None = None) -> ModuleEncoder:
    """Return the network in a folder, tried on an image of noise.

    Args:
        path: Holds what ``timm.models.save_for_hf`` or ``save_pretrained`` of
            transformers wrote, weights as safetensors.
        size: Side of the square that a network of timm sees, if it can see another than
            its configuration says.

    Returns:
        The encoder.
    """
    config = read_json(path / CONFIG)
    library = library_of(config)
    _check_numbers(path / CONFIG, config, _LARGEST_NUMBERS[library])
    weights = sorted(path.glob("*.safetensors"))
    shapes = {name: shape for file in weights for name, shape in _shapes(file)}
    load = _timm if library == "timm" else _transformers
    with torch.random.fork_rng(devices=[]):  # weights are drawn before they are read
        prepared = load(path, config, shapes, size)
    told = hash_of_files([path / CONFIG, *weights], repr(prepared.preparation))
    kind = config.get("architecture") or config.get("model_type")
    name, width = f"{library}-{kind}-{told}", prepared.tried()
    is_portable = library == "timm"
    return ModuleEncoder(
        prepared, name=name, feature_size=width, is_portable=is_portable
    )


def _timm(
    path: Path, config: Mapping[str, Any], shapes: Shapes, size: int | None
) -> Prepared:
    wanted = None if size is None else whole_number("size", size)
    prepares = timm_preparation(path, config, wanted)
    build = partial(_timm_network, path, config)
    outline = _outline(path, build, shapes).state_dict()
    lacking = [name for name in outline if shapes.get(name) != outline[name].shape]
    if lacking:
        raise UsageError(
            f"The weights in '{path}' lack {len(lacking)} tensors of the network, such "
            f"as '{lacking[0]}' of shape {tuple(outline[lacking[0]].shape)}; its "
            "features would be random. Save the model anew."
        )
    network, weights = build(), dict[str, Tensor]()
    for file in sorted(path.glob("*.safetensors")):
        weights |= load_file(file)
    network.load_state_dict(weights, strict=False)  # those of the classifier are left
    return Prepared(network, prepares)


def timm_preparation(
    path: Path, config: Mapping[str, Any], size: int | None
) -> Preparation:
    """Return how a network wants images: timm's rule, by its pretrained_cfg."""
    told = config.get("pretrained_cfg", config)
    built_for = (config.get("model_args") or {}).get("img_size")
    sides = (
        size
        or built_for
        or (told.get("input_size") or (_COLORS, USUAL_SIDE, USUAL_SIDE))[1:]
    )
    height, width = (sides, sides) if isinstance(sides, int) else sides
    share = told.get("crop_pct") or _USUAL_SHARE
    scale = math.floor(height / share), math.floor(width / share)
    mode = told.get("crop_mode") or "center"
    if mode == "border" or share > 1:
        raise UsageError(
            f"The model in '{path}' wants a border around images (crop_mode '{mode}', "
            f"crop_pct {share}), which is not known here."
        )
    keeps_ratio = mode == "center" and scale[0] == scale[1]
    return Preparation(
        scale=scale[0] if keeps_ratio else scale,
        crop=(height, width),
        interpolation=told.get("interpolation") or "bicubic",
        mean=tuple(told.get("mean") or MEAN),
        spread=tuple(told.get("std") or SPREAD),
    )


def _timm_network(path: Path, config: Mapping[str, Any]) -> nn.Module:
    """Return a network without its classifier and with random weights."""
    try:
        timm: Any = import_module("timm")
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"timm cannot be imported: {error}. Install a torchvision that fits torch."
        ) from error
    name = config["architecture"]
    arguments = dict(config.get("model_args") or {})
    if not timm.is_model(name) or arguments.keys() & _REFUSED:
        raise UsageError(
            f"This version of timm has no network '{name}' with the arguments "
            f"{sorted(arguments)}, which '{path}' asks for. Install a later one."
        )
    told = config.get("pretrained_cfg", config)
    own = {key: told[key] for key in _OF_THE_NETWORK if key in told}
    made: nn.Module = timm.create_model(
        name, pretrained=False, pretrained_cfg=own, **arguments | {"num_classes": 0}
    )
    return made


def _transformers(
    path: Path, config: Mapping[str, Any], shapes: Shapes, size: int | None
) -> Prepared:
    from fewlabels.models import transformers_models

    if size is not None:
        raise UsageError(
            f"size is {size}, and models of transformers see images as their own "
            "configuration says; leave size and quality out."
        )
    for name in OF_IMAGES:
        _check_numbers(path / name, read_json(path / name), LARGEST_SIDE, int | float)
    try:
        settings = transformers_models.settings(path, config)
        _outline(path, partial(transformers_models.outline, settings), shapes)
        return Prepared(
            transformers_models.Rows(path, settings),
            transformers_models.Processor(path),
        )
    except (ValueError, KeyError) as error:
        if "auto_map" not in config:
            raise
        raise UsageError(
            f"The model in '{path}' comes with code of its own, and models with code "
            "of their own are not loaded; choose one that transformers knows."
        ) from error


def _outline(path: Path, build: Callable[[], nn.Module], shapes: Shapes) -> nn.Module:
    """Return a network on the meta device, where weights take no memory.

    A configuration may ask for any number of layers of any width. What has more parts,
    or more values, than the files of weights can fill is not built to its end.
    """
    most_values = 2 * sum(math.prod(shape) for shape in shapes.values()) + 2**24
    most_parts = 20 * len(shapes) + 1000
    thread, num_values, num_parts = get_ident(), 0, 0

    def count(_: nn.Module, __: str, part: object) -> None:
        nonlocal num_values, num_parts
        if get_ident() != thread:
            return
        num_parts += 1
        num_values += part.numel() if isinstance(part, Tensor) else 0
        if num_values > most_values or num_parts > most_parts:
            raise UsageError(
                f"The {CONFIG} in '{path}' asks for a larger network than its weights "
                f"are of: {len(shapes)} tensors. Save the model anew."
            )

    hooks = [register(count) for register in _REGISTRATIONS]
    try:
        with torch.device("meta"):
            return build()
    finally:
        for hook in hooks:
            hook.remove()


def _check_numbers(file: Path, value: Any, largest: int, kinds: Any = int) -> None:
    """Raise if a configuration has a number that would take too much memory."""
    if isinstance(value, dict):
        share = value.get("crop_pct")
        if isinstance(share, int | float) and share < _LEAST_SHARE:
            raise UsageError(
                f"'{file}' has a crop_pct of {share}; at least {_LEAST_SHARE} is "
                "supported. Save the model anew."
            )
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_numbers(file, part, largest, kinds)
    elif isinstance(value, kinds) and value > largest:
        raise UsageError(
            f"'{file}' has the number {value:,}; up to {largest:,} are supported. Save "
            "the model anew."
        )


def _shapes(file: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of tensors, of a file that is as long as it says it is."""
    try:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 # it is no mapping
                yield name, tuple(tensors.get_slice(name).get_shape())
    except SafetensorError as error:
        raise UsageError(
            f"'{file}' is damaged or incomplete; save it again. ({error})"
        ) from error
