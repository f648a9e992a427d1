"""ABC: losses of the balanced layer against a slow twin, and who predicts."""

import copy
import math

import pytest
import torch
from tests.training.conftest import tiny_pool
from tests.training.test_alignment import CLASSES, begun
from tests.training.test_workspace import fit

from fewlabels import rng
from fewlabels.pool import Answers
from fewlabels.training import loop, make
from fewlabels.training.balanced_head import rarity
from fewlabels.training.learner import Learned


def uneven_pool():
    """Labels of three classes: 5, 3 and 2 of them."""
    pool = tiny_pool(num_classes=CLASSES)  # two of each
    more = torch.tensor([6, 9, 12, 7])
    return pool.with_answers(Answers(more, torch.tensor([0, 0, 0, 1])))


def softmax(logits):
    powers = [math.exp(one) for one in logits]
    return [one / sum(powers) for one in powers]


def slow_loss(labeled, labels, weak, strong, rarity, done, drawn, threshold):
    """The paper's equations, item by item; a draw below a chance shows the item."""
    draws = iter(drawn)
    seen = untold = 0.0
    for row, label in zip(labeled, labels, strict=True):
        if next(draws) < rarity[label]:
            seen -= math.log(softmax(row)[label]) / len(labels)
    for own, row in zip(weak, strong, strict=True):
        believed = softmax(own)
        chance = (1 - done) + done * rarity[believed.index(max(believed))]
        if next(draws) < chance and max(believed) >= threshold:
            entropy = zip(believed, softmax(row), strict=True)
            untold -= sum(p * math.log(q) for p, q in entropy) / len(weak)
    return seen + untold


@pytest.mark.parametrize("balances", [False, True])
@pytest.mark.parametrize("number", [0, 60, 99])
def test_the_losses_are_those_of_a_slow_twin(balances, number):
    stepper = begun(
        name="fixmatch-abc", balances_classes=balances, balanced_weight=3.0, mu=8
    )
    object.__setattr__(stepper.task, "pool", uneven_pool())
    minibatch = stepper.minibatch(number)
    step = stepper.step(number, minibatch)
    sizes, draws = (4, 32, 32), rng.stream(number, "logits")
    logits = [2 * torch.randn(size, CLASSES, generator=draws) for size in sizes]
    seen = tuple(Learned(one, one, {"balanced": one}) for one in logits)
    [(name, found)] = stepper.learner.other_terms(step, seen, None).items()
    chances = [1.0] * 3 if balances else [2 / 5, 2 / 3, 1.0]
    drawn = torch.rand(36, generator=step.stream("balanced items")).tolist()
    labeled, weak, strong = (one.tolist() for one in logits)
    labels = minibatch.labels.tolist()
    parts = (
        slow_loss(labeled, labels, [], [], chances, 0.0, drawn, 0.6),
        slow_loss(
            [], [], weak, strong, [2 / 5, 2 / 3, 1], number / 100, drawn[4:], 0.6
        ),
    )
    assert name == "balanced"
    assert float(found) == pytest.approx(3 * sum(parts), rel=1e-5)


def test_rarity_by_hand():
    assert rarity(uneven_pool()).tolist() == pytest.approx([2 / 5, 2 / 3, 1])
    none_of_the_last = tiny_pool(labeled=2, num_classes=3)
    assert rarity(none_of_the_last).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["fixmatch-abc", "frozen-fixmatch-abc-darp"])
def test_the_balanced_layer_predicts(tmp_path, name, monkeypatch):
    averages = []
    advance = loop.Stepper.advance

    def spied(self, *args):
        loss = advance(self, *args)
        averages[:] = [copy.deepcopy(self.average)]
        return loss

    monkeypatch.setattr(loop.Stepper, "advance", spied)
    options = {"steps": 6, "minibatch_size": 4, "checkpoint_every": 3}
    if name.startswith("frozen-"):
        cache = str(tmp_path / "cache")
        options |= {"encoder": "tests.models.toy:Means", "cache": cache}
    told = []
    found = fit(
        tmp_path / "work",
        make(name, **options),
        tiny_pool(shape=(1, 8, 8)),
        on_checkpoint=lambda step, classifier: told.append((step, classifier)),
    )
    [average] = averages
    weight = average.heads["balanced"].weight
    assert not torch.equal(weight, average.network.head.weight)
    assert torch.equal(found.module.head.weight, weight)
    assert torch.equal(found.module.head.bias, average.heads["balanced"].bias)
    assert [step for step, _ in told] == [3, 6]
    assert torch.equal(told[-1][1].module.head.weight, weight)
    again = fit(tmp_path / "work", make(name, **options), tiny_pool(shape=(1, 8, 8)))
    assert torch.equal(again.module.head.weight, weight)
