"""From a pile of unlabeled images and a labeling budget to the best classifier.

``load`` makes a pool of images, ``run`` labels it step by step and trains, ``select``
chooses what to label for people who bring their own embeddings.
"""

from importlib.metadata import version

from fewlabels import data, errors, gram, search, strategies, training
from fewlabels.data import load
from fewlabels.loop import run
from fewlabels.pool import Answers, Pool, Query, Round
from fewlabels.strategies.arrays import select

__all__ = [
    "Answers",
    "Pool",
    "Query",
    "Round",
    "data",
    "errors",
    "gram",
    "load",
    "run",
    "search",
    "select",
    "strategies",
    "training",
]

__version__ = version("fewlabels")
