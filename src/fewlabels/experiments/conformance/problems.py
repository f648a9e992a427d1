"""What all checks share: findings, small pools, and changes of global state.

Shapes: N items, F features, C classes, K sampled networks.
"""

import pickle
import random
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from sysconfig import get_path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from fewlabels.errors import FewlabelsError
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream

NUM_ITEMS, NUM_FEATURES, NUM_CLASSES, NUM_SAMPLES = 60, 16, 4, 20
NUM_WITHHELD = 10  # unlabeled items that are not candidates
_SATURATED = 1e4
_INSTALLED = str(Path(__file__).parents[2]), *map(get_path, ("stdlib", "platlib"))

Outcome = Literal["passed", "failed", "refused", "not promised", "not run"]
"""The outcome; only ``"failed"`` is a fault."""

Verdict = str | tuple[Outcome, str]
"""What was seen where a promise is kept, or another outcome and the reason for it."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Finding:
    """One promise, how it went and what was seen."""

    name: str
    """The promise, in a word or two."""
    outcome: Outcome
    detail: str
    """What was seen; of a failure also what to do."""


class BrokenPromiseError(FewlabelsError):
    """A promise is broken: what was seen, and what to do."""


class Promise(NamedTuple):
    """A promise, and those without which it means nothing."""

    name: str
    judge: Callable[[Any], Verdict]
    """Returns what was seen, or raises :class:`BrokenPromiseError`."""
    after: tuple[str, ...] = ()


def require(is_kept: bool, fault: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Raise :class:`BrokenPromiseError` with the fault unless a promise is kept."""
    if not is_kept:
        raise BrokenPromiseError(fault)


def describe_error(error: BaseException) -> str:
    """Return type and text of an error, and its last line outside of packages."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
    frame = (own or frames)[-1]
    place = f"({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"
    text = textwrap.shorten(str(error), 300)
    return f"{type(error).__name__}: {text} {place}"


# -------------------------------------------------------------------------- problems


class CheckCase(NamedTuple):
    """What a strategy is asked about."""

    pool: Pool
    classifier: PrecomputedClassifier


def problem(seed: int, num_labeled: int = 8) -> CheckCase:
    """Return a pool in which some unlabeled items are not candidates.

    Args:
        seed: Equal seeds give equal problems.
        num_labeled: How many items are labeled.

    Returns:
        The pool, and a classifier with features, logits and sampled logits.
    """
    generator = stream(seed, "contract")
    features = torch.randn(NUM_ITEMS, NUM_FEATURES, generator=generator)
    logits = 2 * torch.randn(NUM_ITEMS, NUM_CLASSES, generator=generator)
    order = torch.randperm(NUM_ITEMS, generator=generator)
    labels = torch.full((NUM_ITEMS,), UNKNOWN)
    given = torch.randint(NUM_CLASSES, (num_labeled,), generator=generator)
    labels[order[:num_labeled]] = given
    noise = torch.randn(NUM_SAMPLES, NUM_ITEMS, NUM_CLASSES, generator=generator)
    pool = Pool(
        images=ArrayImages(features),
        ids=tuple(map(str, range(NUM_ITEMS))),
        labels=labels,
        classes=tuple("abcd"),
        candidates=order[num_labeled + NUM_WITHHELD :].sort().values,
    )
    # Images are a tensor of their own, so that a change has a name.
    classifier = PrecomputedClassifier(features.clone(), logits, logits + noise)
    return CheckCase(pool, classifier)


def permuted(given: CheckCase, order: Tensor) -> CheckCase:
    """Return the problem with item ``order[i]`` at position ``i``."""
    shown = showing(given, order)
    pool = replace(
        shown.pool,
        ids=tuple(given.pool.ids[item] for item in order.tolist()),
        labels=given.pool.labels[order],
        candidates=torch.nonzero(torch.isin(order, given.pool.candidates)).flatten(),
    )
    return shown._replace(pool=pool)


def showing(given: CheckCase, rows: Tensor) -> CheckCase:
    """Return the problem in which item ``i`` looks as item ``rows[i]`` does."""
    pool, classifier = given
    samples = None if classifier.samples is None else classifier.samples[:, rows]
    return CheckCase(
        replace(pool, images=ArrayImages(pool.images.read(rows))),
        PrecomputedClassifier(
            classifier.features[rows], classifier.logits[rows], samples
        ),
    )


def missing_class() -> CheckCase:
    """Return a problem in which no item is labeled with the last class."""
    pool, classifier = problem(1)
    labels = pool.labels.clamp(max=NUM_CLASSES - 2)
    return CheckCase(replace(pool, labels=labels), classifier)


def zero_features() -> CheckCase:
    """Return a problem in which all features are zero."""
    pool, classifier = problem(3)
    zeros = torch.zeros(NUM_ITEMS, NUM_FEATURES)
    pool = replace(pool, images=ArrayImages(zeros.clone()))
    return CheckCase(pool, replace(classifier, features=zeros))


def saturated() -> CheckCase:
    """Return a problem in which every network is entirely sure of the first class."""
    pool, classifier = problem(3)
    samples = torch.zeros(NUM_SAMPLES, NUM_ITEMS, NUM_CLASSES)
    samples[..., 0] = _SATURATED
    logits = samples[0].clone()
    return CheckCase(pool, replace(classifier, logits=logits, samples=samples))


# --------------------------------------------------------------------------- changes


def tensors(pool: Pool) -> dict[str, Tensor]:
    """Return a copy of every tensor of a pool, by its name."""
    return {
        "pool.labels": pool.labels.clone(),
        "pool.candidates": pool.candidates.clone(),
        "pool.images": pool.images.read(torch.arange(len(pool))).clone(),
    }


def require_unchanged(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor]
) -> None:
    """Raise :class:`BrokenPromiseError` if an input was written to."""
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    fault = f"It changed its input: {', '.join(changed)}. Write to a clone."
    require(not changed, fault)


def require_no_draws(moved: str) -> None:
    """Raise :class:`BrokenPromiseError` if a global generator was moved."""
    seen = f"It drew from, or seeded, the global generator of {moved}"
    require(not moved, f"{seen}; draw from the one that it is given.")


def attributes(thing: object) -> dict[str, object]:
    """Return what each attribute of an object holds, in a form that can be compared."""
    state: Any = object.__getstate__(thing)  # with slots it is a pair
    held: dict[str, object] = {}
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            try:
                held[name] = pickle.dumps(value)
            except Exception:  # noqa: BLE001 - somebody's own class: what it shows
                held[name] = repr(value)
    return held


# ---------------------------------------------------------------- shared randomness

_GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "torch": (
        lambda: torch.get_rng_state().numpy(),
        lambda state: torch.set_rng_state(torch.from_numpy(state)),
    ),
    "numpy": (np.random.get_state, np.random.set_state),
    "random": (random.getstate, random.setstate),
}


@contextmanager
def keep_generators() -> Iterator[None]:
    """Put the global generators back to what they were, whatever the block does."""
    states = [(put, get()) for get, put in _GENERATORS.values()]
    try:
        yield
    finally:
        for put, state in states:
            put(state)


def generators_moved_by(work: Callable[[], _T]) -> tuple[_T, str]:
    """Return the result of ``work`` and the libraries whose generator it moved."""
    with keep_generators():
        before = {name: pickle.dumps(get()) for name, (get, _) in _GENERATORS.items()}
        result = work()
        moved = [n for n in before if before[n] != pickle.dumps(_GENERATORS[n][0]())]
    return result, ", ".join(moved)


def move_generators() -> None:
    """Draw from every global generator; use inside :func:`keep_generators`."""
    torch.rand(1)
    np.random.random()  # noqa: NPY002 - to move it
    random.random()  # noqa: S311 - to move it
