"""How much memory a strategy needs on a large pool, and what it looks like.

The query runs in a process of its own that may hold so much and no more, so that a full
distance matrix ends that process and not the machine.
"""

import math
import re
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from fewlabels.conformance.finding import Verdict, passed
from fewlabels.errors import UsageError
from fewlabels.jobs import Worker

_ASK = "fewlabels.conformance.large:ask"
_LEAST_ROWS = 100
_BYTES_PER_ROW = 300  # features, logits, labels and the names of the items
_SMALL_ROWS = (3_000, 6_000)  # to see how memory grows
_SQUARE = 2.8  # twice the rows, so many times the memory: 2 is linear, 4 the square
_LEAST_GROWTH = 50e6
_ABOUT = 0.9  # candidates are a few less than rows
_UNITS = {
    "B": 1,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
    "P": 2**50,
    "E": 2**60,
}
_REMEDY = (
    "Work through the pool in chunks and keep one number per item, or look at a random "
    "part (an option such as max_pool) and say so in the record."
)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """How to measure memory."""

    rows: int = 1_000_000
    """Items in the pool."""
    limit_gb: float = 4.0
    """What the process may hold, the pool's arrays and libraries included."""
    seconds: float = 300.0
    """How long to wait for it."""

    def __post_init__(self) -> None:
        """Refuse a pool that is too small to show anything, or too large to build."""
        most = int(self.limit / _BYTES_PER_ROW)
        if not _LEAST_ROWS <= self.rows <= most:
            raise UsageError(
                f"rows is {self.rows:,}; give at least {_LEAST_ROWS}, since fewer show "
                f"nothing, and at most {most:,}, which alone fill {self.limit_gb:g} GB."
            )
        if not 0 < self.seconds < math.inf:
            msg = f"seconds is {self.seconds}; say how long to wait, such as 300."
            raise UsageError(msg)

    @property
    def limit(self) -> int:
        """What the process may hold, in bytes."""
        if not 0 < self.limit_gb < math.inf:
            msg = f"limit_gb is {self.limit_gb}; give a number of GB, such as 4."
            raise UsageError(msg)
        return round(self.limit_gb * 1e9)

    def judge(self, strategy: str, options: Mapping[str, Any]) -> Verdict:
        """Return whether the strategy copes with a large pool.

        Args:
            strategy: A built-in name or ``"package.module:Name"``.
            options: Its options, as JSON can hold them.

        Returns:
            How it went, with the most memory held.
        """
        if sys.platform != "linux":
            return "not run", "memory can be limited and measured on Linux only"
        question = _Question(strategy, dict(options), self)
        seen = question.asked(self.rows)
        if isinstance(seen, _Ended):
            return _judged_end(question, seen)
        if seen.error:
            too_much = seen.is_memory and _too_much(question, seen.error)
            return "failed", too_much or f"At {self.rows:,} rows: {seen.error}"
        return passed(f"{_told(seen.peak)} at {self.rows:,} rows, {seen.seconds:.1f} s")


@dataclass(frozen=True)
class Seen:
    """What a query from a large pool came to."""

    before: int
    """Bytes in memory before the strategy was asked."""
    peak: int
    """Most bytes in memory at any time."""
    seconds: float
    """How long the strategy took."""
    error: str = ""
    """What went wrong; empty where nothing did."""
    is_memory: bool = False
    """Whether memory ran out."""


@dataclass(frozen=True)
class _Ended:
    """A process that ended without an answer."""

    reason: str
    is_late: bool = False


@dataclass(frozen=True)
class _Question:
    """What the process is asked."""

    strategy: str
    options: dict[str, Any]
    memory: Memory

    def asked(self, rows: int) -> Seen | _Ended:
        """Start the process with a pool of ``rows`` and return its answer."""
        question = {
            "strategy": self.strategy,
            "options": self.options,
            "rows": rows,
            "limit": self.memory.limit,
        }
        with closing(Worker(allow_code=True)) as worker:  # the caller named it
            end = worker.start(_ASK, question).wait(self.memory.seconds)
        if end is None:
            return _Ended("out of time", is_late=True)
        if end["event"] == "done":
            return Seen(**end["result"])
        printed = end.get("printed", "").strip().splitlines()
        return _Ended(printed[-1] if printed else end["reason"])


def _judged_end(question: _Question, end: _Ended) -> Verdict:
    """Judge a process that gave no answer: memory shows in smaller pools, if at all."""
    memory, growth = question.memory, _growth(question)
    if end.is_late:
        late = f"took longer than {memory.seconds:g} s at {memory.rows:,} rows"
        return (
            ("failed", f"It {late}. {growth}{_REMEDY}") if growth else ("not run", late)
        )
    return "failed", (
        f"With {_told(memory.limit)} of memory and {memory.rows:,} rows its process "
        f"broke down: {end.reason}. {growth}{_REMEDY}"
    )


def _too_much(question: _Question, error: str) -> str:
    """Say what ran out, and what it looks like."""
    memory, wanted = question.memory, _allocation(error)
    start = f"It needed more than {_told(memory.limit)} at {memory.rows:,} rows"
    pairs = memory.rows**2
    if wanted < _ABOUT * pairs:
        return f"{start}. {_growth(question)}{_REMEDY} ({error})"
    return (
        f"{start}: it tried to allocate {_told(wanted)} at once, {wanted / pairs:.3g} "
        f"bytes for each of {memory.rows:,} x {memory.rows:,} pairs of items. That "
        f"looks like a full distance matrix. {_REMEDY} ({error})"
    )


def _growth(question: _Question) -> str:
    """Say how memory grows with the pool, from small ones; empty if it is not clear."""
    held = []
    for rows in _SMALL_ROWS:
        seen = question.asked(rows)
        if isinstance(seen, Seen) and seen.is_memory:
            return f"{rows:,} rows are too many already. "
        if isinstance(seen, _Ended) or seen.error:
            return ""
        held.append((rows, seen.peak - seen.before))
    (rows, few), (twice, many) = held
    if many < max(_LEAST_GROWTH, _SQUARE * few):
        return ""
    return (
        f"Memory grows with the square of the pool: {_told(few)} for {rows:,} rows, "
        f"{_told(many)} for {twice:,}. That looks like a full distance matrix. "
    )


def _allocation(error: str) -> float:
    """Return how many bytes could not be had, from an error's text; 0 if unsaid."""
    torch_says = re.search(r"allocate (\d+) bytes", error)
    if torch_says:
        return float(torch_says[1])
    numpy_says = re.search(r"allocate ([\d.]+) ([KMGTPE]?)i?B", error)
    if numpy_says:
        return float(numpy_says[1]) * _UNITS[numpy_says[2] or "B"]
    return 0.0


def _told(num_bytes: float) -> str:
    """Return a number of bytes in words.

    Example:
        >>> _told(4e9), _told(123_456_789), _told(4e12)
        ('4 GB', '123 MB', '4 TB')
    """
    for name, size in (("TB", 1e12), ("GB", 1e9)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {name}"
    return f"{num_bytes / 1e6:.0f} MB"
