"""A run small enough to be done, killed and repeated many times."""

from dataclasses import replace

import torch

from fewlabels.data import load
from fewlabels.pool import ArrayImages, Pool, Query
from fewlabels.runs import Choice, RunFolder, RunSettings, execute

STEPS = 12


def settings(**changes):
    base = {
        "data": Choice(name="digits"),
        "strategy": Choice(name="npc", options={"draws": 300}),
        "trainer": Choice(name="fixmatch", options={"steps": STEPS}),
        "start": 10,
        "query": 5,
        "budget": 20,
        "seed": 3,
    }
    return RunSettings(**base | changes)


def digits():
    return load("digits")


def whole_run(path, pool, **changes):
    """Do a run to its end; return the rounds it yields and its folder."""
    return list(execute(settings(**changes), path, pool)), RunFolder(path)


def replace_classes(pool, names):
    return replace(pool, classes=tuple(names))


def tiny_pool(num_items):
    return Pool.build(
        ArrayImages(torch.zeros(num_items, 1, 2, 2, dtype=torch.uint8)),
        torch.zeros(num_items, dtype=torch.int64),
        classes=("a", "b"),
        ids=[f"item-{number}" for number in range(num_items)],
    )


class FirstOnes:
    """A strategy from outside the package."""

    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates[:size])
