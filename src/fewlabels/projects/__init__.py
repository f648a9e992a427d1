"""A person's project: from a folder of images to labels, predictions and a model."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.projects.answers import Told
    from fewlabels.projects.asking import Asked
    from fewlabels.projects.exporting import Exported
    from fewlabels.projects.imports import Imported, UndoneImport
    from fewlabels.projects.learning import Trained
    from fewlabels.projects.planning import TrainingPlan, duration, plan
    from fewlabels.projects.predicting import Predictions, predict
    from fewlabels.projects.project import Project
    from fewlabels.projects.status import NextStep, Status
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "Asked",
    "Exported",
    "Imported",
    "NextStep",
    "Predictions",
    "Project",
    "Status",
    "Told",
    "Trained",
    "TrainingPlan",
    "UndoneImport",
    "duration",
    "plan",
    "predict",
]
