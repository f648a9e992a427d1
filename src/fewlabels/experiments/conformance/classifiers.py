"""What every classifier promises, one function each, on the images of a small pool."""

from functools import cached_property

import torch
from torch import Tensor

from fewlabels.errors import FewlabelsError
from fewlabels.experiments.conformance.problems import (
    Promise,
    Verdict,
    failed,
    moved_by,
    passed,
)
from fewlabels.pool import ArrayImages, Pool
from fewlabels.protocols import Classifier, Outputs
from fewlabels.rng import stream

_NUM_SAMPLES = 3
_CLOSE = 1e-3  # of the largest value; sums over other chunks round otherwise
_NAMES = ("features", "logits")


class Trial:
    """A classifier, and what it says of all items of a pool."""

    def __init__(self, classifier: Classifier, pool: Pool) -> None:
        """Take both; nothing is asked yet."""
        self.classifier, self.pool = classifier, pool
        self.every = torch.arange(len(pool))

    def ask(self, items: Tensor) -> Outputs:
        """Return what it says of some items."""
        return self.classifier.outputs(self.pool.images, items)

    @cached_property
    def outputs(self) -> Outputs:
        """What it says of all items."""
        return self.ask(self.every)


def shapes(trial: Trial) -> Verdict:
    """It gives finite features and logits, a row per item, without gradients."""
    found: object = trial.outputs
    count, num_classes = len(trial.every), trial.classifier.num_classes
    if not isinstance(found, Outputs):
        return failed(
            f"outputs returned an object of type {type(found).__name__}; return "
            "protocols.Outputs(features, logits), which refuses NaN and infinity."
        )
    for name in _NAMES:
        rows = getattr(found, name)
        if rows.ndim != 2 or len(rows) != count:
            shape = tuple(rows.shape)
            return failed(
                f"Of {count} items, {name} have shape {shape}; give a row per item."
            )
        if not rows.is_floating_point() or rows.requires_grad:
            gradients = " and carries gradients" if rows.requires_grad else ""
            return failed(
                f"{name} is of type {rows.dtype}{gradients}; give floating point, "
                "computed under torch.inference_mode()."
            )
    width = found.logits.shape[1]
    if width != num_classes:
        return failed(
            f"logits have {width} columns, and num_classes is {num_classes}; give one "
            "logit per class."
        )
    return passed(f"{count} items: features {found.features.shape[1]}, logits {width}")


def repeatable(trial: Trial) -> Verdict:
    """Equal questions get equal answers: evaluation mode, no randomness."""
    before = _modes(trial.classifier)
    again, moved = moved_by(lambda: trial.ask(trial.every))
    if moved:
        return failed(
            f"outputs drew from the global generator of {', '.join(moved)}; put the "
            "network into evaluation mode."
        )
    if not torch.equal(again.logits, trial.outputs.logits):
        share = _difference(again.logits, trial.outputs.logits)
        return failed(
            f"Logits of two equal calls differ by {share:.2g} of the largest; put the "
            "network into evaluation mode."
        )
    if _modes(trial.classifier) != before:
        return failed("outputs left the network in another mode; put it back.")
    return passed("two calls, equal logits")


def order(trial: Trial) -> Verdict:
    """Row k is that of indices[k], whatever else is asked for."""
    shuffled = torch.randperm(len(trial.every), generator=stream(0, "order"))
    for indices in (shuffled, shuffled[:1], trial.every[-3:]):
        found = trial.ask(indices)
        for name in _NAMES:
            rows, wanted = getattr(found, name), getattr(trial.outputs, name)[indices]
            share = _difference(rows, wanted)
            if not share <= _CLOSE:
                return failed(
                    f"{name} of {len(indices)} items in another order or company "
                    f"differ by {share:.2g} of the largest; row k belongs to "
                    "indices[k], and no item's row may depend on the others."
                )
    return passed("rows follow the indices")


def no_items(trial: Trial) -> Verdict:
    """Of no items it gives no rows, as pools that are labeled to the end ask for."""
    found = trial.ask(trial.every[:0])
    for name in _NAMES:
        seen = tuple(getattr(found, name).shape)
        wanted = (0, getattr(trial.outputs, name).shape[1])
        if seen != wanted:
            return failed(f"{name} of no items have shape {seen}; give {wanted}.")
    return passed("shapes (0, F) and (0, C)")


def other_images(trial: Trial) -> Verdict:
    """It reads the images that it is given; a test split is measured by that."""
    images = trial.pool.images.read(trial.every)
    flipped = ArrayImages(images.flip(0))
    found = trial.classifier.outputs(flipped, trial.every.flip(0)).logits
    if _difference(found, trial.outputs.logits) <= _CLOSE:
        return passed("the same images at other positions, the same logits")
    return "not promised", (
        "it answers by position, whatever images it gets: enough for a strategy, and "
        "wrong on a test split"
    )


def samples(trial: Trial) -> Verdict:
    """Sampled networks come from the generator alone; to have none is allowed."""
    wanted = (_NUM_SAMPLES, len(trial.every), trial.classifier.num_classes)

    def sampled() -> Tensor:
        return trial.classifier.sample_logits(
            trial.pool.images, trial.every, _NUM_SAMPLES, stream(0, "samples")
        )

    try:
        (first, second), moved = moved_by(lambda: (sampled(), sampled()))
    except FewlabelsError as error:
        return "refused", str(error)
    if tuple(first.shape) != wanted:
        return failed(
            f"sample_logits has shape {tuple(first.shape)}; give {wanted}: networks, "
            "items, classes."
        )
    if moved or not torch.equal(first, second):
        return failed(
            "sample_logits gives other logits with an equal generator, or draws from a "
            "global one; draw from the generator that it is given."
        )
    return passed(f"{_NUM_SAMPLES} networks, the same again with an equal generator")


def _modes(classifier: Classifier) -> list[bool]:
    module = classifier.module
    return [] if module is None else [part.training for part in module.modules()]


def _difference(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape:
        return torch.inf
    largest = float(other.abs().max()) if other.numel() else 0.0
    return float((one - other).abs().max()) / largest if largest else 0.0


PROMISES = (
    Promise("outputs", shapes),
    Promise("repeatable", repeatable, ("outputs",)),
    Promise("order", order, ("outputs", "repeatable")),
    Promise("no items", no_items, ("outputs",)),
    Promise("other images", other_images, ("outputs", "repeatable")),
    Promise("samples", samples, ("outputs",)),
)
