"""Trainers, and the names they go by."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Generator

from fewlabels import naming
from fewlabels.errors import UnknownNameError
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, Trainer
from fewlabels.training import darp, fitting
from fewlabels.training.alignment import FixMatchDarpTrainer
from fewlabels.training.fixmatch import FixMatchTrainer
from fewlabels.training.frozen import (
    FrozenFixMatchDarpTrainer,
    FrozenFixMatchTrainer,
    FrozenSupervisedTrainer,
)
from fewlabels.training.frozen_linear import FrozenLinearTrainer
from fewlabels.training.objective import Recipe
from fewlabels.training.supervised import SupervisedTrainer
from fewlabels.training.trainer import NetworkTrainer

__all__ = [
    "FixMatchDarpTrainer",
    "FixMatchTrainer",
    "FrozenFixMatchDarpTrainer",
    "FrozenFixMatchTrainer",
    "FrozenLinearTrainer",
    "FrozenSupervisedTrainer",
    "SupervisedTrainer",
    "darp",
    "names",
    "resolve",
    "restored",
]

_TRAINERS: dict[str, type[NetworkTrainer | FrozenLinearTrainer]] = {
    "supervised": SupervisedTrainer,
    "fixmatch": FixMatchTrainer,
    "fixmatch-darp": FixMatchDarpTrainer,
    "frozen-supervised": FrozenSupervisedTrainer,
    "frozen-fixmatch": FrozenFixMatchTrainer,
    "frozen-fixmatch-darp": FrozenFixMatchDarpTrainer,
    "frozen-linear": FrozenLinearTrainer,
}
_PRESETS = ("small", "official")


def names() -> tuple[str, ...]:
    """Return the names of the built-in trainers."""
    return tuple(_TRAINERS)


def resolve(
    trainer: str | Trainer, options: Mapping[str, Any] | None = None
) -> Trainer:
    """Return the trainer that a name, an import path or an object stands for.

    Example:
        >>> resolve("fixmatch", {"steps": 100}).steps
        100
        >>> resolve("fixmatch", {"preset": "official"}).network
        'wrn-28-2'

    Args:
        trainer: One of :func:`names`, ``"package.module:Name"``, or an object.
        options: Settings that differ from the defaults; only for a name or a path. The
            option ``preset`` says what a name's defaults are: ``"small"`` (for small
            images and a CPU, unless said otherwise) or ``"official"`` (FixMatch's own).

    Returns:
        The trainer.
    """
    options = {} if options is None else options
    if isinstance(trainer, str) and isinstance(options, Mapping):
        options = _with_preset(trainer, options)
    found: Trainer = naming.resolve(
        "trainer",
        trainer,
        options,
        _TRAINERS,
        method="fit(pool, generator, *, workspace, on_checkpoint)",
    )
    return found


def _with_preset(name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a built-in name over the defaults of their preset."""
    kind = _TRAINERS.get(name)
    if kind is None or not issubclass(kind, NetworkTrainer):
        return options
    preset = options.get("preset", "small")
    if preset not in _PRESETS:
        raise UnknownNameError("preset", str(preset), _PRESETS)
    own = {option: options[option] for option in options if option != "preset"}
    return kind.official_changes() | own if preset == "official" else own


def restored(
    trainer: Trainer, pool: Pool, generator: Generator, workspace: Path
) -> Classifier | None:
    """Return the classifier that a trainer finished earlier, without ever training.

    Args:
        trainer: The trainer.
        pool: The pool that it was given.
        generator: A generator in the state in which the trainer got it.
        workspace: The folder that it was given.

    Returns:
        The classifier; None if there is no finished training of this pool, or if the
        trainer is not one of this package, since how others keep their work is theirs.
    """
    if isinstance(trainer, FrozenLinearTrainer):
        return trainer.restored(pool, generator, workspace)
    if not isinstance(trainer, Recipe):
        return None
    return fitting.restored(trainer, pool, generator, workspace)
