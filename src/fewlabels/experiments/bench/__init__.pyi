from .experiment import (
    Cell as Cell,
    Condition as Condition,
    Experiment as Experiment,
    checked as checked,
    plan as plan,
    read_experiment as read_experiment,
)
from .folder import (
    BenchFolder as BenchFolder,
    Failure as Failure,
    Results as Results,
    outdated as outdated,
    read_results as read_results,
)
from .recipes import names as names, recipe as recipe
from .runner import (
    ExperimentCost as ExperimentCost,
    estimate as estimate,
    measure as measure,
    num_trainings as num_trainings,
    run as run,
    run_cells as run_cells,
    verify as verify,
)
from .tracking import Mlflow as Mlflow
