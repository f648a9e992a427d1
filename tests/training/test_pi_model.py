"""The Pi-Model: the loss against a slow twin, and whom gradients reach."""

import pytest
import torch
from tests.training.twins import cross_entropy, ramp, rows, squared, taken

from fewlabels.models import as_input
from fewlabels.training import make


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [0, 7, 60])
def test_the_loss_is_that_of_a_slow_twin(seed, number):
    """Laine and Aila (2017), Algorithm 1."""
    found = taken("pi-model", seed, number, consistency_weight=3.0)
    first, second = (one.learned.logits for one in found.passes)
    known = found.step.minibatch.labels.tolist()
    apart = squared(rows(first[4:]), rows(second))
    weight = 3 * ramp(number, 0.4)
    expected = cross_entropy(rows(first[:4]), known) + weight * apart
    assert found.loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert apart > 0


def test_the_student_learns_and_the_teacher_does_not():
    found = taken("pi-model")
    (student, teacher), views = found.passes, found.step.minibatch.views
    assert student.learned.logits.requires_grad
    assert not teacher.learned.logits.requires_grad
    assert torch.equal(teacher.inputs, as_input(views["teacher"]))
    assert not torch.equal(views["teacher"], views["student"])


@pytest.mark.parametrize("preset", ["small", "official"])
def test_frozen_features_have_two_weak_views_so_that_there_is_a_difference(preset):
    assert make("frozen-pi-model", preset=preset).options["weak_views"] == 2
    assert make("frozen-supervised", preset=preset).options["weak_views"] == 1
    given = make("frozen-pi-model", preset=preset, weak_views=3)
    assert given.options["weak_views"] == 3
