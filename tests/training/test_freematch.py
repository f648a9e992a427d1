"""FreeMatch: running means, thresholds and fairness against slow twins."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.conftest import NUM_ITEMS
from tests.training.test_alignment import CLASSES, begun, labels_of, rows

from fewlabels import rng
from fewlabels.training.freematch import fairness_loss


class Twin:
    """The paper's equations, one number after the other."""

    def __init__(self, num_classes, decay):
        self.decay = decay
        self.confidence = 1 / num_classes
        self.predictions = [1 / num_classes] * num_classes
        self.histogram = [1 / num_classes] * num_classes

    def see(self, found):
        best = [row.index(max(row)) for row in found]
        self.confidence = self.mixed(self.confidence, mean(max(r) for r in found))
        for c in range(len(self.predictions)):
            now = mean(row[c] for row in found)
            self.predictions[c] = self.mixed(self.predictions[c], now)
            often = mean(one == c for one in best)
            self.histogram[c] = self.mixed(self.histogram[c], often)

    def mixed(self, past, now):
        return self.decay * past + (1 - self.decay) * now

    def thresholds(self):
        most = max(self.predictions)
        return [self.confidence * one / most for one in self.predictions]


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def slow_fairness(strong, keeps, predictions, histogram):
    """Equations 9, 10 and 12; a class that is never the most probable is left out."""
    kept = [softmax(row) for row, keep in zip(strong, keeps, strict=True) if keep]
    if not kept:
        return 0.0
    best = [row.index(max(row)) for row in kept]
    classes = range(len(predictions))
    means = [sum(row[c] for row in kept) / len(strong) for c in classes]
    shares = [best.count(c) / len(strong) for c in classes]
    wanted, found = ratios(predictions, histogram), ratios(means, shares)
    return sum(w * math.log(f + 1e-12) for w, f in zip(wanted, found, strict=True))


def softmax(logits):
    powers = [math.exp(one) for one in logits]
    return [one / sum(powers) for one in powers]


def ratios(above, below):
    found = [a / b if b else 0.0 for a, b in zip(above, below, strict=True)]
    return [one / sum(found) for one in found]


@pytest.mark.parametrize("name", ["freematch", "freematch-darp"])
def test_thresholds_follow_those_of_a_slow_twin_step_by_step(name):
    stepper = begun(name=name, memory_decay=0.8)
    twin = Twin(CLASSES, 0.8)
    counted = set()
    for number in range(12):
        items = (number + torch.arange(10)) % NUM_ITEMS
        found = rows(10, seed=number, sharpness=1 + number / 4)
        pseudo = labels_of(stepper, found, items, number)
        twin.see(found.tolist())
        least = twin.thresholds()
        expected = [max(r) >= least[r.index(max(r))] for r in found.tolist()]
        assert pseudo.keeps.tolist() == expected
        assert float(pseudo.figures["mean-threshold"]) == pytest.approx(mean(least))
        assert stepper.memory["histogram"].tolist() == pytest.approx(twin.histogram)
        counted.update(expected)
    assert counted == {True, False}


def test_with_darp_refined_rows_are_held_to_the_same_thresholds():
    stepper = begun(name="freematch-darp", warmup=0, capacity=None)
    pseudo = labels_of(stepper, rows(NUM_ITEMS), torch.arange(NUM_ITEMS), 0)
    refined = stepper.memory["refined"]
    least = stepper.learner.thresholds(stepper.memory)
    best = refined.max(dim=1)
    assert torch.equal(pseudo.keeps, best.values >= least[best.indices])
    assert torch.equal(pseudo.classes, best.indices)


@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0, 1))
def test_fairness_is_that_of_a_slow_twin(seed, num_rows, share):
    draws = rng.stream(seed, "fairness")
    strong = 3 * torch.randn(num_rows, 4, generator=draws, dtype=torch.float64)
    keeps = torch.rand(num_rows, generator=draws) < share
    predictions, histogram = torch.rand(2, 4, generator=draws, dtype=torch.float64)
    histogram[0] = 0.0
    found = fairness_loss(strong, keeps, predictions, histogram)
    told = (one.tolist() for one in (strong, keeps, predictions, histogram))
    assert float(found) == pytest.approx(slow_fairness(*told), rel=1e-6, abs=1e-9)


def test_the_loss_is_fixmatchs_and_the_fairness_term():
    stepper = begun(name="freematch", fairness_weight=2.0)
    minibatch = stepper.minibatch(0)
    stepper.learning.eval()  # so that both passes see the same statistics
    step = stepper.step(0, minibatch)
    labeled, weak, strong = step.outputs("labeled", "weak", "strong")
    loss = stepper.learner.loss(step)
    pseudo = weak.logits.softmax(dim=1).max(dim=1)
    least = stepper.learner.thresholds(stepper.memory)
    keeps = pseudo.values >= least[pseudo.indices]
    assert keeps.any()
    entropy = torch.nn.functional.cross_entropy
    taught = entropy(strong.logits, pseudo.indices, reduction="none")
    means = (stepper.memory[name].tolist() for name in ("predictions", "histogram"))
    fair = slow_fairness(strong.logits.tolist(), keeps.tolist(), *means)
    expected = entropy(labeled.logits, minibatch.labels) + (keeps * taught).mean()
    assert loss.total.item() == pytest.approx(expected.item() + 2 * fair, rel=1e-5)
    assert loss.figures["fairness"].item() == pytest.approx(2 * fair, rel=1e-5)
    loss.total.backward()
    assert all(p.grad.isfinite().all() for p in stepper.learning.parameters())
