"""Small problems for the tests of single strategies, as the conformance suite has."""

from fewlabels.experiments.conformance import problem
from fewlabels.experiments.conformance.problems import NUM_CLASSES
from fewlabels.rng import stream

__all__ = ["NUM_CLASSES", "chosen_by", "problem"]


def chosen_by(strategy, pool, classifier, size=5, seed=0):
    return strategy.select(classifier, pool, size, stream(seed, "query"))
