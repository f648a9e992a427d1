"""Numbers, facts, and what is known of a project's model, as people read them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite, isinf
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from fewlabels.errors import count
from fewlabels.experiments.settings import Choice

if TYPE_CHECKING:
    from fewlabels.experiments.evaluation import AuditedAccuracy
    from fewlabels.projects import Status

MISSING = "–"
"""Shown where there is no number."""

_NBSP = "\N{NO-BREAK SPACE}"
_MINUS = "\N{MINUS SIGN}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float | None) -> str:
    """Return a share in percent, with one decimal.

    Example:
        >>> percent(0.9719).replace("\N{NO-BREAK SPACE}", " ")
        '97.2 %'
    """
    return MISSING if share is None else f"{100 * share:.1f}{_NBSP}%"


def rough_percent(share: float) -> str:
    """Return a share that was measured on a few items, in whole percent.

    A share that is neither 0 nor 1 is never rounded to one of them.

    Example:
        >>> [rough_percent(s).replace("\N{NO-BREAK SPACE}", " ") for s in (0.91, 0.998)]
        ['91 %', '99.8 %']
    """
    digits = f"{100 * share:.0f}"
    if digits in {"0", "100"} and 0 < share < 1:
        return percent(min(max(share, 0.001), 0.999))
    return f"{digits}{_NBSP}%"


def decimal(value: float, digits: int = 2) -> str:
    """Return a number with some digits behind the point."""
    return f"{value:.{digits}f}" if isfinite(value) else MISSING


def in_percent(share: float | None, digits: int = 1) -> str:
    """Return a share in percent without the sign, as in a table.

    Example:
        >>> in_percent(0.1234)
        '12.3'
    """
    return MISSING if share is None else decimal(100 * share, digits)


def signed(value: float) -> str:
    """Return a number with its sign; nothing that rounds to zero has one.

    Example:
        >>> signed(0.126), signed(-1.5).replace("\N{MINUS SIGN}", "-"), signed(-0.0)
        ('+0.13', '-1.50', '0.00')
    """
    text = decimal(abs(value))
    if text == MISSING or not float(text):
        return text
    return f"{'+' if value > 0 else _MINUS}{text}"


def p_text(p: float) -> str:
    """Return a p value.

    Example:
        >>> p_text(0.0312), p_text(0.0009).replace("\N{NO-BREAK SPACE}", " ")
        ('0.031', '< 0.001')
    """
    return f"<{_NBSP}0.001" if p < 0.001 else decimal(p, 3)


def seconds(duration: float | None) -> str:
    r"""Return a duration in the unit that suits it; None where it was not measured.

    Example:
        >>> [seconds(s).replace("\N{NO-BREAK SPACE}", " ") for s in (1e-4, 7.5, 125)]
        ['< 0.01 s', '7.5 s', '2 min 05 s']
    """
    if duration is None:
        return MISSING
    if 0 < duration < 0.005:
        return f"<{_NBSP}0.01{_NBSP}s"
    if duration < 59.95:
        return f"{duration:.{2 if duration < 1 else 1}f}{_NBSP}s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}{_NBSP}min{_NBSP}{rest:02d}{_NBSP}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{_NBSP}h{_NBSP}{minutes:02d}{_NBSP}min"


def number(value: float | None) -> str:
    """Return a number with four significant digits.

    Example:
        >>> number(0.123456), number(1.5e-13).replace("\N{NO-BREAK SPACE}", " ")
        ('0.1235', '1.5 × 10⁻¹³')
    """
    if value is None:
        return MISSING
    if isinf(value):
        return "∞"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    mantissa = mantissa.replace("-", _MINUS)
    if exponent:
        return f"{mantissa}{_NBSP}×{_NBSP}{power_of_ten(int(exponent))}"
    return mantissa


def power_of_ten(exponent: int) -> str:
    """Return a power of ten as text, with a superscript.

    Example:
        >>> power_of_ten(0), power_of_ten(-3)
        ('1', '10⁻³')
    """
    if exponent in {0, 1}:
        return str(10**exponent)
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def join_words(words: Sequence[str]) -> str:
    """Return words as an enumeration in a sentence.

    Example:
        >>> join_words(["npc", "random", "margin"])
        'npc, random and margin'
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def span(texts: Iterable[str]) -> str:
    """Return the first and the last of some texts as a range.

    Example:
        >>> span(["3", "5", "8"]), span(["3"])
        ('3 to 8', '3')
    """
    every = list(texts)
    return " to ".join(dict.fromkeys((every[0], every[-1])))


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names of many, and how many more there are.

    Example:
        >>> first_of(["cat", "dog", "fox"], most=2)
        'cat, dog and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def file_word(text: str) -> str:
    """Return a text as a part of a file's name.

    Example:
        >>> file_word("zero-shot, 40 labels")
        'zero-shot-40-labels'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


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


def interval_text(audited: "AuditedAccuracy", between: str = " to ") -> str:
    """Return the two ends of an interval, in percent."""
    low, high = rough_percent(audited.low), rough_percent(audited.high)
    return f"{low[:-2]}{between}{high}"


def why_unmeasured(status: "Status") -> str:
    """Return why the accuracy of a project's latest model is unknown."""
    if status.model is None:
        return "no model has been trained yet"
    if not status.audit_size:
        return "no images were set aside to measure on"
    if not status.num_audited:
        return "none of the images that measure has a label"
    return "the images that measure were drawn after the model was trained"


def project_headline(status: "Status") -> str:
    """Return how good a project's model is, in one sentence."""
    audited = status.curve[-1].audited if status.curve else None
    if audited is None or audited.accuracy is None:
        return f"Accuracy not measured: {why_unmeasured(status)}."
    return (
        f"{rough_percent(audited.accuracy)} of images right, "
        f"between {interval_text(audited, ' and ')}."
    )


def project_explanation(status: "Status") -> Iterator[str]:
    """Yield what the number rests on, and how many labels are spent."""
    audited, model = status.curve[-1].audited if status.curve else None, status.model
    if model is not None:
        trained = f"trained on {count(model.num_labeled, 'label')}"
        if audited is not None and audited.num_audited:
            yield (
                f"{audited.num_right:,} of {count(audited.num_audited, 'image')} drawn "
                f"at random are classified correctly by {model.name}, {trained} for "
                f"other images. In {100 * audited.level:g} of 100 projects the true "
                "share is in such a range, however often you look while labels come "
                "in; for a single look, planned beforehand, the range is "
                f"{interval_text(status.curve[-1].once)}."
            )
        else:
            yield (
                f"The latest model is {model.name}, {trained}. Its accuracy on the "
                "images it learned from says nothing about others."
            )
    spent = f"{status.num_spent:,} of {count(status.budget, 'label')}"
    yield f"{spent} {'is' if status.budget == 1 else 'are'} spent."
