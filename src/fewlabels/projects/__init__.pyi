from .answers import Asked as Asked, Told as Told
from .exporting import Exported as Exported
from .imports import Imported as Imported, UndoneImport as UndoneImport
from .learning import Trained as Trained
from .planning import TrainingPlan as TrainingPlan, duration as duration, plan as plan
from .predicting import Predictions as Predictions, predict as predict
from .project import Project as Project
from .status import NextStep as NextStep, Status as Status
