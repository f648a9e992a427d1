"""The built-in strategies by name; each is imported when it is asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from fewlabels import strategies
from fewlabels.errors import UsageError
from fewlabels.names import resolve as resolve_name

if TYPE_CHECKING:
    from fewlabels.protocols import Strategy

Family = Literal["uncertainty", "coverage", "explanation"]
"""Why a strategy asks: the model is unsure, items stand for others, or explain them."""

_BY_NAME: dict[str, tuple[str, Family | None]] = {
    "random": ("Random", None),
    "margin": ("Margin", "uncertainty"),
    "entropy": ("Entropy", "uncertainty"),
    "least-confidence": ("LeastConfidence", "uncertainty"),
    "coreset": ("Coreset", "coverage"),
    "albl": ("ActiveLearningByLearning", None),
    "badge": ("Badge", None),
    "egl": ("ExpectedGradientLength", None),
    "batchbald": ("BatchBald", "uncertainty"),
    "dal": ("DiscriminativeActiveLearning", None),
    "npc": ("NeuralPreconditioning", None),
    "maxdet": ("MaxDet", None),
    "typiclust": ("TypiClust", "coverage"),
    "probcover": ("ProbCover", "coverage"),
    "cluster-margin": ("ClusterMargin", None),
    "bait": ("Bait", None),
    "mlmoc": ("MostLikelyOutputChange", None),
    "ev-gp": ("ExpectedVariance", None),
    "uherding": ("UncertaintyHerding", "coverage"),
    "medoids": ("Medoids", "coverage"),
    "rdss": ("RepresentativeDiverse", "coverage"),
    "outward": ("Outward", "explanation"),
    "v-opt": ("VOptimal", "explanation"),
    "sigma-opt": ("SigmaOptimal", "explanation"),
    "variance-reduction": ("VarianceReduction", "explanation"),
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
        known[strategy] = getattr(strategies, _BY_NAME[strategy][0])
    method = "select(classifier, pool, size, generator, *, history)"
    resolved: Strategy = resolve_name("strategy", strategy, given, known, method=method)
    return resolved


def _resolve_arm(arm: Any) -> "Strategy":
    if not isinstance(arm, Mapping):
        return resolve(arm)
    if "name" not in arm:
        raise UsageError(f"The arm {dict(arm)} has no name; give name and options.")
    return resolve(arm["name"], {key: arm[key] for key in arm if key != "name"})
