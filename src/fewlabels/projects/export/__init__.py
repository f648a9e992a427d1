"""What a project leaves behind: files that other programs read, each written whole."""

from fewlabels.projects.export.card import Facts
from fewlabels.projects.export.model import (
    LoadedModel,
    load_model,
    save_model,
    write_onnx,
)
from fewlabels.projects.export.tables import (
    LabelRow,
    PredictionRows,
    check_replaceable_table,
    write_labels,
    write_predictions,
)

__all__ = [
    "Facts",
    "LabelRow",
    "LoadedModel",
    "PredictionRows",
    "check_replaceable_table",
    "load_model",
    "save_model",
    "write_labels",
    "write_onnx",
    "write_predictions",
]
