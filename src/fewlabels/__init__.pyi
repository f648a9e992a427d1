from . import (
    augment as augment,
    bench as bench,
    conformance as conformance,
    data as data,
    errors as errors,
    evaluation as evaluation,
    features as features,
    gram as gram,
    jobs as jobs,
    journal as journal,
    models as models,
    oracles as oracles,
    pool as pool,
    progress as progress,
    projects as projects,
    protocols as protocols,
    report as report,
    rng as rng,
    runs as runs,
    search as search,
    store as store,
    strategies as strategies,
    training as training,
)
from .data import load as load
from .loop import run as run
from .pool import Answers as Answers, Pool as Pool, Query as Query, Round as Round
from .strategies.arrays import select as select

__version__: str
