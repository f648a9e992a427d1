"""Promises of trainers and of the classifiers that they make.

A trainer is judged by two trainings of a small pool, and one without any label.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fewlabels.errors import FewlabelsError, UsageError
from fewlabels.experiments.conformance import problems
from fewlabels.experiments.conformance.problems import Promise, Verdict, require
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.protocols import Classifier, Outputs, Trainer
from fewlabels.rng import stream

_NUM_ITEMS, _NUM_LABELED = 200, 60
_NUM_SAMPLES = 3
_CLOSE = 1e-3  # of the largest value; sums over other chunks round otherwise
_NAMES = ("features", "logits")


def small_pool(source: Pool, num_items: int = _NUM_ITEMS) -> Pool:
    """Return a few items of a pool, some of them labeled, as new tensors."""
    known = source.labeled
    if len(known) < 2:
        raise UsageError(f"{len(known)} of {len(source)} items are labeled; give 2.")
    kept = known[torch.randperm(len(known), generator=stream(0, "check"))[:num_items]]
    labels = source.labels[kept]
    labels[min(_NUM_LABELED, len(kept) // 2) :] = UNKNOWN
    return Pool.build(ArrayImages(source.images.read(kept)), labels, source.classes)


# ----------------------------------------------------------------------- classifiers


@dataclass(eq=False)
class ClassifierTrial:
    """A classifier and its outputs for all items of a pool."""

    classifier: Classifier
    pool: Pool

    @cached_property
    def every(self) -> Tensor:
        """Positions of all items."""
        return torch.arange(len(self.pool))

    @cached_property
    def outputs(self) -> Outputs:
        """Outputs for all items."""
        return self.ask(self.every)

    def ask(self, items: Tensor) -> Outputs:
        """Return the outputs for some items."""
        return self.classifier.outputs(self.pool.images, items)


def outputs(trial: ClassifierTrial) -> Verdict:
    """It gives finite features and logits, a row per item, without gradients."""
    given: Any = trial.outputs
    require(
        isinstance(given, Outputs),
        f"outputs returned an object of type {type(given).__name__}; return "
        "protocols.Outputs(features, logits), which refuses NaN and infinity.",
    )
    count, num_classes = len(trial.every), trial.classifier.num_classes
    for name in _NAMES:
        rows = getattr(given, name)
        seen = f"Of {count} items, {name} have shape {tuple(rows.shape)}"
        is_matrix = rows.ndim == 2 and len(rows) == count
        require(is_matrix, f"{seen}; give a row per item.")
        gradients = " and carries gradients" if rows.requires_grad else ""
        require(
            rows.is_floating_point() and not gradients,
            f"{name} is of type {rows.dtype}{gradients}; give floating point, computed "
            "under torch.inference_mode().",
        )
    width = given.logits.shape[1]
    fault = f"logits have {width} columns; give {num_classes}, one per class."
    require(width == num_classes, fault)
    return f"{count} items: features {given.features.shape[1]}, logits {width}"


def repeatable(trial: ClassifierTrial) -> Verdict:
    """Equal questions get equal answers: evaluation mode, no randomness."""

    def modes() -> list[bool]:
        module = trial.classifier.module
        return [] if module is None else [part.training for part in module.modules()]

    wanted, before = trial.outputs.logits, modes()
    again, moved = problems.generators_moved_by(lambda: trial.ask(trial.every))
    require(
        not moved and torch.equal(again.logits, wanted),
        f"Logits of two equal calls differ, or drew from the global generator of "
        f"{moved or 'none'}; put the network into evaluation mode.",
    )
    require(modes() == before, "outputs left the network in another mode; put it back.")
    return "two calls, equal logits"


def row_order(trial: ClassifierTrial) -> Verdict:
    """Row k is that of indices[k], whatever else is asked for."""
    shuffled = torch.randperm(len(trial.every), generator=stream(0, "order"))
    for indices in (shuffled, shuffled[:1], trial.every[-3:]):
        given = trial.ask(indices)
        for name in _NAMES:
            rows, wanted = getattr(given, name), getattr(trial.outputs, name)[indices]
            share = _difference(rows, wanted)
            require(
                share <= _CLOSE,
                f"{name} of {len(indices)} items in another order or company differ by "
                f"{share:.2g} of the largest; row k belongs to indices[k], and no "
                "item's row may depend on the others.",
            )
    return "rows follow the indices"


def no_items(trial: ClassifierTrial) -> Verdict:
    """It gives no rows for no items, which pools without unlabeled items ask for."""
    empty = trial.ask(trial.every[:0])
    for name in _NAMES:
        seen = tuple(getattr(empty, name).shape)
        wanted = (0, getattr(trial.outputs, name).shape[1])
        require(seen == wanted, f"{name} of no items have shape {seen}; give {wanted}.")
    return "shapes (0, F) and (0, C)"


def other_images(trial: ClassifierTrial) -> Verdict:
    """It reads the images that it is given; a test split is measured by that."""
    flipped = ArrayImages(trial.pool.images.read(trial.every).flip(0))
    logits = trial.classifier.outputs(flipped, trial.every.flip(0)).logits
    if _difference(logits, trial.outputs.logits) <= _CLOSE:
        return "the same images at other positions, the same logits"
    return "not promised", (
        "it answers by position, whatever images it gets: enough for a strategy, and "
        "wrong on a test split"
    )


def samples(trial: ClassifierTrial) -> Verdict:
    """Sampled networks come from the generator alone; to have none is allowed."""
    wanted = (_NUM_SAMPLES, len(trial.every), trial.classifier.num_classes)

    def sampled() -> Tensor:
        return trial.classifier.sample_logits(
            trial.pool.images, trial.every, _NUM_SAMPLES, stream(0, "samples")
        )

    try:
        pair, moved = problems.generators_moved_by(lambda: (sampled(), sampled()))
    except FewlabelsError as error:
        return "refused", str(error)
    shape = tuple(pair[0].shape)
    fault = f"sample_logits has shape {shape}; give {wanted}: networks, items, classes."
    require(shape == wanted, fault)
    require(
        not moved and torch.equal(*pair),
        "sample_logits gives other logits with an equal generator, or draws from a "
        "global one; draw from the generator that it is given.",
    )
    return f"{_NUM_SAMPLES} networks, the same again with an equal generator"


def _difference(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape:
        return torch.inf
    largest = float(other.abs().max()) if other.numel() else 0.0
    return float((one - other).abs().max()) / largest if largest else 0.0


CLASSIFIER_PROMISES = (
    Promise("outputs", outputs),
    Promise("repeatable", repeatable, ("outputs",)),
    Promise("order", row_order, ("outputs", "repeatable")),
    Promise("no items", no_items, ("outputs",)),
    Promise("other images", other_images, ("outputs", "repeatable")),
    Promise("samples", samples, ("outputs",)),
)


# -------------------------------------------------------------------------- trainers


class _Fit(NamedTuple):
    """A training and its side effects."""

    classifier: Classifier
    pool: Pool
    before: dict[str, Tensor]
    """The pool's tensors before it."""
    moved: str
    """Global generators that it drew from."""


class TrainerTrial:
    """A trainer and its trainings of a small pool."""

    def __init__(self, trainer: Trainer, source: Pool) -> None:
        """Take both and refuse data without labels; nothing is trained yet."""
        small_pool(source)
        self._trainer, self._source = trainer, source

    @cached_property
    def first(self) -> _Fit:
        """A training in a folder of its own."""
        with TemporaryDirectory() as folder:
            return self.fit(small_pool(self._source), Path(folder))

    @cached_property
    def again(self) -> _Fit:
        """The same training without a folder, while global generators have moved on."""
        problems.move_generators()
        return self.fit(small_pool(self._source))

    @cached_property
    def classified(self) -> ClassifierTrial:
        """The first training's classifier, to be judged as one."""
        return ClassifierTrial(self.first.classifier, self.first.pool)

    def fit(self, pool: Pool, workspace: Path | None = None) -> _Fit:
        """Train on a pool."""
        before = problems.tensors(pool)
        work = partial(self._trainer.fit, pool, stream(0, "train"), workspace=workspace)
        classifier, moved = problems.generators_moved_by(work)
        return _Fit(classifier, pool, before, moved)


def gives_a_classifier(trial: TrainerTrial) -> Verdict:
    """``fit`` returns a classifier for the classes of the pool."""
    classifier, num_classes = trial.first.classifier, trial.first.pool.num_classes
    needed = ("outputs", "sample_logits", "num_classes", "module")
    lacking = [name for name in needed if not hasattr(classifier, name)]
    require(
        not lacking,
        f"fit returned an object of type {type(classifier).__name__} without "
        f"{', '.join(lacking)}; return a classifier, see protocols.Classifier.",
    )
    seen = f"The classifier has {classifier.num_classes} classes"
    is_whole = classifier.num_classes == num_classes
    require(is_whole, f"{seen} and the pool {num_classes}, unlabeled ones included.")
    return f"{type(classifier).__name__} of {num_classes} classes"


def seeded(trial: TrainerTrial) -> Verdict:
    """Equal generators give equal classifiers."""
    fits = (trial.first, trial.again)  # both trainings come before any output
    logits = [ClassifierTrial(fit.classifier, fit.pool).outputs.logits for fit in fits]
    gap = float((logits[0] - logits[1]).abs().max())
    require(
        gap == 0,
        f"Two trainings with equal pools and generators give logits that differ by up "
        f"to {gap:.3g}. Begin from scratch, and keep nothing in the trainer.",
    )
    return "two trainings, equal logits"


def shared_randomness(trial: TrainerTrial) -> Verdict:
    """It leaves the global random generators alone."""
    problems.require_no_draws(trial.first.moved)
    return "torch, numpy and random stay as they were"


def pool_untouched(trial: TrainerTrial) -> Verdict:
    """It changes nothing in the pool."""
    problems.require_unchanged(trial.first.before, problems.tensors(trial.first.pool))
    return "labels, candidates and images stay"


def learns(trial: TrainerTrial) -> Verdict:
    """It gets more of its own labels right than by naming the commonest class."""
    before = trial.first.before["pool.labels"]
    labeled = torch.nonzero(before != UNKNOWN).flatten()
    labels = before[labeled]
    predicted = trial.classified.outputs.logits[labeled].argmax(dim=1)
    right = int((predicted.cpu() == labels).sum())
    share = int(torch.bincount(labels).max()) / len(labels)
    chance = len(labels) * share + 2 * math.sqrt(len(labels) * share * (1 - share))
    seen = f"{right} of its own {len(labels)} labels right"
    require(
        right >= min(chance, len(labels)),
        f"It gets {seen}, and naming the commonest class gets "
        f"{round(share * len(labels))}: it learned nothing of them.",
    )
    return seen


def no_labels(trial: TrainerTrial) -> Verdict:
    """Without labels the untrained classifier comes back; to refuse is allowed."""
    pool = trial.first.pool
    every = torch.arange(len(pool))
    nothing = torch.full_like(pool.labels, UNKNOWN)
    try:
        fit = trial.fit(replace(pool, labels=nothing, candidates=every))
    except FewlabelsError as error:
        return "refused", str(error)
    fit.classifier.outputs(fit.pool.images, every)
    return "a classifier with finite outputs"


def _of_classifier(promise: Promise) -> Promise:
    return promise._replace(
        judge=lambda trial: promise.judge(trial.classified),
        after=("a classifier", *promise.after),
    )


_TRAINED = ("a classifier", "outputs")
TRAINER_PROMISES = (
    Promise("a classifier", gives_a_classifier),
    *map(_of_classifier, CLASSIFIER_PROMISES),
    Promise("seeded", seeded, _TRAINED),
    Promise("global randomness", shared_randomness, ("a classifier",)),
    Promise("pool untouched", pool_untouched, ("a classifier",)),
    Promise("learns", learns, _TRAINED),
    Promise("no labels", no_labels, _TRAINED),
)
