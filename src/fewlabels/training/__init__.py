"""Trainers, and the names they go by."""

from collections.abc import Mapping
from typing import Any

from fewlabels import naming
from fewlabels.errors import UsageError
from fewlabels.protocols import Trainer
from fewlabels.training.fixmatch import FixMatchTrainer
from fewlabels.training.supervised import SupervisedTrainer

__all__ = ["FixMatchTrainer", "SupervisedTrainer", "names", "resolve"]

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

    Raises:
        UsageError: If what was found has no ``fit``.
    """
    found = naming.resolve("trainer", trainer, options or {}, _TRAINERS)
    if not callable(getattr(found, "fit", None)):
        msg = (
            f"{trainer!r} is no trainer: it has no method fit(pool, generator, *, "
            "workspace, on_checkpoint). See protocols.Trainer."
        )
        raise UsageError(msg)
    known: Trainer = found
    return known
