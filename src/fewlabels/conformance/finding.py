"""What was found about one promise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["passed", "failed", "refused", "not promised", "not run"]
"""How it went; only ``"failed"`` is something to mend."""

Verdict = tuple[Outcome, str]
"""How it went, and what was seen."""


@dataclass(frozen=True)
class Finding:
    """One promise, how it went and what was seen."""

    name: str
    """The promise, in a word or two."""
    outcome: Outcome
    detail: str
    """What was seen; where something failed, also what to mend."""


def passed(detail: str) -> Verdict:
    """Return that a promise is kept."""
    return "passed", detail


def failed(detail: str) -> Verdict:
    """Return that a promise is broken: what was seen, and what to mend."""
    return "failed", detail


@dataclass(frozen=True)
class Promise:
    """A promise, and those without which it means nothing."""

    name: str
    judge: Callable[[Any], Verdict]
    """Looks at what is checked, and says how it went."""
    after: tuple[str, ...] = ()
