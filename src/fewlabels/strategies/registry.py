"""The built-in strategies by name; each is imported when it is asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from fewlabels.errors import UsageError
from fewlabels.names import import_object
from fewlabels.names import resolve as resolve_name

if TYPE_CHECKING:
    from fewlabels.protocols import Strategy

Family = Literal["uncertainty", "coverage", "explanation"]
"""Why a strategy asks: the model is unsure, items stand for others, or explain them."""

# Module and class within this package, and the family.
_BY_NAME: dict[str, tuple[str, Family | None]] = {
    "random": ("random:Random", None),
    "margin": ("uncertainty:Margin", "uncertainty"),
    "entropy": ("uncertainty:Entropy", "uncertainty"),
    "least-confidence": ("uncertainty:LeastConfidence", "uncertainty"),
    "coreset": ("coreset:Coreset", "coverage"),
    "albl": ("albl:ActiveLearningByLearning", None),
    "badge": ("badge:Badge", None),
    "egl": ("egl:ExpectedGradientLength", None),
    "batchbald": ("batchbald:BatchBald", "uncertainty"),
    "dal": ("dal:DiscriminativeActiveLearning", None),
    "npc": ("npc:NeuralPreconditioning", None),
    "maxdet": ("maxdet:MaxDet", None),
    "typiclust": ("typiclust:TypiClust", "coverage"),
    "probcover": ("probcover:ProbCover", "coverage"),
    "cluster-margin": ("cluster_margin:ClusterMargin", None),
    "bait": ("bait:Bait", None),
    "mlmoc": ("mlmoc:MostLikelyOutputChange", None),
    "ev-gp": ("ev_gp:ExpectedVariance", None),
    "uherding": ("uherding:UncertaintyHerding", "coverage"),
    "medoids": ("typiclust:Medoids", "coverage"),
    "rdss": ("rdss:RepresentativeDiverse", "coverage"),
    "outward": ("outward:Outward", "explanation"),
    "v-opt": ("outward:VOptimal", "explanation"),
    "sigma-opt": ("outward:SigmaOptimal", "explanation"),
    "variance-reduction": ("outward:VarianceReduction", "explanation"),
}


def names() -> tuple[str, ...]:
    """Names of the built-in strategies."""
    return tuple(_BY_NAME)


def family(name: str) -> Family | None:
    """Return why a strategy asks; None where that is its own reason, or unknown."""
    return _BY_NAME.get(name, (name, None))[1]


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
        given = {**given, "arms": tuple(map(_resolve_arm, arms))}
    known: dict[str, Any] = dict.fromkeys(_BY_NAME)
    if isinstance(strategy, str) and strategy in known:
        path = f"{__package__}.{_BY_NAME[strategy][0]}"
        known[strategy] = import_object("strategy", path)
    method = "select(classifier, pool, size, generator, *, history)"
    resolved: Strategy = resolve_name("strategy", strategy, given, known, method=method)
    return resolved


def _resolve_arm(arm: Any) -> "Strategy":
    if not isinstance(arm, Mapping):
        return resolve(arm)
    if "name" not in arm:
        raise UsageError(f"The arm {dict(arm)} has no name; give name and options.")
    return resolve(arm["name"], {key: arm[key] for key in arm if key != "name"})
