"""A person's project: from a folder of images to labels, predictions and a model."""

from fewlabels.projects.asking import Asked
from fewlabels.projects.exporting import Exported
from fewlabels.projects.learning import Trained
from fewlabels.projects.planning import Plan, duration, plan
from fewlabels.projects.predicting import Predictions, predict
from fewlabels.projects.project import Project
from fewlabels.projects.standing import Status
from fewlabels.projects.telling import Told

__all__ = [
    "Asked",
    "Exported",
    "Plan",
    "Predictions",
    "Project",
    "Status",
    "Told",
    "Trained",
    "duration",
    "plan",
    "predict",
]
