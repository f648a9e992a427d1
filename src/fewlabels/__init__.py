"""From a pile of unlabeled images and a labeling budget to the best classifier.

``load`` makes a pool of images, ``run`` labels it step by step and trains, ``select``
chooses what to label for people who bring their own embeddings.

Names are imported when they are first used: torch alone takes a second or two.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels import (
        augment,
        bench,
        conformance,
        data,
        errors,
        evaluation,
        features,
        gram,
        jobs,
        journal,
        models,
        oracles,
        pool,
        progress,
        projects,
        protocols,
        report,
        rng,
        runs,
        search,
        store,
        strategies,
        training,
    )
    from fewlabels.data import load
    from fewlabels.loop import run
    from fewlabels.pool import Answers, Pool, Query, Round
    from fewlabels.strategies.arrays import select
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "Answers",
    "Pool",
    "Query",
    "Round",
    "augment",
    "bench",
    "conformance",
    "data",
    "errors",
    "evaluation",
    "features",
    "gram",
    "jobs",
    "journal",
    "load",
    "models",
    "oracles",
    "pool",
    "progress",
    "projects",
    "protocols",
    "report",
    "rng",
    "run",
    "runs",
    "search",
    "select",
    "store",
    "strategies",
    "training",
]

__version__ = version("fewlabels")


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted([*globals(), *__all__])
