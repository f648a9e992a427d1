"""Small problems for the tests of single strategies, as the conformance suite has."""

import torch

from fewlabels.experiments.conformance import problem
from fewlabels.experiments.conformance.problems import NUM_CLASSES, NUM_ITEMS, permuted
from fewlabels.rng import stream

__all__ = ["NUM_CLASSES", "check_ignores_order", "chosen_by", "problem"]


def chosen_by(strategy, pool, classifier, size=5, seed=0):
    return strategy.select(classifier, pool, size, stream(seed, "query"))


def check_ignores_order(*strategies):
    """A permuted pool gives the permuted answer, as ``ignores_order`` promises."""
    order = torch.randperm(NUM_ITEMS, generator=stream(0, "order"))
    for seed, strategy in enumerate(strategies):
        assert strategy.ignores_order
        given = problem(seed)
        query = chosen_by(strategy, *given)
        again = chosen_by(strategy, *permuted(given, order))
        assert order[again.indices].tolist() == query.indices.tolist()
