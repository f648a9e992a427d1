"""Trainers, and the names they go by."""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.protocols import Trainer
from fewlabels.training.fixmatch import FixMatchTrainer
from fewlabels.training.supervised import SupervisedTrainer

__all__ = ["FixMatchTrainer", "SupervisedTrainer", "names", "resolve"]

_TRAINERS: dict[str, type[SupervisedTrainer] | type[FixMatchTrainer]] = {
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
        trainer: One of :func:`names`, ``"module:Class"``, or an object with ``fit``.
        options: Settings that differ from the defaults; only for a name or a path.

    Returns:
        The trainer.

    Raises:
        UsageError: If the object is no trainer, or an option has a wrong value.
    """
    if isinstance(trainer, str):
        known = _imported(trainer) if ":" in trainer else _named(trainer)
        return _configured(known, trainer, dict(options or {}))
    if options:
        msg = (
            f"Options ({', '.join(options)}) were given beside a trainer object; set "
            "them where the object is made."
        )
        raise UsageError(msg)
    return _checked(trainer, repr(trainer))


def _named(name: str) -> type[Any]:
    if name not in _TRAINERS:
        raise UnknownNameError("trainer", name, names())
    return _TRAINERS[name]


def _imported(path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        msg = (
            f"The trainer '{path}' cannot be imported: {error}. Write 'module:Class' "
            "for a module that Python can import from here."
        )
        raise UsageError(msg) from error


def _configured(known: Any, name: str, options: dict[str, Any]) -> Trainer:
    """Build the trainer from its options, checking names and types."""
    if not hasattr(known, "__dataclass_fields__"):
        return _checked(known(**options) if callable(known) else known, name)
    known_options = [setting.name for setting in fields(known)]
    for option in options:
        if option not in known_options:
            raise UnknownNameError(f"option of {name}", option, known_options)
    try:
        return _checked(TypeAdapter(known).validate_python(options), name)
    except ValidationError as error:
        raise _explained(error, name) from error


def _explained(error: ValidationError, name: str) -> UsageError:
    """Turn the first complaint of pydantic into a sentence."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UsageError):
        return cause
    where = ".".join(str(part) for part in first["loc"])
    return UsageError(
        f"The option '{where}' of {name} is {first['input']!r}: {first['msg']}."
    )


def _checked(trainer: Any, name: str) -> Trainer:
    """Return ``trainer`` if it has a ``fit``, and say so if not."""
    if not callable(getattr(trainer, "fit", None)):
        msg = (
            f"{name} is no trainer: it has no method fit(pool, generator, *, "
            "workspace, on_checkpoint). See protocols.Trainer."
        )
        raise UsageError(msg)
    known: Trainer = trainer
    return known
