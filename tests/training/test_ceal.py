"""CEAL: the loss and the falling threshold against slow twins."""

import math

import pytest
from tests.training.twins import cross_entropy, rows, taken

from fewlabels.training.ceal import Ceal


def slow_thresholds(first, decay, phases):
    """As the paper has it: each from the one before."""
    found = [first]
    for number in range(1, phases):
        found.append(found[-1] - decay * number)
    return [max(0.0, one) for one in found]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [0, 40, 99])
def test_the_loss_is_that_of_a_slow_twin(seed, number):
    """Wang et al. (2017), Sec. III: cross-entropy of labels and pseudo-labels."""
    options = {"threshold": 0.9, "threshold_decay": 0.05, "consistency_weight": 2.0}
    found = taken("ceal", seed, number, **options)
    [one] = found.passes
    labeled, others = rows(one.learned.logits[:4]), rows(one.learned.logits[4:])
    least = slow_thresholds(0.9, 0.05, 6)[{0: 0, 40: 2, 99: 5}[number]]
    entropies = [-sum(one * math.log(one) for one in row) for row in others]
    pairs = zip(others, entropies, strict=True)
    sure = [max(row) for row, entropy in pairs if entropy < least]
    unlabeled = sum(-math.log(best) for best in sure) / len(others)
    known = found.step.minibatch.labels.tolist()
    expected = cross_entropy(labeled, known) + 2 * unlabeled
    assert found.loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert found.loss.figures["kept"].item() == pytest.approx(len(sure) / len(others))
    assert found.loss.figures["threshold"].item() == pytest.approx(least)


def test_fewer_count_as_the_threshold_falls():
    options = {"threshold": 0.95, "threshold_decay": 0.02}
    kept = [
        sum(
            taken("ceal", seed, number, **options).loss.figures["kept"].item()
            for seed in range(4)
        )
        for number in (0, 99)
    ]
    assert 0 < kept[1] < kept[0]


@pytest.mark.parametrize("num_steps", [6, 7, 600])
def test_thresholds_of_all_steps(num_steps):
    learner = Ceal()
    found = [learner.threshold_at(number, num_steps) for number in range(num_steps)]
    expected = slow_thresholds(0.05, 0.0033, 6)
    assert found[0] == 0.05
    assert found[-1] == pytest.approx(0.0005)
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 6
    for threshold in found:
        assert min(abs(threshold - one) for one in expected) < 1e-12


def test_a_threshold_never_falls_below_zero():
    assert Ceal(phases=9).threshold_at(99, 100) == 0
