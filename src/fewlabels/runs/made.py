"""What strategy and trainer of a run came to: their types, all options, their source.

A name says what was wanted. A default that changes in a later version, or the code of
one's own trainer that is edited, make something else of the same name.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from fewlabels.errors import SettingsChangedError
from fewlabels.identity import Identity, identity
from fewlabels.protocols import Strategy, Trainer
from fewlabels.runs.settings import Choice, RunSettings

Made = Mapping[str, Identity]
"""Identities, by what they are of: ``"strategy"`` and ``"trainer"``."""

_MADE = TypeAdapter(dict[str, Identity])


def with_made(
    settings: RunSettings, strategy: Strategy, trainer: Trainer
) -> RunSettings:
    """Return settings that also tell what strategy and trainer came to.

    That it was something else when this was planned raises
    :class:`SettingsChangedError`.
    """
    now = {"strategy": as_made(settings.strategy, strategy)}
    now["trainer"] = as_made(settings.trainer, trainer)
    known = settings.model_copy(update=now)
    changed = made_changes(settings.made, known.made)
    if changed:
        raise SettingsChangedError(
            f"The run was planned with something else than is here: "
            f"{'; '.join(changed)}. Repeat the command that planned it, and see that "
            "every machine has the same code."
        )
    return known


def as_made(choice: Choice, thing: object) -> Choice:
    """Return a choice that also tells what it came to."""
    return choice.model_copy(update={"made": identity(thing)})


def made_of(description: Mapping[str, Any], now: Made) -> Made:
    """Return what strategy and trainer came to, as a run wrote it down, if it did.

    Runs of earlier versions wrote down the source of a strategy from outside and no
    more; the rest is taken from ``now``.
    """
    if "made" in description:
        return _MADE.validate_python(description["made"])
    written, own = description.get("strategy_source"), now.get("strategy")
    if not written or own is None:
        return {}
    source = dict(own.source)
    if written["sha256"] not in {"unknown", *source.values()}:
        source[written["import_path"].partition(":")[0]] = written["sha256"]
    return {"strategy": own.model_copy(update={"source": source})}


def made_changes(before: Made, now: Made) -> list[str]:
    """Say in a few words what is not as it was, where then and now are known."""
    return [
        f"{part}: {change}"
        for part in before
        if part in now
        for change in before[part].changes(now[part])
    ]
