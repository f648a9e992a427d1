"""Settings, data and versions as a page lists them."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from fewlabels.errors import count
from fewlabels.experiments.settings import Choice
from fewlabels.report.wording import first_of


def as_facts(content: Mapping[str, Any]) -> dict[str, str]:
    """Return settings, or the description of a run's data, as people read them.

    Example:
        >>> as_facts({"num_test": 500, "shape": [1, 8, 8], "classes": ["cat", "dog"]})
        {'Num test': '500', 'Shape': '1 × 8 × 8', 'Classes': '2: cat, dog'}
    """
    facts = {}
    for key, value in content.items():
        text = setting_text(value)
        if key == "classes":
            text = f"{len(value):,}: {first_of(list(map(str, value)), most=10)}"
        elif key == "shape":
            text = " × ".join(map(str, value))
        facts[key.replace("_", " ").capitalize()] = text
    return facts


def environment_facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Return versions and platform, where they are known."""
    facts = dict(description.get("versions", {}))
    facts |= {"Platform": text} if (text := description.get("platform")) else {}
    return {name: str(value) for name, value in facts.items()}


def merged(facts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the facts of many runs, with all values where they differ."""
    known: dict[str, dict[str, None]] = {}
    for name, value in chain.from_iterable(column.items() for column in facts):
        known.setdefault(name, {})[value] = None
    return {name: first_of(list(values), most=3) for name, values in known.items()}


def data_name(name: str) -> str:
    """Return a short name of a data set; for a path its last part."""
    return PurePosixPath(name.replace("\\", "/")).name or name


def setting_text(value: Any) -> str:
    """Return a setting as text: a name with its options, a number, anything else.

    Example:
        >>> setting_text({"name": "npc", "options": {"draws": 100}})
        'npc (draws = 100)'
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, Mapping) and set(value) == {"name", "options"}:
        return Choice.model_validate(value).label
    if isinstance(value, Mapping):
        given = [(key, option) for key, option in value.items() if option is not None]
        pairs = [f"{key} = {setting_text(option)}" for key, option in given]
        return ", ".join(pairs) or "that of the run"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
