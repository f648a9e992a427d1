"""Trainings, and the names they go by.

Nothing here imports torch: the parts of a training are imported when it is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.names import construct, import_object, is_import_path
from fewlabels.names import resolve as resolve_name

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
    """The option of a training that says how frequent the classes are."""

    name: str
    even: str
    """The word for equal shares."""
    unknown: str
    """The word for unknown shares."""
    default: str

    def as_option(self, shares: str | Sequence[float]) -> dict[str, Any]:
        """Return the option for shares: numbers, ``"even"`` or ``"unknown"``."""
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
    """A row of the table: the class of a learner, and the parts it works with."""

    path: str
    inputs: tuple[str, ...] = ("", _FROZEN)
    alignments: tuple[str, ...] = ("",)
    takes_steps: bool = True


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
    "linear": _Learner("linear:Linear", takes_steps=False),
    "blend": _Learner("blend:Blend", takes_steps=False),
    "spreading": _Learner("spreading:Spreading", takes_steps=False),
    "poisson": _Learner("poisson:Poisson", takes_steps=False),
    "ot": _Learner("ot:OT", takes_steps=False),
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
    """A built-in name: the parts of the training that it stands for."""

    inputs: str
    learner: str
    """A row of the table, or the import path of somebody's own."""
    alignment: str

    @property
    def name(self) -> str:
        return f"{self.inputs}{self.learner}{self.alignment}"

    @property
    def kinds(self) -> dict[str, Any]:
        """The types of the parts, by field of a training."""
        learner = _LEARNERS.get(self.learner)
        takes_steps = learner is None or learner.takes_steps
        paths = {
            "inputs": _INPUTS[self.inputs],
            "learner": "" if learner is None else learner.path,
            "alignment": _ALIGNMENTS[self.alignment],
            "schedule": "loop:Schedule" if takes_steps else "",
            "execution": "loop:Execution",
        }
        kinds = {
            field: import_object("trainer", f"{__name__}.{path}")
            for field, path in paths.items()
            if path
        }
        own = {} if learner else {"learner": import_object("learner", self.learner)}
        return kinds | own

    @property
    def options_by_part(self) -> dict[str, list[str]]:
        """The options of each part that matter beside the others."""
        from fewlabels.training.training import relevant_options

        kinds = self.kinds
        others = kinds["inputs"], kinds["learner"]()
        return {part: relevant_options(kinds[part], *others) for part in kinds}

    @property
    def options(self) -> tuple[str, ...]:
        """Every option that the name takes."""
        parts = self.options_by_part
        names = [name for names in parts.values() for name in names]
        return (*names, *(["preset"] if "schedule" in parts else []))

    @property
    def __signature__(self) -> Signature:
        """The options, by which a call is checked."""
        kind = Parameter.KEYWORD_ONLY
        return Signature([Parameter(name, kind, default=None) for name in self.options])

    def __call__(self, preset: str = "small", **given: Any) -> "Training":
        """Return the training; a preset says what its defaults are."""
        from fewlabels.training.loop import OFFICIAL
        from fewlabels.training.training import Training

        if preset not in _PRESETS:
            raise UnknownNameError("preset", str(preset), _PRESETS)
        kinds = self.kinds
        chosen = dict(getattr(kinds["learner"], "defaults", {}))
        if preset == "official":
            chosen |= OFFICIAL
            for kind in kinds.values():
                chosen |= getattr(kind, "official", {})
        chosen |= {**kinds["inputs"].defaults, **given}
        parts = {
            part: construct(kinds[part], {n: chosen[n] for n in names if n in chosen})
            for part, names in self.options_by_part.items()
        }
        return Training(**parts)


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
    """Return the options of a built-in name; of anything else none."""
    return _TRAININGS[name].options if name in _TRAININGS else ()


def over_encoder(name: str, options: Mapping[str, Any], encoder: str) -> dict[str, Any]:
    """Return the options of a training over another encoder, without the old one's.

    Args:
        name: A name or an import path of a training.
        options: Its options so far.
        encoder: Name of the encoder.

    Returns:
        The options.

    Raises:
        UsageError: If the training has no use for features.
    """
    if name in _TRAININGS and _TRAININGS[name].inputs != _FROZEN:
        twin = variant(name, inputs=_FROZEN)
        raise UsageError(
            f"The trainer '{name}' takes no encoder '{encoder}'; take '{twin}'."
        )
    kept = {o: options[o] for o in options if o != "encoder_options"}
    return kept | {"encoder": encoder}


def share_option(name: str) -> ShareOption | None:
    """Return the option of a built-in training for class shares, if it has one."""
    if name not in _TRAININGS:
        return None
    alias = _TRAININGS[name]
    own = None if _LEARNERS[alias.learner].takes_steps else _SHARES
    return _TARGET if alias.alignment else own


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
    other = replace(_TRAININGS[name], **parts).name
    return other if other in _TRAININGS else None


def make(name: str, /, **options: Any) -> "Training":
    """Return the training that a built-in name stands for.

    Example:
        >>> make("fixmatch", steps=100).schedule.steps
        100
    """
    training: Training = resolve_name("trainer", name, options, _TRAININGS, method=None)
    return training


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
        trainer: One of :func:`names`, ``"package.module:Name"``, or an object; the name
            or an object of a learner of yours (``training.learner.Learner``) is trained
            on what the pool holds.
        options: Settings that differ from the defaults; only for a name or a path. The
            option ``preset`` says what a name's defaults are: ``"small"`` (for small
            images and a CPU, unless said otherwise) or ``"official"`` (FixMatch's own).

    Returns:
        The trainer. An external one that has only ``fit`` is wrapped, so that it has
        all methods of ``protocols.Trainer``.
    """
    from fewlabels.protocols import Trainer
    from fewlabels.training.learner import Learner
    from fewlabels.training.training import ExternalTrainer, training_of

    known: dict[str, Any] = dict(_TRAININGS)
    if isinstance(trainer, str) and trainer not in known and is_import_path(trainer):
        own = import_object("trainer", trainer)
        if isinstance(own, type) and issubclass(own, Learner):
            known[trainer] = _Alias("", trainer, "")
    elif isinstance(trainer, Learner):
        trainer = training_of(trainer)
    method = (
        "fit(pool, generator, *, workspace, on_checkpoint), and is no "
        "fewlabels.training.learner.Learner"
    )
    resolved = resolve_name("trainer", trainer, options or {}, known, method=method)
    return resolved if isinstance(resolved, Trainer) else ExternalTrainer(resolved)


def restored(
    trainer: "Trainer", pool: "Pool", generator: "Generator", workspace: "Path"
) -> "Classifier | None":
    """Return the classifier that a trainer finished earlier, without ever training."""
    from fewlabels.training.training import Training

    if not isinstance(trainer, Training):
        return None
    return trainer.restored(pool, generator, workspace)
