"""CDMAD: corrected pseudo-labels and results against slow twins."""

import copy

import pytest
import torch
from tests.training.conftest import tiny_pool
from tests.training.test_alignment import CLASSES, begun
from tests.training.test_workspace import fit

from fewlabels import models, rng
from fewlabels.training import loop, make
from fewlabels.training.neutral_image import neutral


def slow_loss(logits, labels, white, threshold, *, is_corrected):
    """FixMatch's two terms, item by item, of logits less those of a white image."""
    labeled, weak, strong = logits
    expected, kept = 0.0, 0
    for row, label in zip(labeled, labels, strict=True):
        expected -= float(row.log_softmax(dim=0)[label]) / len(labels)
    for own, row in zip(weak, strong, strict=True):
        believed = (own - white if is_corrected else own).softmax(dim=0)
        if float(believed.max()) >= threshold:
            best = believed.tolist().index(float(believed.max()))
            expected -= float(row.log_softmax(dim=0)[best]) / len(weak)
            kept += 1
    return expected, kept


@pytest.mark.parametrize("forward", ["joint", "split"])
@pytest.mark.parametrize("number", [29, 30])
def test_the_loss_is_that_of_a_slow_twin(forward, number):
    stepper = begun(
        name="fixmatch-cdmad", forward=forward, correct_from=0.3, threshold=0.34
    )
    stepper.learning.network.head.bias.data[0] = 3.0  # of which the white image tells
    passes = []
    stepper.learning.train().register_forward_hook(
        lambda _, args, out: passes.append((args[0], out.logits.detach()))
    )
    minibatch = stepper.minibatch(number)
    loss = stepper.learner.loss(stepper.step(number, minibatch))
    if forward == "joint":
        [(seen, logits)] = passes
        labeled, weak, strong, white = logits.split([4, 8, 8, 1])
        shown = seen[-1]
    else:
        (seen, first), (_, second) = passes
        weak, white = first.split([8, 1])
        labeled, strong = second.split([4, 8])
        shown = seen[-1]
    assert (shown == models.as_input(torch.full((1, 4, 4), 255).byte())).all()
    found = labeled, weak, strong
    labels = minibatch.labels.tolist()
    both = [
        slow_loss(found, labels, white[0], 0.34, is_corrected=one) for one in (0, 1)
    ]
    assert both[0][0] != pytest.approx(both[1][0])
    expected, kept = both[number == 30]
    assert kept
    assert loss.total.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["fixmatch-cdmad", "frozen-fixmatch-cdmad-darp"])
def test_what_is_predicted_is_corrected(tmp_path, name, monkeypatch):
    averages = []
    advance = loop.Stepper.advance

    def spied(self, *args):
        done = advance(self, *args)
        averages[:] = [copy.deepcopy(self.average.network)]
        return done

    monkeypatch.setattr(loop.Stepper, "advance", spied)
    options = {"steps": 6, "minibatch_size": 4, "checkpoint_every": 3}
    if name.startswith("frozen-"):
        cache = str(tmp_path / "cache")
        options |= {"encoder": "tests.models.toy:Means", "cache": cache}
    told, pool = [], tiny_pool(shape=(1, 8, 8))
    trainer = make(name, **options)
    found = fit(
        tmp_path / "work", trainer, pool, on_checkpoint=lambda _, c: told.append(c)
    )
    [average] = averages
    rows = isinstance(average, models.Head)
    nothing = average.mean[None] if rows else torch.ones(1, 1, 8, 8)
    inputs = torch.randn(5, *nothing.shape[1:], generator=rng.stream(0, "inputs"))
    with torch.no_grad():
        expected = average(inputs) - average(nothing)
        assert average(nothing).abs().sum() > 0
        torch.testing.assert_close(found.module(inputs), expected)
        torch.testing.assert_close(told[-1].module(inputs), expected)
        again = fit(tmp_path / "work", trainer, pool)  # found finished
        torch.testing.assert_close(again.module(inputs), expected)


def test_what_shows_nothing():
    head = models.build("mlp-8", (3,), CLASSES, rng.stream(0, "w"))
    head.standardize_by(torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))
    assert neutral(head, (3,)).tolist() == [[1.0, 2.0, 3.0]]
    network = models.build("wrn-10-1", (3, 8, 8), CLASSES, rng.stream(0, "w"))
    assert torch.equal(neutral(network, (3, 8, 8)), torch.ones(1, 3, 8, 8))
