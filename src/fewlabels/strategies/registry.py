"""The built-in strategies by name; each is imported when it is asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fewlabels import strategies
from fewlabels.errors import UsageError
from fewlabels.names import resolve as resolve_name

if TYPE_CHECKING:
    from fewlabels.protocols import Strategy

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
    given: Any = {} if options is None else options
    arms = given.get("arms") if isinstance(given, Mapping) else None
    if strategy == "albl" and isinstance(arms, list | tuple):
        given = {**given, "arms": tuple(map(_arm, arms))}
    known: dict[str, Any] = dict.fromkeys(_BY_NAME)
    if isinstance(strategy, str) and strategy in known:
        known[strategy] = getattr(strategies, _BY_NAME[strategy])
    method = "select(classifier, pool, size, generator, *, history)"
    found: Strategy = resolve_name("strategy", strategy, given, known, method=method)
    return found


def _arm(given: Any) -> "Strategy":
    if not isinstance(given, Mapping):
        return resolve(given)
    if "name" not in given:
        raise UsageError(
            f"The arm {dict(given)} has no name; write it as name and options."
        )
    options = {key: value for key, value in given.items() if key != "name"}
    return resolve(given["name"], options)
