from . import data as data
from . import errors as errors
from . import experiments as experiments
from . import gram as gram
from . import jobs as jobs
from . import models as models
from . import pool as pool
from . import progress as progress
from . import projects as projects
from . import protocols as protocols
from . import report as report
from . import rng as rng
from . import search as search
from . import strategies as strategies
from . import training as training
from .data import load as load
from .experiments import run as run
from .pool import Answers as Answers, Pool as Pool, Query as Query, Round as Round
from .strategies.arrays import select as select

__version__: str
