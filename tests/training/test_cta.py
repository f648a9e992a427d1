"""CTAugment: rates and weights against slow twins; strong views by hand."""

import pytest
import torch
from tests.training.test_alignment import begun

from fewlabels import rng
from fewlabels.data.augment import OPERATIONS
from fewlabels.models import as_input
from fewlabels.training.cta import (
    NUM_BINS,
    Policy,
    draw_learned_policy,
    draw_policy,
)

IMAGES = torch.randint(
    256, (40, 3, 8, 8), generator=rng.stream(0, "images"), dtype=torch.uint8
)


class Twin:
    """Rates as the official code keeps them, one number after the other."""

    def __init__(self, decay, least):
        self.decay, self.least = decay, least
        self.rates = {name: [1.0] * NUM_BINS for name in OPERATIONS}

    def weights(self, name):
        raised = [rate + 1 - self.decay for rate in self.rates[name]]
        shares = [one / max(raised) for one in raised]
        return [one if one >= self.least else 0.0 for one in shares]

    def see(self, policy, proximity):
        for name, strength in policy:
            place = int(strength * NUM_BINS)
            old = self.rates[name][place]
            self.rates[name][place] = old * self.decay + proximity * (1 - self.decay)


def test_rates_and_weights_are_those_of_a_slow_twin_step_by_step():
    """The averaged network's answers for labeled views, changed as the step drew."""
    stepper = begun(name="fixmatch-cta", rate_decay=0.5, least_rate=0.7)
    learner, twin = stepper.learner, Twin(0.5, 0.7)
    for number in range(10):
        minibatch = stepper.minibatch(number)
        step = stepper.step(number, minibatch)
        draws = step.stream("probes")
        operations, strengths = draw_policy(4, 2, draws)
        images = minibatch.views["labeled"]
        probes = Policy(operations, strengths).apply(images, 0.0, draws)
        with torch.no_grad():
            logits = step.average(as_input(probes)).logits
        stepper.advance(number, minibatch)
        for row, label, names_of, sizes in zip(
            logits.softmax(dim=1).tolist(),
            minibatch.labels.tolist(),
            operations.tolist(),
            strengths.tolist(),
            strict=True,
        ):
            far = sum(abs(p - (c == label)) for c, p in enumerate(row))
            told = [OPERATIONS[one] for one in names_of]
            twin.see(list(zip(told, sizes, strict=True)), 1 - 0.5 * far)
    rates = stepper.memory["rates"]
    weights = learner.weights(rates)
    for number, name in enumerate(OPERATIONS):
        assert rates[number].tolist() == pytest.approx(twin.rates[name])
        assert weights[number].tolist() == pytest.approx(twin.weights(name))
    assert (weights == 0).any()
    assert (weights > 0).any(dim=1).all()


def test_strong_views_are_those_that_were_drawn():
    stepper = begun(name="fixmatch-cta")
    seen = []
    stepper.learning.register_forward_hook(lambda _, args, __: seen.append(args[0]))
    minibatch = stepper.minibatch(3)
    step = stepper.step(3, minibatch)
    draws = step.stream("learned operations")
    weights = stepper.learner.weights(stepper.memory["rates"])
    policy = draw_learned_policy(8, 2, weights, draws)
    expected = policy.apply(minibatch.views["strong"], 0.25, draws)
    stepper.learner.loss(step)
    assert torch.equal(seen[0][-8:], as_input(expected))
    assert torch.equal(seen[0][4:12], as_input(minibatch.views["weak"]))
    assert not torch.equal(expected, minibatch.views["strong"])


def test_strengths_are_drawn_by_their_weights():
    weights = torch.zeros(len(OPERATIONS), NUM_BINS, dtype=torch.float64)
    weights[:, 3], weights[:, 16] = 1.0, 3.0
    policy = draw_learned_policy(4000, 2, weights, rng.stream(0, "draws"))
    assert set(policy.bins.unique().tolist()) == {3, 16}
    assert float((policy.bins == 16).double().mean()) == pytest.approx(0.75, abs=0.02)
    counts = torch.bincount(policy.operations.flatten())
    assert len(counts) == len(OPERATIONS)
    assert counts.min() > 8000 / len(OPERATIONS) * 0.8
    within = policy.strengths * NUM_BINS - policy.bins
    assert 0 <= within.min() < 0.01 < 0.99 < within.max() < 1


@pytest.mark.parametrize("name", ["rotate", "shear-x", "translate-y"])
def test_the_middle_of_a_direction_changes_nothing_and_both_ends_differ(name):
    place = OPERATIONS.index(name)

    def with_strength(strength):
        operations = torch.full((40, 1), place)
        strengths = torch.full((40, 1), strength, dtype=torch.float64)
        policy = Policy(operations, strengths)
        return policy.apply(IMAGES, 0.0, rng.stream(0, "cutout"))

    assert torch.equal(with_strength(0.5), IMAGES)
    ends = with_strength(0.0), with_strength(0.999)
    assert not torch.equal(*ends)
    assert all(not torch.equal(end, IMAGES) for end in ends)


def test_brightness_goes_from_dark_to_bright_and_cutout_covers():
    place = OPERATIONS.index("brightness")
    operations, draws = torch.full((40, 1), place), rng.stream(0, "cutout")
    strengths = torch.linspace(0, 0.999, 40, dtype=torch.float64)[:, None]
    found = Policy(operations, strengths).apply(IMAGES, 0.0, draws).double()
    ratio = found.mean(dim=(1, 2, 3)) / IMAGES.double().mean(dim=(1, 2, 3))
    assert ratio[0] == pytest.approx(0.05, abs=0.02)
    assert ratio[-1] == pytest.approx(0.95, abs=0.02)
    still = Policy(torch.zeros_like(operations), strengths)  # identity
    covered = still.apply(IMAGES, 0.5, draws)
    assert torch.equal(still.apply(IMAGES, 0.0, draws), IMAGES)
    assert ((covered == IMAGES) | (covered == 127)).all()
    assert (covered != IMAGES).flatten(1).any(dim=1).all()
