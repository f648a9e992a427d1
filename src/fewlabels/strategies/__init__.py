"""Query strategies: each is a sentence of features, an objective and a search."""

from collections.abc import Callable, Mapping
from typing import Any

from fewlabels import naming
from fewlabels.protocols import Strategy
from fewlabels.strategies.albl import ActiveLearningByLearning
from fewlabels.strategies.batchbald import BatchBald
from fewlabels.strategies.cluster_margin import ClusterMargin
from fewlabels.strategies.dal import DiscriminativeActiveLearning
from fewlabels.strategies.maxdet import MaxDet
from fewlabels.strategies.npc import NeuralPreconditioning
from fewlabels.strategies.random import Random
from fewlabels.strategies.typiclust import TypiClust
from fewlabels.strategies.uncertainty import Entropy, LeastConfidence, Margin

__all__ = [
    "ActiveLearningByLearning",
    "BatchBald",
    "ClusterMargin",
    "DiscriminativeActiveLearning",
    "Entropy",
    "LeastConfidence",
    "Margin",
    "MaxDet",
    "NeuralPreconditioning",
    "Random",
    "TypiClust",
    "names",
    "resolve",
]

_BY_NAME: dict[str, Callable[..., Strategy]] = {
    "random": Random,
    "margin": Margin,
    "entropy": Entropy,
    "least-confidence": LeastConfidence,
    "albl": ActiveLearningByLearning,
    "batchbald": BatchBald,
    "dal": DiscriminativeActiveLearning,
    "npc": NeuralPreconditioning,
    "maxdet": MaxDet,
    "typiclust": TypiClust,
    "cluster-margin": ClusterMargin,
}


def names() -> tuple[str, ...]:
    """Names of the built-in strategies."""
    return tuple(_BY_NAME)


def resolve(
    strategy: str | Strategy, options: Mapping[str, Any] | None = None
) -> Strategy:
    """Return the strategy that a name, an import path or an object stands for.

    Args:
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        options: Options of the strategy, where it is given by name.

    Returns:
        The strategy.
    """
    found: Strategy = naming.resolve(
        "strategy",
        strategy,
        {} if options is None else options,
        _BY_NAME,
        method="select(classifier, pool, size, generator, *, history)",
    )
    return found
