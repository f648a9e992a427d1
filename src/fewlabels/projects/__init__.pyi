from .answers import Asked as Asked, Told as Told
from .imports import Imported as Imported, UndoneImport as UndoneImport
from .model_training import Trained as Trained
from .training_plan import TrainingPlan as TrainingPlan
from .training_plan import plan as plan
from .export import Exported as Exported, Predictions as Predictions
from .export import predict as predict
from .project import Project as Project
from .status import NextStep as NextStep, Status as Status
