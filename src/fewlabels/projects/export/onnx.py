"""``model.onnx``: bytes of images in, probabilities out, for programs without Python.

The extra ``onnx`` installs what torch needs to write it.
"""

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from fewlabels import files
from fewlabels.errors import UsageError
from fewlabels.models import as_input
from fewlabels.models.frozen import FrozenClassifier
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.names import check_installed
from fewlabels.projects.export.model import Exportable, exportable
from fewlabels.protocols import Classifier

_EXAMPLES = 2


class Pixels(nn.Module):
    """A classifier as one formula: images (n, c, h, w), uint8, to probabilities."""

    def __init__(self, classifier: Exportable) -> None:
        """Take the networks over."""
        super().__init__()
        self.network = classifier.module
        self.encoder: ModuleEncoder | None = None
        if isinstance(classifier, FrozenClassifier):
            encoder = classifier.encoder
            if not isinstance(encoder, ModuleEncoder) or not encoder.is_portable:
                raise UsageError(
                    f"The encoder '{encoder.name}' is not a torch module "
                    "and cannot be written as ONNX. Use model.safetensors instead."
                )
            self.encoder = encoder
            self.encoding = encoder.module  # so that its weights are found
            self.keeps_half = classifier.dtype == "float16"

    def forward(self, images: Tensor) -> Tensor:
        """Return probabilities, shape (n, C)."""
        inputs = as_input(images)
        if self.encoder is not None:
            inputs = self.encoder.rows(inputs)
            if self.keeps_half:  # as the rows were that the head was trained on
                inputs = inputs.half().float()
        return torch.softmax(self.network(inputs), dim=1)


def write_onnx(path: Path, classifier: Classifier, input_shape: Sequence[int]) -> None:
    """Write a trained model as ONNX, any number of images at a time.

    The input ``images`` is uint8, shape (n, channels, height, width), brought to the
    size that the model was trained on; of a model of rows it is float32, shape (n, F).
    The output ``probabilities`` is (n, C).

    Args:
        path: The file.
        classifier: What a trainer of this package returned.
        input_shape: Shape of the pool's images: channels, height and width.

    Raises:
        UsageError: If the extra ``onnx`` is not installed, or if the model cannot be
            written so.
    """
    check_installed("Writing ONNX", "onnx", "onnxscript", extra="onnx")
    whole = copy.deepcopy(Pixels(exportable(classifier))).cpu().eval()
    kind = torch.float32 if len(input_shape) == 1 else torch.uint8
    example = torch.zeros((_EXAMPLES, *input_shape), dtype=kind)
    with _quiet(), torch.no_grad():
        written = torch.onnx.export(
            whole,
            (example,),
            dynamo=True,
            input_names=["images"],
            output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            verbose=False,
        )
    if written is None:
        raise UsageError("torch wrote no ONNX; use model.safetensors instead.")
    with files.replace_file(path) as partial:
        written.save(partial, external_data=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's exporter from warning of itself and of packages nobody needs."""
    chatty = logging.getLogger("torch.onnx._internal.exporter._registration")
    was_disabled, chatty.disabled = chatty.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        chatty.disabled = was_disabled
