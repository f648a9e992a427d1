"""Pseudo-labels: the loss against a slow twin, and what counts."""

import math

import pytest
from tests.training.twins import cross_entropy, ramp, rows, taken


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [0, 7, 60])
def test_the_loss_is_that_of_a_slow_twin(seed, number):
    """Lee (2013), Eq. 15, where a prediction counts from a threshold on."""
    found = taken("pseudo-label", seed, number, threshold=0.5, consistency_weight=2.0)
    [one] = found.passes
    labeled, others = rows(one.learned.logits[:4]), rows(one.learned.logits[4:])
    known = found.step.minibatch.labels.tolist()
    sure = [max(row) for row in others if max(row) >= 0.5]
    unlabeled = sum(-math.log(best) for best in sure) / len(others)
    weight = 2 * ramp(number, 0.4)
    expected = cross_entropy(labeled, known) + weight * unlabeled
    assert found.loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert found.loss.figures["kept"].item() == pytest.approx(len(sure) / len(others))


def test_some_count_and_some_do_not():
    kept = [
        float(taken("pseudo-label", seed, threshold=0.5).loss.figures["kept"])
        for seed in range(4)
    ]
    assert 0 < sum(kept) < 4
