"""Saved networks as encoders: of timm or transformers in a folder, or an ONNX file.

The configuration of a folder says how images are prepared. Nothing is downloaded,
nothing is unpickled, and no code that comes with a model is run. Sizes in configuration
and header are checked before a network is built.

Shapes: n images, c channels, h and w pixels, F features.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from threading import get_ident
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.modules import module as registration

from fewlabels import rng
from fewlabels.errors import (
    DataError,
    Limits,
    Settings,
    UnknownNameError,
    UsageError,
    whole_number,
)
from fewlabels.models import checkpoint
from fewlabels.models.checkpoint import Shapes
from fewlabels.models.encoders import (
    PROCESSORS,
    config_file,
    hash_files,
    library_of,
    read_config,
    unusable_model,
)
from fewlabels.models.module_encoder import ModuleEncoder

Config = Mapping[str, Any]
Interpolation = Literal["nearest", "bilinear", "bicubic"]

MAX_SIDE = 2048
"""Largest height or width, in pixels, that images are resized or cropped to."""

_SIDE = Limits(at_least=1, at_most=MAX_SIDE)
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colors
_DEFAULT_SIDE = 224
_MIN_CROP = 0.25  # images are resized to the inverse of it
_MAX_NUMBERS = {"timm": 2**16, "transformers": 2**19}
"""Largest whole number in a configuration: of layers, of classes, of anything. Those of
transformers may have the vocabulary of a text model."""
_TIMM_INPUT = ("input_size", "fixed_input_size", "pool_size", "first_conv")
_TIMM_REFUSED = {
    *("pretrained", "pretrained_cfg", "checkpoint_path", "cache_dir", "cache_file")
}
_IGNORED = {
    *("_attn_implementation", "attn_implementation", "distributed_config"),
    *("_experts_implementation", "experts_implementation", "fusion_config"),
    *("kernel_config", "transformers_weights"),
}
"""How a network is computed and which files are read is not for its files to say."""
_REFUSED = (
    *("architecture", "backbone", "quantization_config"),
    *("use_pretrained_backbone", "use_timm_backbone"),
)
"""What makes transformers import or fetch something else."""
_CLASS_TOKENS = ("cls_token", "class_embedding", "class_token")


@dataclass(frozen=True, kw_only=True)
class Preparation(Settings):
    """How images become the input of a network, in this order."""

    scale: Annotated[int | tuple[int, int] | None, _SIDE]
    """The shorter side, or height and width, they are resized to; None: not at all."""
    crop: Annotated[tuple[int, int] | None, _SIDE] = None
    """Height and width that are cut out of the center; None: all is kept."""
    interpolation: Interpolation = "bilinear"
    """How they are resized, always with antialiasing unless it is ``"nearest"``."""
    mean: tuple[float, ...] = _MEAN
    """Subtracted from colors in [0, 1]."""
    spread: tuple[float, ...] = _STD
    """What colors are divided by after that."""

    def __post_init__(self) -> None:
        """Check what files may say."""
        super().__post_init__()
        if not len(self.mean) == len(self.spread) == 3 or 0 in self.spread:
            seen = f"mean {self.mean} and spread {self.spread}"
            raise UsageError(f"Colors have {seen}; give three numbers each, not 0.")

    @property
    def side(self) -> int | None:
        """Shorter side of the images that it takes without enlarging them."""
        return min(self.scale) if isinstance(self.scale, tuple) else self.scale

    def apply(self, images: Tensor) -> Tensor:
        """Return the input (n, 3, h, w) for images in [-1, 1], grey ones repeated."""
        levels = _as_levels(images)
        (height, width), scale = levels.shape[2:], self.scale
        if isinstance(scale, int):
            short = min(height, width)
            scale = (int(scale * height / short), int(scale * width / short))
        if scale is not None and scale != (height, width):
            if self.interpolation == "nearest":
                levels = F.interpolate(levels, scale, mode="nearest-exact")
            else:  # rows first and rounded to whole levels, as Pillow does
                for size in ((height, scale[1]), scale):
                    mode = self.interpolation
                    levels = F.interpolate(levels, size, mode=mode, antialias=True)
                    levels = levels.round().clamp(0, 255)
        if self.crop is not None:
            (height, width), (tall, wide) = levels.shape[2:], self.crop
            top, left = round((height - tall) / 2), round((width - wide) / 2)
            levels = levels[:, :, top : top + tall, left : left + wide]
        mean = levels.new_tensor(self.mean)[:, None, None]
        spread = levels.new_tensor(self.spread)[:, None, None]
        return (levels / 255 - mean) / spread


def _as_levels(images: Tensor) -> Tensor:
    """Return images in [-1, 1] as three colors of whole levels, 0 to 255."""
    return ((images + 1) * 127.5).round().expand(-1, 3, -1, -1)


class Prepared(nn.Module):
    """A network together with the preparation of its images."""

    def __init__(self, network: nn.Module, preparation: Any, side: int | None) -> None:
        """Combine a network, which returns rows or maps, and a preparation.

        Images whose shorter side is ``side`` need not be enlarged.
        """
        super().__init__()
        self.network: Any = network
        self.preparation, self.side = preparation, side

    def forward(self, images: Tensor) -> Tensor:
        """Return the output of the network for images in [-1, 1], (n, c, h, w)."""
        outputs: Tensor = self.network(self.preparation.apply(images))
        return outputs

    def encoder(self, name: str, *, is_portable: bool) -> ModuleEncoder:
        """Return the encoder, after a trial on an image of noise.

        A network that draws at random, such as a masked autoencoder, is refused.
        """
        side, draws = self.side or _DEFAULT_SIDE, rng.stream(0, "noise to try")
        noise = 2 * torch.rand((1, 3, side, side), generator=draws) - 1
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            first, again = self.eval()(noise), self(noise)
        if not torch.allclose(first, again):
            raise UsageError("The network's features are random; choose another.")
        width = first.shape[1]
        return ModuleEncoder(
            self, name=name, feature_size=width, is_portable=is_portable
        )


class Transformer(Prepared):
    """A network of transformers and its image processor, on the CPU.

    Its row is, in this order: ``get_image_features`` of models that know images and
    text; ``pooler_output``, if its weights came with the model; the class token; the
    mean over all positions.
    """

    def __init__(self, network: nn.Module, processor: Any, *, has_pooler: bool) -> None:
        """Wrap a network and its processor, which needs no torchvision."""
        sizes = [getattr(processor, name, None) or {} for name in ("size", "crop_size")]
        keys = ("shortest_edge", "height")
        sides = [int(size[key]) for size in sizes for key in keys if size.get(key)]
        super().__init__(network, processor, sides[0] if sides else None)
        self.has_pooler = has_pooler
        words = {name.rpartition(".")[2] for name, _ in network.named_parameters()}
        self.has_class_token = not words.isdisjoint(_CLASS_TOKENS)

    def forward(self, images: Tensor) -> Tensor:
        """Return rows (n, F), or maps (n, F, h, w), of images in [-1, 1]."""
        levels = list(_as_levels(images).to(torch.uint8).numpy())
        inputs = self.preparation(
            levels, return_tensors="pt", input_data_format="channels_first"
        )["pixel_values"]
        rows: Tensor
        if hasattr(self.network, "get_image_features"):
            outputs = self.network.get_image_features(pixel_values=inputs)
            rows = getattr(outputs, "pooler_output", outputs)
        else:
            outputs = self.network(pixel_values=inputs)
            pooled: Any = getattr(outputs, "pooler_output", None)
            has_pooled = self.has_pooler and pooled is not None
            rows = pooled if has_pooled else outputs.last_hidden_state
        if rows.ndim == 3:  # tokens
            rows = rows[:, 0] if self.has_class_token else rows.mean(dim=1)
        return rows


def from_folder(path: Path, *, size: int | None = None) -> ModuleEncoder:
    """Return the network in a folder, tried on an image of noise.

    Args:
        path: Holds what ``timm.models.save_for_hf``, ``save_pretrained`` of
            transformers or open_clip wrote, weights as safetensors.
        size: Side of the square that a network of timm sees, if it can see another than
            its configuration says.

    Returns:
        The encoder.
    """
    described = config_file(path)
    config = read_config(described)
    library = library_of(config)
    _check_numbers(described, config, _MAX_NUMBERS[library])
    weights, shapes = sorted(path.glob("*.safetensors")), dict[str, tuple[int, ...]]()
    for file in weights:
        try:
            shapes |= checkpoint.shapes(file)
        except DataError as error:
            raise unusable_model(file, f"it is damaged: {error.__cause__}") from error
    load = _load_timm if library == "timm" else _load_transformers
    with torch.random.fork_rng(devices=[]):  # weights are drawn before they are read
        prepared = load(path, config, shapes, size)
    digest = hash_files([described, *weights], repr(prepared.preparation))
    kind = config.get("architecture") or config.get("model_type") or "open_clip"
    return prepared.encoder(f"{library}-{kind}-{digest}", is_portable=library == "timm")


def _load_timm(
    path: Path, config: Config, shapes: Shapes, size: int | None
) -> Prepared:
    is_open_clip = "model_cfg" in config
    if is_open_clip:
        config = _config_of_open_clip(path, config)
    size = None if size is None else whole_number("size", size)
    preparation = timm_preparation(path, config, size)
    timm: Any = import_module("timm")
    name, arguments = config["architecture"], dict(config.get("model_args") or {})
    if not timm.is_model(name) or arguments.keys() & _TIMM_REFUSED:
        seen = f"timm has no network '{name}' with arguments {sorted(arguments)}"
        raise unusable_model(path, seen)
    published = config.get("pretrained_cfg", config)
    inputs = {key: published[key] for key in _TIMM_INPUT if key in published}
    arguments |= {"pretrained": False, "pretrained_cfg": inputs, "num_classes": 0}
    build = partial(timm.create_model, name, **arguments)  # without its classifier
    outline = _outline(path, build, shapes)
    if size is not None and hasattr(outline, "dynamic_img_size"):
        build = partial(build, dynamic_img_size=True)  # positions are interpolated
    weights = dict[str, Tensor]()
    for file in sorted(path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            names = sorted(opened.keys())
            names = [n for n in names if n.startswith("visual.") or not is_open_clip]
            weights |= {name: opened.get_tensor(name) for name in names}
    if is_open_clip:
        convert = import_module("timm.models.vision_transformer").checkpoint_filter_fn
        weights = convert(weights, outline)
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    wanted = outline.state_dict()
    _check_complete(path, [n for n in wanted if shapes.get(n) != wanted[n].shape])
    network: nn.Module = build()
    network.load_state_dict(weights, strict=False)  # the file has a classifier, too
    return Prepared(network, preparation, preparation.side)


def _config_of_open_clip(path: Path, config: Config) -> Config:
    """Return how timm names and prepares for the ViT of images in a model of open_clip.

    Its other half, for texts, is left out.
    """
    model, published = config["model_cfg"], config.get("preprocess_cfg") or {}
    vision = dict(model["vision_cfg"])
    try:
        width, side = vision.pop("width"), vision.pop("image_size")
        arguments = {
            "img_size": side,
            "embed_dim": width,
            "depth": vision.pop("layers"),
            "patch_size": vision.pop("patch_size"),
            "num_heads": width // vision.pop("head_width", 64),
            "mlp_ratio": vision.pop("mlp_ratio", 4.0),
        }
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise unusable_model(path, f"it is no plain ViT: {error!r}") from error
    if vision:
        raise unusable_model(path, f"'{next(iter(vision))}' is not supported")
    kind = "clip_quickgelu" if model.get("quick_gelu") else "clip"
    is_squashed = published.get("resize_mode") == "squash"
    prepared = {
        "input_size": (3, side, side),
        "crop_pct": 1.0,
        "crop_mode": "squash" if is_squashed else "center",
        "mean": (0.48145466, 0.4578275, 0.40821073),
        "std": (0.26862954, 0.26130258, 0.27577711),
    }
    shared = published.keys() & {"mean", "std", "interpolation"}
    return {
        "architecture": f"vit_base_patch16_{kind}_224",
        "model_args": arguments,
        "pretrained_cfg": prepared | {key: published[key] for key in shared},
    }


def timm_preparation(path: Path, config: Config, size: int | None) -> Preparation:
    """Return how a network wants images: timm's rule, by its pretrained_cfg."""
    published = config.get("pretrained_cfg", config)
    built_for = (config.get("model_args") or {}).get("img_size")
    sides = size or built_for or (published.get("input_size") or [])[1:]
    sides = sides or _DEFAULT_SIDE
    height, width = (sides, sides) if isinstance(sides, int) else sides
    share = published.get("crop_pct") or 0.875
    scale = math.floor(height / share), math.floor(width / share)
    mode = published.get("crop_mode") or "center"
    if mode == "border" or share > 1:
        seen = f"crop_mode '{mode}' with crop_pct {share} is not supported"
        raise unusable_model(path, seen)
    keeps_ratio = mode == "center" and scale[0] == scale[1]
    return Preparation(
        scale=scale[0] if keeps_ratio else scale,
        crop=(height, width),
        interpolation=published.get("interpolation") or "bicubic",
        mean=tuple(published.get("mean") or _MEAN),
        spread=tuple(published.get("std") or _STD),
    )


def _load_transformers(
    path: Path, config: Config, shapes: Shapes, size: int | None
) -> Prepared:
    if size is not None:
        raise UsageError(f"size is {size}; leave it out for models of transformers.")
    for name in PROCESSORS:
        _check_numbers(path / name, read_config(path / name), MAX_SIDE, int | float)

    def cleaned(value: Any) -> Any:
        """Leave out what would import or download attention kernels and the like."""
        if isinstance(value, list):
            return [cleaned(part) for part in value]
        if not isinstance(value, dict):
            return value
        refused = [key for key in _REFUSED if value.get(key)]
        if refused:
            raise unusable_model(path, f"'{refused[0]}' is not supported")
        return {key: cleaned(value[key]) for key in value if key not in _IGNORED}

    library: Any = import_module("transformers")
    log = library.utils.logging
    with ExitStack() as cleanup:
        cleanup.callback(log.set_verbosity, log.get_verbosity())
        if log.is_progress_bar_enabled():
            cleanup.callback(log.enable_progress_bar)
        log.set_verbosity_error()
        log.disable_progress_bar()
        kind = library.CONFIG_MAPPING[config["model_type"]]
        settings = kind.from_dict(cleaned(dict(config)))
        build = partial(library.AutoModel.from_config, deepcopy(settings))
        _outline(path, build, shapes)
        local = {"local_files_only": True, "trust_remote_code": False}
        processor = library.AutoImageProcessor.from_pretrained(
            path, backend="pil", **local
        )
        local |= {"use_safetensors": True, "output_loading_info": True}
        network, report = library.AutoModel.from_pretrained(
            path, config=settings, dtype=torch.float32, **local
        )
    missing = sorted(report["missing_keys"])
    _check_complete(path, [name for name in missing if "pooler" not in name])
    return Transformer(network, processor, has_pooler=not missing)


def _outline(path: Path, build: Callable[[], nn.Module], shapes: Shapes) -> nn.Module:
    """Return a network on the meta device, where weights take no memory.

    A configuration may ask for any number of layers of any width, so building stops at
    more parts or values than the files of weights can fill.
    """
    max_values = 2 * sum(math.prod(shape) for shape in shapes.values()) + 2**24
    max_parts = 20 * len(shapes) + 1000
    thread, num_values, num_parts = get_ident(), 0, 0

    def count(_: nn.Module, __: str, part: object) -> None:
        nonlocal num_values, num_parts
        if get_ident() != thread:
            return
        num_parts += 1
        num_values += part.numel() if isinstance(part, Tensor) else 0
        if num_values > max_values or num_parts > max_parts:
            seen = f"it asks for a larger network than its {len(shapes)} tensors"
            raise unusable_model(path, seen)

    with ExitStack() as hooks:
        for kind in ("parameter", "buffer", "module"):
            register = f"register_module_{kind}_registration_hook"
            hooks.callback(getattr(registration, register)(count).remove)
        with torch.device("meta"):
            return build()


def _check_complete(path: Path, lacking: Sequence[str]) -> None:
    if lacking:
        seen = f"its weights lack {len(lacking)} tensors, such as '{lacking[0]}'"
        raise unusable_model(path, seen)


def _check_numbers(file: Path, value: Any, largest: int, kinds: Any = int) -> None:
    """Raise if a configuration has a number that would take too much memory."""
    if isinstance(value, dict):
        share = value.get("crop_pct")
        if isinstance(share, int | float) and share < _MIN_CROP:
            raise unusable_model(file, f"crop_pct is {share}, below {_MIN_CROP}")
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_numbers(file, part, largest, kinds)
    elif isinstance(value, kinds) and value > largest:
        raise unusable_model(file, f"it has the number {value:,}, above {largest:,}")


def from_onnx(
    path: Path,
    *,
    size: int | None = None,
    mean: Sequence[float] = _MEAN,
    spread: Sequence[float] = _STD,
    interpolation: Interpolation = "bilinear",
    output: str | None = None,
) -> ModuleEncoder:
    """Return the network in an ONNX file, tried on an image of noise.

    Rows are its first output, or the one that is named; of maps (n, F, h, w) the mean
    over positions is taken. An ONNX file does not say how its images are to be
    prepared: they are resized to the size of its input, and colors are normalized by
    mean and spread of ImageNet, unless others are given.

    Args:
        path: The file.
        size: Side of the square that images are resized to; None: what the network
            takes or, if it takes any, 224.
        mean: Subtracted from colors in [0, 1].
        spread: What they are divided by after that.
        interpolation: How images are resized.
        output: Name of the output that holds the rows; None: the first.

    Returns:
        The encoder.
    """
    network = OnnxNetwork(path, output)
    side = _DEFAULT_SIDE if size is None else whole_number("size", size)
    height, width = (n if isinstance(n, int) else side for n in network.input_shape[2:])
    if size is not None and (height, width) != (size, size):
        raise UsageError(
            f"size is {size}; '{path}' takes images of {height} x {width} pixels only."
        )
    mean, spread = tuple(mean), tuple(spread)
    preparation = Preparation(
        scale=(height, width), interpolation=interpolation, mean=mean, spread=spread
    )
    # Weights are in the file, or in files beside it with the usual names.
    beside = path.parent.iterdir()
    files = sorted(p for p in beside if p.name.startswith(path.name) and p.is_file())
    digest = hash_files(files, repr((preparation, output)))
    name = f"onnx-{path.stem}-{digest}"
    prepared = Prepared(network, preparation, preparation.side)
    return prepared.encoder(name, is_portable=False)


class OnnxNetwork(nn.Module):
    """A session of onnxruntime; other processes open the file anew."""

    def __init__(self, path: Path, output: str | None) -> None:
        """Open the file and look at inputs and outputs of its network."""
        super().__init__()
        self.path = path
        outputs = [node.name for node in self._session.get_outputs()]
        self.output = outputs[0] if output is None else output
        if self.output not in outputs:
            raise UnknownNameError("output of the network", self.output, outputs)
        inputs = self._session.get_inputs()
        shapes = [tuple(node.shape) for node in inputs]
        self.input_name, self.input_shape = inputs[0].name, shapes[0]
        is_image = len(shapes) == 1 and len(shapes[0]) == 4
        if not is_image or shapes[0][1] not in {3, "", None}:
            seen = f"it takes inputs of shape {shapes}, not (n, 3, height, width)"
            raise unusable_model(path, seen)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the output, as many images at a time as the network takes."""
        fixed = self.input_shape[0]
        size = fixed if isinstance(fixed, int) else len(inputs)
        missing = inputs.new_zeros(-len(inputs) % size, *inputs.shape[1:])
        parts = [
            torch.from_numpy(
                self._session.run([self.output], {self.input_name: part.numpy()})[0]
            )
            for part in torch.split(torch.cat([inputs, missing]), size)
        ]
        return torch.cat(parts)[: len(inputs)]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the session."""
        return {name: own for name, own in vars(self).items() if name != "_session"}

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(
            str(self.path), options, providers=["CPUExecutionProvider"]
        )
