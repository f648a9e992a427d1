"""Trainings, and the names they go by.

Nothing here imports torch: what a name stands for is imported when it is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple

from fewlabels import names as _names
from fewlabels.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Generator

    from fewlabels.pool import Pool
    from fewlabels.protocols import Classifier, Trainer
    from fewlabels.training.training import Training

__all__ = [
    "ShareOption",
    "built_in",
    "make",
    "names",
    "options",
    "over_encoder",
    "resolve",
    "restored",
    "share_option",
    "variant",
]


_FROZEN = "frozen-"


class ShareOption(NamedTuple):
    """The option by which a training is told how frequent the classes are."""

    name: str
    even: str
    """What stands for equal shares."""
    unknown: str
    """What stands for shares that nobody knows."""
    default: str

    def telling(self, shares: str | Sequence[float]) -> dict[str, Any]:
        """Return the option that tells shares: numbers, ``"even"``, ``"unknown"``."""
        words = {"even": self.even, "unknown": self.unknown}
        return {self.name: words[shares] if isinstance(shares, str) else list(shares)}

    def assumed(
        self, options: Mapping[str, Any], num_classes: int
    ) -> tuple[float, ...] | None:
        """Return the shares that a training is aligned to; None: to none."""
        shares = options.get(self.name, self.default)
        if isinstance(shares, str):
            return (1 / num_classes,) * num_classes if shares == self.even else None
        return tuple(share / sum(shares) for share in shares)


class _Learner(NamedTuple):
    """A line of the table: what a learner's name stands for, and what it goes with."""

    path: str
    inputs: tuple[str, ...] = ("", _FROZEN)
    alignments: tuple[str, ...] = ("",)
    takes_steps: bool = True
    shares: ShareOption | None = None


_ALL = ("", "-darp", "-da")
_SHARES = ShareOption("shares", even="even", unknown="unknown", default="unknown")

_LEARNERS = {
    "supervised": _Learner("supervised:Supervised"),
    "fixmatch": _Learner("fixmatch:FixMatch", alignments=_ALL),
    "flexmatch": _Learner("flexmatch:FlexMatch", alignments=_ALL),
    "freematch": _Learner("freematch:FreeMatch", alignments=_ALL),
    "fixmatch-abc": _Learner("balanced_head:FixMatchAbc", alignments=_ALL),
    "fixmatch-cdmad": _Learner("neutral_image:FixMatchCdmad", alignments=_ALL),
    "fixmatch-cta": _Learner("cta:FixMatchCta", inputs=("",), alignments=_ALL),
    "softmatch": _Learner("softmatch:SoftMatch"),
    "adamatch": _Learner("adamatch:AdaMatch", alignments=_ALL),
    "pseudo-label": _Learner("pseudo_label:PseudoLabel", alignments=_ALL),
    "ceal": _Learner("ceal:Ceal", alignments=_ALL),
    "pi-model": _Learner("pi_model:PiModel"),
    "mean-teacher": _Learner("mean_teacher:MeanTeacher"),
    "mixmatch": _Learner("mixmatch:MixMatch", alignments=_ALL),
    "remixmatch": _Learner("remixmatch:ReMixMatch", inputs=("",), alignments=_ALL),
    "linear": _Learner("linear:Linear", takes_steps=False, shares=_SHARES),
    "blend": _Learner("blend:Blend", takes_steps=False, shares=_SHARES),
    "spreading": _Learner("spreading:Spreading", takes_steps=False, shares=_SHARES),
    "poisson": _Learner("poisson:Poisson", takes_steps=False, shares=_SHARES),
    "ot": _Learner("ot:OT", takes_steps=False, shares=_SHARES),
}
_INPUTS = {"": "views:PoolInputs", _FROZEN: "frozen:FrozenInputs"}
_ALIGNMENTS = {
    "": "",
    "-darp": "alignment:Darp",
    "-da": "alignment:DistributionAlignment",
}
_TARGET = ShareOption("target", even="uniform", unknown="estimated", default="uniform")
_PRESETS = ("small", "official")


@dataclass(frozen=True)
class _Alias:
    """A name of the table: which parts it is put together from."""

    inputs: str
    learner: str
    alignment: str

    @property
    def name(self) -> str:
        return f"{self.inputs}{self.learner}{self.alignment}"

    @property
    def row(self) -> _Learner:
        return _LEARNERS[self.learner]

    @property
    def share_option(self) -> ShareOption | None:
        return _TARGET if self.alignment else self.row.shares

    @property
    def kinds(self) -> dict[str, Any]:
        """The types of the parts, by field of a training."""
        paths = {
            "inputs": _INPUTS[self.inputs],
            "learner": self.row.path,
            "alignment": _ALIGNMENTS[self.alignment],
            "schedule": "schedule:Schedule" if self.row.takes_steps else "",
            "execution": "schedule:Execution",
        }
        found = {}
        for field, path in paths.items():
            if path:
                module, _, name = path.partition(":")
                found[field] = getattr(import_module(f"{__name__}.{module}"), name)
        return found

    @property
    def options(self) -> tuple[str, ...]:
        """Every option that the name takes."""
        from fewlabels.training.training import counting

        kinds = self.kinds
        inputs, learner = kinds["inputs"], kinds["learner"]()
        names = [n for kind in kinds.values() for n in counting(kind, inputs, learner)]
        return (*names, *(["preset"] if self.row.takes_steps else []))

    @property
    def __signature__(self) -> Signature:
        """The options, for whoever checks a call."""
        kind = Parameter.KEYWORD_ONLY
        return Signature([Parameter(name, kind, default=None) for name in self.options])

    def __call__(self, preset: str = "small", **given: Any) -> "Training":
        """Make the training; a preset says what its defaults are."""
        from fewlabels.training.schedule import OFFICIAL
        from fewlabels.training.training import Training, routed

        if preset not in _PRESETS:
            raise UnknownNameError("preset", str(preset), _PRESETS)
        kinds = self.kinds
        chosen = dict(getattr(kinds["learner"], "defaults", {}))
        if preset == "official":
            chosen |= OFFICIAL
            for kind in kinds.values():
                chosen |= getattr(kind, "official", {})
        chosen |= kinds["inputs"].defaults
        chosen = {name: chosen[name] for name in chosen if name in self.options} | given
        dealt = routed(chosen, kinds)
        return Training(
            **{
                field: _names.construct(kinds[field], own)
                for field, own in dealt.items()
            }
        )


_TRAININGS = {
    alias.name: alias
    for inputs in _INPUTS
    for learner, row in _LEARNERS.items()
    if inputs in row.inputs
    for alias in (_Alias(inputs, learner, ending) for ending in row.alignments)
}


def names() -> tuple[str, ...]:
    """Return the names of the built-in trainings."""
    return tuple(_TRAININGS)


def options(name: str) -> tuple[str, ...]:
    """Return the options of a built-in name; of anything else none are known."""
    return _TRAININGS[name].options if name in _TRAININGS else ()


def over_encoder(name: str, options: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """Return the options of a training whose features another encoder makes.

    What the options said of the encoder before goes.

    Args:
        name: A name or an import path of a training.
        options: Its options so far.
        encoder: Name of the encoder.

    Returns:
        The options.

    Raises:
        UsageError: If the training has no use for features.
    """
    known = _TRAININGS.get(name)
    if known is not None and known.inputs != _FROZEN:
        twin = variant(name, inputs=_FROZEN)
        raise UsageError(
            f"The trainer '{name}' learns from images themselves and takes no encoder; "
            f"take the trainer '{twin}', or leave the encoder '{encoder}' out."
        )
    kept = {o: options[o] for o in options if o != "encoder_options"}
    return kept | {"encoder": encoder}


def share_option(name: str) -> ShareOption | None:
    """Return how a built-in training is told class shares; None: it has no use."""
    return _TRAININGS[name].share_option if name in _TRAININGS else None


def variant(name: str, **parts: str) -> str | None:
    """Return the name of a training with other parts.

    Example:
        >>> variant("frozen-fixmatch-darp", alignment="")
        'frozen-fixmatch'
        >>> variant("frozen-fixmatch-darp", learner="supervised", alignment="")
        'frozen-supervised'
    """
    if name not in _TRAININGS:
        return None
    found = replace(_TRAININGS[name], **parts).name
    return found if found in _TRAININGS else None


def make(name: str, /, **options: Any) -> "Training":
    """Return the training that a built-in name stands for.

    Example:
        >>> make("fixmatch", steps=100).schedule.steps
        100
    """
    found: Training = _names.resolve("trainer", name, options, _TRAININGS, method=None)
    return found


def built_in(name: str, options: Mapping[str, Any]) -> "Training | None":
    """Return what a built-in name stands for; for others None, without importing."""
    return make(name, **options) if name in _TRAININGS else None


def resolve(
    trainer: "str | Trainer", options: Mapping[str, Any] | None = None
) -> "Trainer":
    """Return the trainer that a name, an import path or an object stands for.

    Example:
        >>> resolve("fixmatch", {"steps": 100}).num_steps
        100
        >>> resolve("fixmatch", {"preset": "official"}).schedule.network
        'wrn-28-2'

    Args:
        trainer: One of :func:`names`, ``"package.module:Name"``, or an object.
        options: Settings that differ from the defaults; only for a name or a path. The
            option ``preset`` says what a name's defaults are: ``"small"`` (for small
            images and a CPU, unless said otherwise) or ``"official"`` (FixMatch's own).

    Returns:
        The trainer. One from outside that can do no more than fit comes back with plain
        answers to the rest of what ``protocols.Trainer`` promises.
    """
    from fewlabels.protocols import Trainer
    from fewlabels.training.training import FittingOnly

    found = _names.resolve(
        "trainer",
        trainer,
        options or {},
        _TRAININGS,
        method="fit(pool, generator, *, workspace, on_checkpoint)",
    )
    return found if isinstance(found, Trainer) else FittingOnly(found)


def restored(
    trainer: "Trainer", pool: "Pool", generator: "Generator", workspace: "Path"
) -> "Classifier | None":
    """Return the classifier that a trainer finished earlier, without ever training."""
    from fewlabels.training.training import Training

    if not isinstance(trainer, Training):
        return None
    return trainer.restored(pool, generator, workspace)
