"""The conformance suite: what strategies, trainers, classifiers and kernels promise."""

import copy
import inspect
import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

import torch

from fewlabels import names, training
from fewlabels import strategies as built_in
from fewlabels.data import load
from fewlabels.errors import FewlabelsError, FewlabelsWarning, UsageError
from fewlabels.experiments.conformance import kernels, strategies, trainers
from fewlabels.experiments.conformance.problems import (
    CheckCase,
    Finding,
    Outcome,
    Promise,
    describe_error,
    keep_generators,
    problem,
)
from fewlabels.pool import Pool
from fewlabels.progress import track
from fewlabels.strategies.kernels import own_kernel
from fewlabels.training.learner import Learner
from fewlabels.training.training import shortened

__all__ = ["CheckCase", "Finding", "Kind", "Outcome", "check", "problem"]

Kind = Literal["strategy", "trainer", "classifier", "kernel"]

_DATA = "digits"
_SECONDS = 45.0
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
    quick: bool = False,
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
        quick: Train few steps on few items, and end within a minute: what is not tried
            by then, or needs a longer training, is not run.

    Yields:
        A finding per promise, in order.

    Example:
        >>> sum(finding.outcome == "failed" for finding in check("margin"))
        0
    """
    kind, checked = _recognize(thing, options or {}, kind)
    if pool is not None and kind not in {"trainer", "classifier"}:
        raise UsageError(f"A {kind} is checked on its own pools; leave the data out.")
    promises: Sequence[Promise] = strategies.PROMISES
    subject: Any = checked
    if kind == "kernel":
        promises, subject = kernels.PROMISES, kernels.KernelTrial(checked)
    elif kind == "classifier":
        promises = trainers.CLASSIFIER_PROMISES
        small = trainers.small_pool(pool or load(_DATA))
        subject = trainers.ClassifierTrial(checked, small)
    elif kind == "trainer":
        promises = trainers.TRAINER_PROMISES
        source = pool or load(_DATA)
        if quick:
            checked, source = shortened(checked, 3), trainers.small_pool(source, 40)
        subject = trainers.TrainerTrial(checked, source)
    broken: list[str] = []
    can_stop = quick and hasattr(signal, "setitimer")
    end = time.monotonic() + (_SECONDS if can_stop else math.inf)
    with track("Checking", len(promises)) as advance:
        for promise in promises:
            first = next((name for name in broken if name in promise.after), None)
            if quick and promise.name == "learns":
                finding = Finding(promise.name, "not run", "it takes a whole training")
            elif first is not None:
                finding = Finding(promise.name, "not run", f"mend '{first}' first")
            else:
                finding = Finding(promise.name, "not run", "the minute is over")
                with suppress(_TooLateError), _until(end):
                    finding = _judge(promise, subject, checked)
            if finding.outcome == "failed":
                broken.append(promise.name)
            yield finding
            advance(1)


class _TooLateError(BaseException):
    """The time of a quick check is over; no code under test handles it as a failure."""


@contextmanager
def _until(end: float) -> Iterator[None]:
    """Interrupt the block when it is so late, where the system can."""
    if end == math.inf or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _TooLateError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(1e-3, end - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _judge(promise: Promise, subject: Any, checked: object) -> Finding:
    if subject is checked:  # a new copy of a strategy, without traces of other calls
        with suppress(Exception):  # somebody's own copying may fail
            subject = copy.deepcopy(checked)
    with warnings.catch_warnings(), keep_generators():
        # A tie is worth a note in a run; here it is provoked.
        warnings.simplefilter("ignore", FewlabelsWarning)
        try:
            verdict = promise.judge(subject)
        except FewlabelsError as error:
            verdict = "failed", str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - becomes a finding
            verdict = "failed", f"It failed: {describe_error(error)}"
    if isinstance(verdict, str):
        return Finding(promise.name, "passed", verdict)
    return Finding(promise.name, *verdict)


def _recognize(
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
    what = kind or "strategy, trainer, classifier or kernel"
    made = names.import_object(what, thing) if isinstance(thing, str) else thing
    if kind is None and Learner in getattr(made, "__mro__", type(made).__mro__):
        return "trainer", training.resolve(thing, options)
    if kind != "classifier" and not options and _makes_kernel(made):
        pool, classifier = problem(0)
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        checked: Any = own_kernel(thing, outputs, pool)
    else:
        checked = names.resolve(what, thing, options, {}, method=None)
    offers = [
        offered
        for offered, methods in _METHODS.items()
        if not isinstance(checked, type)
        and all(callable(getattr(checked, method, None)) for method in methods)
    ]
    fitting = [offered for offered in offers if kind in {None, offered}]
    if len(fitting) == 1:
        return fitting[0], checked
    seen = " and ".join(f"a {offered}" for offered in offers) or "none of these"
    raise UsageError(
        f"{type(checked).__name__} has the methods of {seen}; give kind, or an object "
        "with select, with fit, with outputs, or with block and diagonal."
    )


def _makes_kernel(thing: object) -> bool:
    """Return whether this is a function of two arguments: outputs and a pool."""
    parameters = inspect.signature(thing).parameters.values() if callable(thing) else ()
    kinds = [item.kind for item in parameters if item.default is item.empty]
    return kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == 2
