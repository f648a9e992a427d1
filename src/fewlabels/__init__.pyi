from . import (
    data as data,
    errors as errors,
    experiments as experiments,
    gram as gram,
    jobs as jobs,
    models as models,
    pool as pool,
    progress as progress,
    projects as projects,
    protocols as protocols,
    report as report,
    rng as rng,
    search as search,
    strategies as strategies,
    training as training,
)
from .data import load as load
from .experiments import run as run
from .pool import Answers as Answers, Pool as Pool, Query as Query, Round as Round
from .strategies.arrays import select as select

__version__: str
