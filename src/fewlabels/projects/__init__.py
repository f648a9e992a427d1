"""A person's project: from a folder of images to labels, predictions and a model."""

from fewlabels.projects.planning import Plan, plan
from fewlabels.projects.predicting import Predictions, predict

__all__ = ["Plan", "Predictions", "plan", "predict"]
