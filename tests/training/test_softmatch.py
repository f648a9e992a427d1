"""SoftMatch: weights against a slow twin, step by step."""

import math

import pytest
import torch
from tests.training.conftest import NUM_ITEMS
from tests.training.test_alignment import CLASSES, begun, labels_of, rows
from tests.training.test_distribution import Twin as Aligned


class Twin:
    """The paper's equations, one number after the other."""

    def __init__(self, decay, narrowing):
        self.decay, self.narrowing = decay, narrowing
        self.uniform = Aligned([1 / CLASSES] * CLASSES, decay)
        self.mean, self.variance = 1 / CLASSES, 1.0

    def confidence(self, row):
        return max(self.uniform.aligned(row))

    def weights(self, found):
        self.uniform.see(found)
        sure = [self.confidence(row) for row in found]
        mean = sum(sure) / len(sure)
        variance = sum((one - mean) ** 2 for one in sure) / (len(sure) - 1)
        self.mean = self.decay * self.mean + (1 - self.decay) * mean
        self.variance = self.decay * self.variance + (1 - self.decay) * variance
        return [self.weight(one) for one in sure]

    def weight(self, sure):
        if sure >= self.mean:
            return 1.0
        spread = self.variance / self.narrowing**2
        return math.exp(-((sure - self.mean) ** 2) / (2 * spread))


def test_weights_are_those_of_a_slow_twin_step_by_step():
    stepper = begun(name="softmatch", memory_decay=0.7, narrowing=3.0)
    twin = Twin(0.7, 3.0)
    spread = []
    for number in range(12):
        items = (number + torch.arange(10)) % NUM_ITEMS
        found = rows(10, seed=number, sharpness=1 + number / 4)
        found[:, 0] += 0.3
        found /= found.sum(dim=1, keepdim=True)
        pseudo = labels_of(stepper, found, items, number)
        expected = twin.weights(found.tolist())
        assert pseudo.keeps.tolist() == pytest.approx(expected, rel=1e-4)
        assert float(pseudo.figures["mean-confidence"]) == pytest.approx(twin.mean)
        assert torch.equal(pseudo.classes, found.argmax(dim=1))  # never the aligned
        spread += expected
    assert min(spread) < 0.7
    assert max(spread) == 1.0


def test_weights_enter_the_loss():
    stepper = begun(name="softmatch")
    stepper.learning.eval()  # so that both passes see the same statistics
    minibatch = stepper.minibatch(0)
    step = stepper.step(0, minibatch)
    labeled, weak, strong = step.outputs("labeled", "weak", "strong")
    loss = stepper.learner.loss(step)
    found = weak.logits.softmax(dim=1).tolist()
    weights = Twin(0.9, 2.0).weights(found)
    logs = strong.logits.log_softmax(dim=1).tolist()
    taught = [-log[row.index(max(row))] for log, row in zip(logs, found, strict=True)]
    unlabeled = sum(w * t for w, t in zip(weights, taught, strict=True)) / len(weights)
    entropy = torch.nn.functional.cross_entropy(labeled.logits, minibatch.labels)
    assert loss.total.item() == pytest.approx(entropy.item() + unlabeled, rel=1e-5)
