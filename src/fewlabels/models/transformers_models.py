"""Networks of transformers in a folder, their images prepared by its own processors.

Which output is the row is decided in this order: what ``get_image_features`` gives, of
models that know images and text; ``pooler_output``, if its weights came with the model;
the class token; the mean over all positions.

Shapes: n images, t positions, F features.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fewlabels.errors import UsageError

_CLASS_TOKENS = ("cls_token", "class_embedding", "class_token")
_TOKEN_AXES = 3
_DROPPED = {
    "_attn_implementation",
    "_experts_implementation",
    "attn_implementation",
    "distributed_config",
    "experts_implementation",
    "fusion_config",
    "kernel_config",
    "transformers_weights",
}
"""How a network is computed and which files are read is not for its files to say."""
_REFUSED = {
    "architecture",
    "backbone",
    "quantization_config",
    "use_pretrained_backbone",
    "use_timm_backbone",
}
"""What makes transformers import or fetch something else."""


def settings(path: Path, config: Mapping[str, Any]) -> Any:
    """Return the configuration of a network, without what is decided here.

    Attention is then scaled_dot_product_attention of torch, or plain arithmetic where a
    network does not know it: no kernel that a file names is imported or downloaded.
    """

    def cleaned(value: Any) -> Any:
        if isinstance(value, list):
            return [cleaned(part) for part in value]
        if not isinstance(value, dict):
            return value
        refused = [key for key in sorted(_REFUSED) if value.get(key)]
        if refused:
            raise UsageError(
                f"The config.json in '{path}' has '{refused[0]}', and quantized models "
                "and models around another one are not loaded; choose another."
            )
        return {key: cleaned(value[key]) for key in value if key not in _DROPPED}

    with _quiet() as library:
        kind = library.CONFIG_MAPPING[config["model_type"]]
        return kind.from_dict(cleaned(dict(config)))


def outline(settings: Any) -> nn.Module:
    """Return a network as it is before its weights are read."""
    with _quiet() as library:
        network: nn.Module = library.AutoModel.from_config(deepcopy(settings))
        return network


class Processor:
    """What prepares images, on the CPU and without torchvision."""

    def __init__(self, path: Path) -> None:
        """Read how images are prepared."""
        with _quiet() as library:
            self._own = library.AutoImageProcessor.from_pretrained(
                path, local_files_only=True, trust_remote_code=False, backend="pil"
            )

    def __repr__(self) -> str:
        """Say all that decides."""
        return str(self._own)

    @property
    def side(self) -> int | None:
        """Shorter side of images that need not be enlarged."""
        for told in (self._own.size, getattr(self._own, "crop_size", None)):
            for key in ("shortest_edge", "height"):
                if told is not None and told.get(key):
                    return int(told[key])
        return None

    def of(self, images: Tensor) -> Tensor:
        """Return the input of the network.

        Args:
            images: In [-1, 1], shape (n, c, h, w).

        Returns:
            float32, shape (n, 3, h, w).
        """
        levels = ((images + 1) * 127.5).round().to(torch.uint8).expand(-1, 3, -1, -1)
        inputs: Tensor = self._own(
            list(levels.numpy()),
            return_tensors="pt",
            input_data_format="channels_first",
        )["pixel_values"]
        return inputs


class Rows(nn.Module):
    """A network, and which of its outputs is the row."""

    def __init__(self, path: Path, settings: Any) -> None:
        """Load the network; what its weights lack would be random."""
        super().__init__()
        with _quiet() as library:
            self.network, told = library.AutoModel.from_pretrained(
                path,
                config=settings,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                dtype=torch.float32,
            )
        lacking = sorted(told["missing_keys"])
        others = [name for name in lacking if "pooler" not in name]
        if others:
            raise UsageError(
                f"The weights in '{path}' lack {len(others)} tensors of the network, "
                f"such as '{others[0]}'; its features would be random. Save the model "
                "anew."
            )
        self.has_pooler = not lacking
        words = {name.rpartition(".")[2] for name, _ in self.network.named_parameters()}
        self.has_class_token = not words.isdisjoint(_CLASS_TOKENS)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return rows (n, F), or maps (n, F, h, w)."""
        image_features = getattr(self.network, "get_image_features", None)
        if image_features is not None:
            found: Any = image_features(pixel_values=inputs)
            rows: Tensor = found if isinstance(found, Tensor) else found.pooler_output
            return rows
        outputs = self.network(pixel_values=inputs)
        pooled: Tensor | None = getattr(outputs, "pooler_output", None)
        if pooled is not None and self.has_pooler:
            return pooled
        hidden: Tensor = outputs.last_hidden_state
        if hidden.ndim != _TOKEN_AXES:
            return hidden
        return hidden[:, 0] if self.has_class_token else hidden.mean(dim=1)


@contextmanager
def _quiet() -> Iterator[Any]:
    """Hand out the library, which tells errors alone meanwhile, without its bars.

    Yields:
        transformers.
    """
    library: Any = import_module("transformers")
    told = library.utils.logging
    before, had_bars = told.get_verbosity(), told.is_progress_bar_enabled()
    told.set_verbosity(logging.ERROR)
    told.disable_progress_bar()
    try:
        yield library
    finally:
        told.set_verbosity(before)
        if had_bars:
            told.enable_progress_bar()
