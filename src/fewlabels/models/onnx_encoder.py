"""A network in an ONNX file as an encoder, run by onnxruntime.

Shapes: n images, F features.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fewlabels.errors import UsageError, whole_number
from fewlabels.models.local_models import hash_of_files
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.models.pretrained import (
    MEAN,
    SPREAD,
    USUAL_SIDE,
    Interpolation,
    Preparation,
    Prepared,
)

_INPUT_AXES = 4
_COLORS = 3


def onnx_encoder(
    path: Path,
    *,
    size: int | None = None,
    mean: Sequence[float] = MEAN,
    spread: Sequence[float] = SPREAD,
    interpolation: Interpolation = "bilinear",
    output: str | None = None,
) -> ModuleEncoder:
    """Return the network in a file, tried on an image of noise.

    Rows are its first output, or the one that is named; of maps (n, F, h, w) the mean
    over positions is taken. An ONNX file does not say how its images are to be
    prepared: they are resized to the size of its input, and colors are normalized by
    mean and spread of ImageNet, unless told otherwise.

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
    side = USUAL_SIDE if size is None else whole_number("size", size)
    height, width = (
        one if isinstance(one, int) else side for one in network.input_shape[2:]
    )
    if size is not None and (height, width) != (size, size):
        raise UsageError(
            f"size is {size}, and the network in '{path}' takes images of "
            f"{height} x {width} pixels and no others; leave size and quality out."
        )
    preparation = Preparation(
        scale=(height, width),
        interpolation=interpolation,
        mean=tuple(mean),
        spread=tuple(spread),
    )
    told = hash_of_files(network.files, repr((preparation, output)))
    prepared = Prepared(network, preparation)
    name, width = f"onnx-{path.stem}-{told}", prepared.tried()
    return ModuleEncoder(prepared, name=name, feature_size=width, is_portable=False)


class OnnxNetwork(nn.Module):
    """What onnxruntime makes of a file; other processes open it anew."""

    def __init__(self, path: Path, output: str | None) -> None:
        """Look at what the network takes and gives."""
        super().__init__()
        self.path = path
        outputs = [one.name for one in self._session.get_outputs()]
        self.output = outputs[0] if output is None else output
        if self.output not in outputs:
            raise UsageError(
                f"The network in '{path}' has no output called '{output}'; it has "
                f"{', '.join(outputs)}."
            )
        first, *others = self._session.get_inputs()
        self.input_name, self.input_shape = first.name, tuple(first.shape)
        is_image = len(self.input_shape) == _INPUT_AXES
        if others or not is_image or self.input_shape[1] not in {_COLORS, "", None}:
            shapes = [tuple(one.shape) for one in (first, *others)]
            raise UsageError(
                f"The network in '{path}' takes inputs of shape {shapes}; an encoder "
                "takes color images alone, shape (n, 3, height, width)."
            )

    @property
    def files(self) -> list[Path]:
        """The file, and those beside it that hold its weights by the usual names."""
        path = self.path
        beside = (p for p in path.parent.iterdir() if p.name.startswith(path.name))
        return sorted(p for p in beside if p.is_file())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the output, as many images at a time as the network takes."""
        at_a_time = self.input_shape[0]
        size = at_a_time if isinstance(at_a_time, int) else len(inputs)
        missing = inputs.new_zeros(-len(inputs) % size, *inputs.shape[1:])
        parts = [
            torch.from_numpy(
                self._session.run([self.output], {self.input_name: part.numpy()})[0]
            )
            for part in torch.split(torch.cat([inputs, missing]), size)
        ]
        return torch.cat(parts)[: len(inputs)]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what onnxruntime holds."""
        return {name: own for name, own in vars(self).items() if name != "_session"}

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        kinds: Any = onnxruntime.capi.onnxruntime_pybind11_state
        damage = (kinds.InvalidProtobuf, kinds.InvalidGraph, kinds.Fail)
        try:
            return onnxruntime.InferenceSession(
                str(self.path), options, providers=["CPUExecutionProvider"]
            )
        except damage as error:
            told = " ".join(str(error).split())
            raise UsageError(
                f"'{self.path}' is damaged or incomplete; save it again. ({told})"
            ) from error
