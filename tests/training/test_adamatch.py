"""AdaMatch: alignment, threshold and loss against slow twins."""

import copy
import math

import pytest
import torch
from tests.training.conftest import NUM_ITEMS
from tests.training.test_alignment import CLASSES, begun, rows
from tests.training.test_distribution import Twin as Aligned

from fewlabels.models import as_input
from fewlabels.training.learner import Minibatch


def labels_of(stepper, found, labeled, number):
    """Return what becomes of predictions, as those of one step."""
    items = (number + torch.arange(len(found))) % NUM_ITEMS
    step = stepper.step(number, Minibatch(items[:0], items, {}))
    return stepper.learner.pseudo_labels(step, found, labeled)


@pytest.mark.parametrize("name", ["adamatch", "adamatch-darp"])
def test_pseudo_labels_are_those_of_a_slow_twin_step_by_step(name):
    """DARP is not warm yet, and leaves the predictions as they are."""
    stepper = begun(name=name, memory_decay=0.8, threshold=0.9)
    ours, theirs = (Aligned([1 / CLASSES] * CLASSES, 0.8) for _ in range(2))
    counted, changed = set(), 0
    for number in range(10):
        found, labeled = rows(9, seed=number), rows(4, seed=100 + number)
        found[:, 0] += 0.5  # the network prefers a class where nothing is labeled
        found /= found.sum(dim=1, keepdim=True)
        pseudo = labels_of(stepper, found, labeled, number)
        theirs.see(labeled.tolist())
        ours.see(found.tolist())
        ours.target = theirs.mean
        expected = found.tolist()
        if name == "adamatch":
            expected = [ours.aligned(row) for row in expected]
        least = 0.9 * sum(max(row) for row in labeled.tolist()) / 4
        torch.testing.assert_close(pseudo.probabilities, torch.tensor(expected))
        assert pseudo.keeps.tolist() == [max(row) >= least for row in expected]
        assert float(pseudo.figures["threshold"]) == pytest.approx(least)
        counted.update(pseudo.keeps.tolist())
        changed += int((pseudo.classes != found.argmax(dim=1)).sum())
    assert counted == {True, False}
    assert (changed > 0) == (name == "adamatch")


def test_the_loss_is_that_of_a_slow_twin():
    """Labeled views alone and with the others; each logit is drawn in between."""
    stepper = begun(name="adamatch", threshold=0.5)
    passes = []
    stepper.learning.train().register_forward_hook(
        lambda _, args, out: passes.append(out.logits.detach().clone())
    )
    minibatch = stepper.minibatch(20)
    step = stepper.step(20, minibatch)
    loss = stepper.learner.loss(step)
    alone, together = passes
    whole, weak, strong = together.split([8, 8, 8])
    draws = step.stream("logit interpolation")
    shares = torch.cat([torch.rand(4, CLASSES, generator=draws) for _ in range(2)])
    labeled = whole + (alone - whole) * shares
    assert not torch.allclose(alone, whole)
    expected = 0.0
    for row, label in zip(labeled, minibatch.labels.repeat(2), strict=True):
        expected += -float(row.log_softmax(dim=0)[label]) / 8
    certain = labeled[:4].softmax(dim=1)
    least = 0.5 * float(certain.amax(dim=1).mean())
    ours, theirs = (Aligned([1 / CLASSES] * CLASSES, 0.99) for _ in range(2))
    theirs.see(certain.tolist())
    ours.see(weak.softmax(dim=1).tolist())
    ours.target = theirs.mean
    found = [ours.aligned(row) for row in weak.softmax(dim=1).tolist()]
    kept = 0
    for row, logits in zip(found, strong, strict=True):
        if max(row) >= least:
            weight = 0.5 - math.cos(2 * math.pi * 20 / 100) / 2
            taught = logits.log_softmax(dim=0)[row.index(max(row))]
            expected += -weight * float(taught) / 8
            kept += 1
    assert kept
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)


def test_running_statistics_are_those_of_the_pass_over_everything():
    stepper = begun(name="adamatch")
    other = copy.deepcopy(stepper.learning).train()
    minibatch = stepper.minibatch(0)
    stepper.advance(0, minibatch)
    views = ("labeled", "labeled-strong", "weak", "strong")
    with torch.no_grad():
        other(torch.cat([as_input(minibatch.views[name]) for name in views]))
    for own, expected in zip(stepper.learning.buffers(), other.buffers(), strict=True):
        assert torch.equal(own, expected)
