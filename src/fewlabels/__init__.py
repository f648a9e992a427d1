"""From a pile of unlabeled images and a labeling budget to the best classifier.

``load`` makes a pool of images, ``run`` labels it step by step and trains, ``select``
chooses what to label for people who bring their own embeddings.

Names are imported when they are first used: torch alone takes a second or two.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fewlabels import augment as augment
    from fewlabels import bench as bench
    from fewlabels import conformance as conformance
    from fewlabels import data as data
    from fewlabels import errors as errors
    from fewlabels import evaluation as evaluation
    from fewlabels import features as features
    from fewlabels import gram as gram
    from fewlabels import journal as journal
    from fewlabels import models as models
    from fewlabels import oracles as oracles
    from fewlabels import pool as pool
    from fewlabels import progress as progress
    from fewlabels import projects as projects
    from fewlabels import protocols as protocols
    from fewlabels import report as report
    from fewlabels import rng as rng
    from fewlabels import runs as runs
    from fewlabels import search as search
    from fewlabels import store as store
    from fewlabels import strategies as strategies
    from fewlabels import training as training
    from fewlabels.data import load as load
    from fewlabels.loop import run as run
    from fewlabels.pool import Answers as Answers
    from fewlabels.pool import Pool as Pool
    from fewlabels.pool import Query as Query
    from fewlabels.pool import Round as Round
    from fewlabels.strategies.arrays import select as select

_HOMES = {
    "Answers": "fewlabels.pool",
    "Pool": "fewlabels.pool",
    "Query": "fewlabels.pool",
    "Round": "fewlabels.pool",
    "load": "fewlabels.data",
    "run": "fewlabels.loop",
    "select": "fewlabels.strategies.arrays",
}
_MODULES = (
    "augment",
    "bench",
    "conformance",
    "data",
    "errors",
    "evaluation",
    "features",
    "gram",
    "journal",
    "models",
    "oracles",
    "pool",
    "progress",
    "projects",
    "protocols",
    "report",
    "rng",
    "runs",
    "search",
    "store",
    "strategies",
    "training",
)

__all__ = [  # noqa: PLE0604 - names of modules and of what lives in them
    *_HOMES,
    *_MODULES,
]

__version__ = version("fewlabels")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name in _MODULES:
        return import_module(f"fewlabels.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module 'fewlabels' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted([*globals(), *__all__])
