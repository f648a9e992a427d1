"""Trainers, and the names they go by."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Generator

from fewlabels import naming
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, Trainer
from fewlabels.training import darp, loop
from fewlabels.training.fixmatch import FixMatchTrainer
from fewlabels.training.settings import TrainingSettings
from fewlabels.training.supervised import SupervisedTrainer

__all__ = [
    "FixMatchTrainer",
    "SupervisedTrainer",
    "darp",
    "names",
    "resolve",
    "restored",
]

_TRAINERS = {
    "supervised": SupervisedTrainer,
    "fixmatch": FixMatchTrainer,
}


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

    Args:
        trainer: One of :func:`names`, ``"package.module:Name"``, or an object.
        options: Settings that differ from the defaults; only for a name or a path.

    Returns:
        The trainer.
    """
    found: Trainer = naming.resolve(
        "trainer",
        trainer,
        {} if options is None else options,
        _TRAINERS,
        method="fit(pool, generator, *, workspace, on_checkpoint)",
    )
    return found


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
    if not isinstance(trainer, TrainingSettings):
        return None
    return loop.restored(trainer, pool, generator, workspace)
