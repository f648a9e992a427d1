"""Experiments: recipes, a runner that resumes, engines, results."""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.bench.asking import checked, read_experiment
    from fewlabels.bench.cells import Cell, ExperimentRuns, plan
    from fewlabels.bench.cost import (
        ExperimentCost,
        Measured,
        estimate,
        free_space,
        measure,
        num_trainings,
    )
    from fewlabels.bench.engines import Ended, Engine
    from fewlabels.bench.experiment import Condition, Experiment, Footprint
    from fewlabels.bench.folder import BenchFolder, Failure
    from fewlabels.bench.local import LocalEngine
    from fewlabels.bench.on_ray import RayEngine
    from fewlabels.bench.recipes import names, recipe
    from fewlabels.bench.results import Results, read_results
    from fewlabels.bench.runner import run
    from fewlabels.bench.sources import outdated
    from fewlabels.bench.tracking import Mlflow
    from fewlabels.bench.verifying import Verification, verify
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "BenchFolder",
    "Cell",
    "Condition",
    "Ended",
    "Engine",
    "Experiment",
    "ExperimentCost",
    "ExperimentRuns",
    "Failure",
    "Footprint",
    "LocalEngine",
    "Measured",
    "Mlflow",
    "RayEngine",
    "Results",
    "Verification",
    "checked",
    "estimate",
    "free_space",
    "measure",
    "names",
    "num_trainings",
    "outdated",
    "plan",
    "read_experiment",
    "read_results",
    "recipe",
    "run",
    "verify",
]
