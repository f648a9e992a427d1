"""What every trainer promises, judged by two trainings, and one without any label."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from fewlabels.errors import FewlabelsError, UsageError
from fewlabels.experiments.conformance import classifiers
from fewlabels.experiments.conformance.problems import (
    Promise,
    Verdict,
    changes,
    draw,
    failed,
    moved_by,
    passed,
    tensors,
)
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.protocols import Classifier, Trainer
from fewlabels.rng import stream

_NUM_ITEMS, _NUM_LABELED = 200, 60


def small_pool(source: Pool) -> Pool:
    """Return a few items of a pool, some of them labeled, as new tensors."""
    known = source.labeled
    if len(known) < 2:
        raise UsageError(
            f"{len(known)} of the {len(source)} items are labeled, and a training is "
            "judged by labels; give data whose labels are known, such as digits."
        )
    order = torch.randperm(len(known), generator=stream(0, "check"))
    kept = known[order[:_NUM_ITEMS]]
    labels = source.labels[kept]
    labels[min(_NUM_LABELED, len(kept) // 2) :] = UNKNOWN
    return Pool.build(ArrayImages(source.images.read(kept)), labels, source.classes)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A training, and what it left behind."""

    classifier: Classifier
    pool: Pool
    labels: Tensor
    """The pool's labels before it."""
    moved: list[str]
    """Global generators that it drew from."""
    changes: list[str]
    """What it changed in the pool."""


class Trial:
    """A trainer, and its trainings of a small pool."""

    def __init__(self, trainer: Trainer, source: Pool) -> None:
        """Take both and refuse data without labels; nothing is trained yet."""
        small_pool(source)
        self._trainer, self._source = trainer, source

    @cached_property
    def first(self) -> _Fit:
        """A training in a folder of its own."""
        with TemporaryDirectory() as folder:
            return self._fitted(small_pool(self._source), Path(folder))

    @cached_property
    def again(self) -> _Fit:
        """The same training without a folder, while global generators have moved on."""
        draw()
        return self._fitted(small_pool(self._source), None)

    @cached_property
    def untrained(self) -> _Fit:
        """A training without any label."""
        pool = small_pool(self._source)
        nothing = torch.full_like(pool.labels, UNKNOWN)
        everything = torch.arange(len(pool))
        pool = replace(pool, labels=nothing, candidates=everything)
        return self._fitted(pool, None)

    @cached_property
    def classified(self) -> classifiers.Trial:
        """The first training's classifier, to be judged as one."""
        return classifiers.Trial(self.first.classifier, self.first.pool)

    def _fitted(self, pool: Pool, workspace: Path | None) -> _Fit:
        before = tensors(pool)
        work = partial(self._trainer.fit, pool, stream(0, "train"), workspace=workspace)
        classifier, moved = moved_by(work)
        changed = changes(before, tensors(pool))
        return _Fit(classifier, pool, before["pool.labels"], moved, changed)


def gives_a_classifier(trial: Trial) -> Verdict:
    """``fit`` returns a classifier for the classes of the pool."""
    fit = trial.first
    lacking = [
        name
        for name in ("outputs", "sample_logits", "num_classes", "module")
        if not hasattr(fit.classifier, name)
    ]
    if lacking:
        return failed(
            f"fit returned an object of type {type(fit.classifier).__name__} without "
            f"{', '.join(lacking)}; return a classifier, see protocols.Classifier."
        )
    if fit.classifier.num_classes != fit.pool.num_classes:
        return failed(
            f"The classifier has {fit.classifier.num_classes} classes and the pool "
            f"{fit.pool.num_classes}; unlabeled classes count too: pool.num_classes."
        )
    return passed(f"{type(fit.classifier).__name__} of {fit.pool.num_classes} classes")


def seeded(trial: Trial) -> Verdict:
    """Equal generators give equal classifiers."""
    one, other = trial.first, trial.again
    every = torch.arange(len(one.pool))
    logits = [
        fit.classifier.outputs(fit.pool.images, every).logits for fit in (one, other)
    ]
    if not torch.equal(*logits):
        gap = float((logits[0] - logits[1]).abs().max())
        return failed(
            "Two trainings with equal pools and generators, the first in a workspace, "
            f"give logits that differ by up to {gap:.3g}. Draw from the generator that "
            "fit is given, begin from scratch, and keep nothing in the trainer."
        )
    return passed("two trainings, equal logits")


def shared_randomness(trial: Trial) -> Verdict:
    """It leaves the global random generators alone."""
    if trial.first.moved:
        return failed(
            f"It drew from, or seeded, the global generator of "
            f"{', '.join(trial.first.moved)}; draw from the one that fit is given, "
            "also for weights and minibatches."
        )
    return passed("torch, numpy and random stay as they were")


def pool_untouched(trial: Trial) -> Verdict:
    """It changes nothing in the pool."""
    if trial.first.changes:
        seen = "; ".join(trial.first.changes)
        return failed(f"It changed its input: {seen}. Write to a clone.")
    return passed("labels, candidates and images stay")


def learns(trial: Trial) -> Verdict:
    """It gets more of its own labels right than by naming the commonest class."""
    labeled = torch.nonzero(trial.first.labels != UNKNOWN).flatten()
    labels = trial.first.labels[labeled]
    predicted = trial.classified.outputs.logits[labeled].argmax(dim=1)
    right = int((predicted.cpu() == labels).sum())
    share = int(torch.bincount(labels).max()) / len(labels)
    chance = len(labels) * share + 2 * math.sqrt(len(labels) * share * (1 - share))
    seen = f"{right} of its own {len(labels)} labels right"
    if right < min(chance, len(labels)):
        return failed(
            f"It gets {seen}, and naming the commonest class gets "
            f"{round(share * len(labels))}: it learned nothing of them."
        )
    return passed(seen)


def no_labels(trial: Trial) -> Verdict:
    """Without labels the untrained classifier comes back; to refuse is allowed."""
    try:
        fit = trial.untrained
    except FewlabelsError as error:
        return "refused", str(error)
    fit.classifier.outputs(fit.pool.images, torch.arange(len(fit.pool)))
    return passed("a classifier with finite outputs")


def _of_classifier(promise: Promise) -> Promise:
    judge: Callable[[classifiers.Trial], Verdict] = promise.judge
    after = ("a classifier", *promise.after)
    return Promise(promise.name, lambda trial: judge(trial.classified), after)


_TRAINED = ("a classifier", "outputs")
PROMISES = (
    Promise("a classifier", gives_a_classifier),
    *map(_of_classifier, classifiers.PROMISES),
    Promise("seeded", seeded, _TRAINED),
    Promise("global randomness", shared_randomness, ("a classifier",)),
    Promise("pool untouched", pool_untouched, ("a classifier",)),
    Promise("learns", learns, _TRAINED),
    Promise("no labels", no_labels, _TRAINED),
)
