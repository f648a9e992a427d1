"""Query strategies: each is a sentence of features, an objective and a search."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fewlabels import naming
from fewlabels.deferred import imported_when_used
from fewlabels.errors import UsageError

if TYPE_CHECKING:
    from fewlabels.protocols import Strategy
    from fewlabels.strategies.albl import ActiveLearningByLearning
    from fewlabels.strategies.badge import Badge
    from fewlabels.strategies.bait import Bait
    from fewlabels.strategies.batchbald import BatchBald
    from fewlabels.strategies.cluster_margin import ClusterMargin
    from fewlabels.strategies.coreset import Coreset
    from fewlabels.strategies.dal import DiscriminativeActiveLearning
    from fewlabels.strategies.egl import ExpectedGradientLength
    from fewlabels.strategies.ev_gp import ExpectedVariance
    from fewlabels.strategies.maxdet import MaxDet
    from fewlabels.strategies.mlmoc import MostLikelyOutputChange
    from fewlabels.strategies.npc import NeuralPreconditioning
    from fewlabels.strategies.outward import (
        Outward,
        SigmaOptimal,
        VarianceReduction,
        VOptimal,
    )
    from fewlabels.strategies.probcover import ProbCover
    from fewlabels.strategies.random import Random
    from fewlabels.strategies.rdss import RepresentativeDiverse
    from fewlabels.strategies.typiclust import Medoids, TypiClust
    from fewlabels.strategies.uherding import UncertaintyHerding
    from fewlabels.strategies.uncertainty import Entropy, LeastConfidence, Margin

__all__ = [
    "ActiveLearningByLearning",
    "Badge",
    "Bait",
    "BatchBald",
    "ClusterMargin",
    "Coreset",
    "DiscriminativeActiveLearning",
    "Entropy",
    "ExpectedGradientLength",
    "ExpectedVariance",
    "LeastConfidence",
    "Margin",
    "MaxDet",
    "Medoids",
    "MostLikelyOutputChange",
    "NeuralPreconditioning",
    "Outward",
    "ProbCover",
    "Random",
    "RepresentativeDiverse",
    "SigmaOptimal",
    "TypiClust",
    "UncertaintyHerding",
    "VOptimal",
    "VarianceReduction",
    "names",
    "resolve",
]

_imported = imported_when_used(__name__)
if not TYPE_CHECKING:
    __getattr__ = _imported  # what a name stands for imports torch

_BY_NAME = {
    "random": "Random",
    "margin": "Margin",
    "entropy": "Entropy",
    "least-confidence": "LeastConfidence",
    "coreset": "Coreset",
    "albl": "ActiveLearningByLearning",
    "badge": "Badge",
    "egl": "ExpectedGradientLength",
    "batchbald": "BatchBald",
    "dal": "DiscriminativeActiveLearning",
    "npc": "NeuralPreconditioning",
    "maxdet": "MaxDet",
    "typiclust": "TypiClust",
    "probcover": "ProbCover",
    "cluster-margin": "ClusterMargin",
    "bait": "Bait",
    "mlmoc": "MostLikelyOutputChange",
    "ev-gp": "ExpectedVariance",
    "uherding": "UncertaintyHerding",
    "medoids": "Medoids",
    "rdss": "RepresentativeDiverse",
    "outward": "Outward",
    "v-opt": "VOptimal",
    "sigma-opt": "SigmaOptimal",
    "variance-reduction": "VarianceReduction",
}


def names() -> tuple[str, ...]:
    """Names of the built-in strategies."""
    return tuple(_BY_NAME)


def resolve(
    strategy: "str | Strategy", options: Mapping[str, Any] | None = None
) -> "Strategy":
    """Return the strategy that a name, an import path or an object stands for.

    Args:
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        options: Options of the strategy, where it is given by name. The ``arms`` of
            ``"albl"`` are strategies themselves: each is a name, an import path, an
            object, or a mapping of a ``name`` and options.

    Returns:
        The strategy.
    """
    given = {} if options is None else options
    known: dict[str, Any] = dict.fromkeys(_BY_NAME)
    if isinstance(strategy, str) and strategy in known:
        known[strategy] = _imported(_BY_NAME[strategy])
    found: Strategy = naming.resolve(
        "strategy",
        strategy,
        _with_arms(given) if strategy == "albl" else given,
        known,
        method="select(classifier, pool, size, generator, *, history)",
    )
    return found


def _with_arms(options: Any) -> Any:
    """Return the options of a bandit, its arms made from what stands for them."""
    arms = options.get("arms") if isinstance(options, Mapping) else None
    if not isinstance(arms, list | tuple):
        return options
    return {**options, "arms": tuple(map(_arm, arms))}


def _arm(given: Any) -> "Strategy":
    if not isinstance(given, Mapping):
        return resolve(given)
    if "name" not in given:
        raise UsageError(
            f"The arm {dict(given)} has no name; write it as name and options."
        )
    options = {key: value for key, value in given.items() if key != "name"}
    return resolve(given["name"], options)
