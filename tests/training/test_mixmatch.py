"""MixMatch: the loss against a slow twin, mixtures, and DARP."""

import pytest
import torch
from scipy import stats
from tests.training.twins import (
    cross_entropy,
    mixture_of,
    ramp,
    rows,
    sharpened_slowly,
    squared,
    taken,
)

from fewlabels import rng
from fewlabels.training.mixmatch import mix_up, sharpen


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [7, 60])
def test_the_loss_is_that_of_a_slow_twin(seed, number):
    """Berthelot et al. (2019), Algorithm 1 and Eqs. 2 to 5."""
    options = {"temperature": 0.6, "mixup": 0.5, "consistency_weight": 3.0}
    found = taken("mixmatch", seed, number, **options)
    guesses, mixture = found.passes
    first, second = (rows(part) for part in guesses.learned.logits.split(8))
    guessed = [
        sharpened_slowly([(a + b) / 2 for a, b in zip(*both, strict=True)], 0.6)
        for both in zip(first, second, strict=True)
    ]
    inputs, blended = mixture_of(found, ["weak_0", "weak_1"], guessed, 0.5)
    torch.testing.assert_close(mixture.inputs, inputs)
    said = rows(mixture.learned.logits)
    expected = cross_entropy(said[:4], blended[:4])
    expected += 3 * ramp(number, 0.4) * squared(said[4:], blended[4:])
    assert found.loss.total.item() == pytest.approx(expected, rel=1e-5)
    assert not guesses.learned.logits.requires_grad


def test_shares_follow_a_beta_distribution_and_stay_with_their_item():
    ones = torch.eye(2000)
    _, targets = mix_up(ones, ones, 0.75, rng.stream(0, "mixture"))
    own = targets.diagonal()
    assert (own >= 0.5).all()
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(2000))
    folded = stats.beta(0.75, 0.75)
    test = stats.kstest(own[own < 1].numpy(), lambda x: 2 * folded.cdf(x) - 1)
    assert test.pvalue > 0.01


def test_nothing_is_mixed_on_request():
    inputs, targets = torch.rand(5, 2, 3), torch.eye(5)
    same = mix_up(inputs, targets, 0.0, rng.stream(0, "mixture"))
    assert torch.equal(same[0], inputs)
    assert torch.equal(same[1], targets)


def test_sharpening_of_sure_rows_gives_numbers():
    sure = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(sharpen(sure, 0.01), sure)
    found = sharpen(torch.tensor([[0.5, 0.3, 0.2]]), 0.5)
    assert found[0].tolist() == pytest.approx([0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38])


def test_with_darp_refined_guesses_are_mixed():
    """Memory holds the mean of two predictions; all items end up in even classes."""
    found = taken("mixmatch-darp", number=40, warmup=0.0, mixup=0.0, capacity=None)
    guesses, _ = found.passes
    first, second = guesses.learned.logits.softmax(dim=1).split(8)
    items, memory = found.step.minibatch.items, found.step.memory
    last = {int(item): row for row, item in enumerate(items)}
    for item, row in last.items():
        torch.testing.assert_close(memory["stored"][item], (first + second)[row] / 2)
    assert memory["counts"].tolist() == [1, 0]
    targets = sharpen(memory["refined"][items], 0.5)
    said = rows(found.passes[1].learned.logits)
    expected = squared(said[4:], (targets.tolist() * 2))
    assert found.loss.figures["consistency"].item() == pytest.approx(expected, rel=1e-5)
