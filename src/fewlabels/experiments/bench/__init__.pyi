from .experiment import Cell as Cell, Condition as Condition, Experiment as Experiment
from .experiment import checked as checked, plan as plan
from .experiment import read_experiment as read_experiment
from .folder import BenchFolder as BenchFolder, Failure as Failure, Results as Results
from .folder import outdated as outdated, read_results as read_results
from .recipes import names as names, recipe as recipe
from .runner import ExperimentCost as ExperimentCost, estimate as estimate
from .runner import measure as measure, num_trainings as num_trainings, run as run
from .runner import run_cells as run_cells, verify as verify
from .tracking import Mlflow as Mlflow, WeightsAndBiases as WeightsAndBiases
