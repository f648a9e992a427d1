"""Mean Teacher: the loss against a slow twin, and who teaches."""

import pytest
import torch
from tests.training.twins import cross_entropy, ramp, rows, squared, taken


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [0, 7, 60])
def test_the_loss_is_that_of_a_slow_twin(seed, number):
    """Tarvainen and Valpola (2017), Sec. 2: J is the squared difference."""
    found = taken("mean-teacher", seed, number, consistency_weight=3.0)
    [one], [taught] = found.passes, found.averaged
    known = found.step.minibatch.labels.tolist()
    apart = squared(rows(one.learned.logits[4:]), rows(taught.learned.logits))
    weight = 3 * ramp(number, 0.4)
    expected = cross_entropy(rows(one.learned.logits[:4]), known) + weight * apart
    assert found.loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert apart > 0


def test_the_teacher_goes_by_its_minibatch_and_is_in_evaluation_mode_again():
    found = taken("mean-teacher")
    [taught], average = found.averaged, found.step.average
    assert not any(module.training for module in average.modules())
    assert not torch.equal(average(taught.inputs).logits, taught.learned.logits)
    average.train()
    assert torch.equal(average(taught.inputs).logits, taught.learned.logits)
