"""All promises in order, each on its own: one that fails stops no other."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fewlabels.conformance import classifiers, kernels, strategies, trainers
from fewlabels.conformance.asking import failure
from fewlabels.conformance.finding import Finding, Promise, Verdict
from fewlabels.conformance.kinds import Kind, recognized
from fewlabels.conformance.memory import Memory
from fewlabels.conformance.randomness import restored
from fewlabels.data import load
from fewlabels.errors import FewlabelsError, FewlabelsWarning, UsageError
from fewlabels.pool import Pool
from fewlabels.progress import track

_DATA = "digits"


def check(
    thing: str | object,
    options: Mapping[str, Any] | None = None,
    *,
    kind: Kind | None = None,
    pool: Pool | None = None,
    memory: Memory | None = None,
) -> Iterator[Finding]:
    """Hold a strategy, a trainer, a classifier or a kernel to what its kind promises.

    What raises an error breaks a promise; the suite goes on with the next.

    Args:
        thing: A built-in name, ``"package.module:Name"``, or an object. A name may be
            that of a class or a function that makes the object.
        options: Options of it, where it is given by name.
        kind: What it is; None: recognized by its methods.
        pool: What trainers and classifiers are tried on, with known labels; None: the
            digits. A small part of it is used.
        memory: How to measure a strategy's memory on a large pool, in a process of its
            own; None leaves that out. An object cannot be handed to that process: give
            a name.

    Yields:
        A finding per promise, as it is made.

    Example:
        >>> sum(finding.outcome == "failed" for finding in check("margin"))
        0
    """
    kind, found = recognized(thing, options or {}, kind)
    if pool is not None and kind not in {"trainer", "classifier"}:
        msg = f"A {kind} is checked on pools of its own; leave the data out."
        raise UsageError(msg)
    promises, subject = _suite(kind, found, pool)
    broken: set[str] = set()
    with track("Checking", len(promises) + 1) as advance:
        for promise in promises:
            verdict = _verdict(promise, subject, found, broken)
            finding = Finding(promise.name, *verdict)
            if finding.outcome == "failed":
                broken.add(promise.name)
            yield finding
            advance(1)
        if kind == "strategy":
            yield Finding("memory", *_memory(thing, options or {}, memory, broken))
        advance(1)


def _suite(
    kind: Kind, found: Any, pool: Pool | None
) -> tuple[Sequence[Promise], Callable[[], Any]]:
    """Return the promises of a kind, and what gives them something to judge."""
    if kind == "strategy":  # as it came, so that no call before a promise shows
        return strategies.PROMISES, lambda: _fresh(found)
    if kind == "kernel":
        of_kernel = kernels.Trial(found)
        return kernels.PROMISES, lambda: of_kernel
    source = load(_DATA) if pool is None else pool
    if kind == "classifier":
        of_classifier = classifiers.Trial(found, trainers.small_pool(source))
        return classifiers.PROMISES, lambda: of_classifier
    of_trainer = trainers.Trial(found, source)
    return trainers.PROMISES, lambda: of_trainer


def _verdict(
    promise: Promise, subject: Callable[[], Any], found: object, broken: set[str]
) -> Verdict:
    first = next((name for name in promise.after if name in broken), None)
    if first is not None:
        return "not run", f"means nothing before '{first}' is mended"
    with warnings.catch_warnings(), restored():
        # A tie is worth a note in a run; here it is provoked.
        warnings.simplefilter("ignore", FewlabelsWarning)
        try:
            return promise.judge(subject())
        except FewlabelsError as error:
            return "failed", str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - becomes a finding
            return "failed", f"It failed: {failure(error, found)}"


def _fresh(strategy: object) -> object:
    """Return a copy of the strategy, where it can be copied."""
    try:
        return copy.deepcopy(strategy)
    except Exception:  # noqa: BLE001 - somebody's own copying: use what there is
        return strategy


def _memory(
    strategy: str | object,
    options: Mapping[str, Any],
    memory: Memory | None,
    broken: set[str],
) -> Verdict:
    if memory is None:
        return "not run", "left out"
    if not isinstance(strategy, str):
        return "not run", "another process needs a name or module:Name, not an object"
    if "a query" in broken:
        return "not run", "means nothing before 'a query' is mended"
    return memory.judge(strategy, options)
