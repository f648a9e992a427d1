"""Networks of timm in a folder, with or without torchvision."""

import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn

from fewlabels.errors import UsageError
from fewlabels.features.preparation import MEAN, SPREAD, Preparation
from fewlabels.features.torchvision import emptied

_USUAL_INPUT, _USUAL_SHARE = (3, 224, 224), 0.875
_OF_THE_NETWORK = ("input_size", "fixed_input_size", "pool_size", "first_conv")
_REFUSED = {
    "pretrained",
    "pretrained_cfg",
    "checkpoint_path",
    "cache_dir",
    "cache_file",
}


def preparation(path: Path, config: Mapping[str, Any], size: int | None) -> Preparation:
    """Return how a network wants images: timm's rule, by its pretrained_cfg."""
    told = config.get("pretrained_cfg", config)
    built_for = (config.get("model_args") or {}).get("img_size")
    sides = size or built_for or (told.get("input_size") or _USUAL_INPUT)[1:]
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


def network(path: Path, config: Mapping[str, Any]) -> nn.Module:
    """Return a network without its classifier and with random weights."""
    timm = imported_timm()
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


def fill(network: nn.Module, path: Path) -> None:
    """Put the weights in; those of the classifier have no place, and are left out."""
    weights: dict[str, Tensor] = {}
    for file in sorted(path.glob("*.safetensors")):
        weights |= load_file(file)
    network.load_state_dict(weights, strict=False)


def imported_timm() -> Any:
    """Return timm, with something empty in the place of torchvision if need be."""
    with emptied():
        return import_module("timm")
