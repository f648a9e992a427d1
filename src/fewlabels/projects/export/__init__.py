"""What a project leaves behind: files that other programs read, each written whole."""

from fewlabels.projects.export.card import Facts
from fewlabels.projects.export.labels import LabelRow, write_labels
from fewlabels.projects.export.manifest import check_replaceable, write_manifest
from fewlabels.projects.export.map import Points
from fewlabels.projects.export.model import LoadedModel, load_model, save_model
from fewlabels.projects.export.onnx import write_onnx
from fewlabels.projects.export.predictions import (
    PredictionRows,
    check_replaceable_table,
    write_predictions,
)

__all__ = [
    "Facts",
    "LabelRow",
    "LoadedModel",
    "Points",
    "PredictionRows",
    "check_replaceable",
    "check_replaceable_table",
    "load_model",
    "save_model",
    "write_labels",
    "write_manifest",
    "write_onnx",
    "write_predictions",
]
