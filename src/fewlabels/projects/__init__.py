"""A person's project: from a folder of images to labels, predictions and a model."""

from fewlabels.projects.predicting import Predictions, predict

__all__ = ["Predictions", "predict"]
