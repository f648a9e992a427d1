"""All promises in order, each on its own: one that fails stops no other."""

import copy
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch

from fewlabels import names, training
from fewlabels import strategies as built_in
from fewlabels.data import load
from fewlabels.errors import FewlabelsError, FewlabelsWarning, UsageError
from fewlabels.experiments.conformance import classifiers, kernels, strategies, trainers
from fewlabels.experiments.conformance.problems import (
    Finding,
    Promise,
    failure,
    problem,
    restored,
)
from fewlabels.pool import Pool
from fewlabels.progress import track
from fewlabels.strategies.kernels import own_kernel

Kind = Literal["strategy", "trainer", "classifier", "kernel"]

_DATA = "digits"
_METHODS: dict[Kind, tuple[str, ...]] = {
    "strategy": ("select",),
    "trainer": ("fit",),
    "classifier": ("outputs",),
    "kernel": ("block", "diagonal"),
}


def check(
    thing: str | object,
    options: Mapping[str, Any] | None = None,
    *,
    kind: Kind | None = None,
    pool: Pool | None = None,
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

    Yields:
        A finding per promise, as it is made.

    Example:
        >>> sum(finding.outcome == "failed" for finding in check("margin"))
        0
    """
    kind, found = _recognized(thing, options or {}, kind)
    if pool is not None and kind not in {"trainer", "classifier"}:
        msg = f"A {kind} is checked on pools of its own; leave the data out."
        raise UsageError(msg)
    promises: Sequence[Promise]
    subject: Any = found
    if kind == "strategy":
        promises = strategies.PROMISES
    elif kind == "kernel":
        promises, subject = kernels.PROMISES, kernels.Trial(found)
    else:
        source = load(_DATA) if pool is None else pool
        if kind == "classifier":
            promises = classifiers.PROMISES
            subject = classifiers.Trial(found, trainers.small_pool(source))
        else:
            promises, subject = trainers.PROMISES, trainers.Trial(found, source)
    broken: set[str] = set()
    with track("Checking", len(promises)) as advance:
        for promise in promises:
            finding = _judged(promise, subject, found, broken)
            if finding.outcome == "failed":
                broken.add(promise.name)
            yield finding
            advance(1)


def _judged(promise: Promise, subject: Any, found: object, broken: set[str]) -> Finding:
    first = next((name for name in promise.after if name in broken), None)
    if first is not None:
        detail = f"means nothing before '{first}' is mended"
        return Finding(promise.name, "not run", detail)
    if subject is found:  # a strategy as it came, so that no call before shows
        try:
            subject = copy.deepcopy(found)
        except Exception:  # noqa: BLE001 - somebody's own copying: use what there is
            subject = found
    with warnings.catch_warnings(), restored():
        # A tie is worth a note in a run; here it is provoked.
        warnings.simplefilter("ignore", FewlabelsWarning)
        try:
            return Finding(promise.name, *promise.judge(subject))
        except FewlabelsError as error:
            return Finding(promise.name, "failed", str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - becomes a finding
            detail = f"It failed: {failure(error, found)}"
            return Finding(promise.name, "failed", detail)


def _recognized(
    thing: Any, options: Mapping[str, Any], kind: Kind | None
) -> tuple[Kind, Any]:
    """Return the kind of a thing, by its methods unless given, and the object."""
    if kind is not None:
        names.check_known("kind", kind, Kind)
    elif isinstance(thing, str) and ":" not in thing:
        kind = "trainer" if thing in training.names() else "strategy"
    if kind == "trainer":
        return kind, training.resolve(thing, options)
    if kind == "strategy":
        return kind, built_in.resolve(thing, options)
    if kind != "classifier" and not options and _makes_kernel(thing):
        pool, classifier = problem(0)
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        found: Any = own_kernel(thing, outputs, pool)
    else:
        found = names.resolve(kind or "thing to check", thing, options, {}, method=None)
    offers = [
        offered
        for offered, methods in _METHODS.items()
        if not isinstance(found, type)
        and all(callable(getattr(found, method, None)) for method in methods)
    ]
    fitting = [offered for offered in offers if kind in {None, offered}]
    if len(fitting) == 1:
        return fitting[0], found
    seen = " and ".join(f"a {offered}" for offered in offers) or "none of these"
    raise UsageError(
        f"An object of type {type(found).__name__} is to be checked, and its methods "
        f"are those of {seen}. Needed are: a strategy select; a trainer fit; a "
        "classifier outputs; a kernel block and diagonal. Name a class or function "
        "that makes one, or say which it is with kind."
    )


def _makes_kernel(thing: object) -> bool:
    """Say whether this is a function of two arguments: outputs and a pool."""
    maker = names.import_object("kernel", thing) if isinstance(thing, str) else thing
    if not callable(maker):
        return False
    needed = [
        parameter
        for parameter in inspect.signature(maker).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return len(needed) == 2
