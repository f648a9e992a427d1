"""ReMixMatch: the loss against a slow twin, its memory, turns, and what it refuses."""

import pytest
import torch
from tests.training.conftest import tiny_pool
from tests.training.twins import (
    CLASSES,
    cross_entropy,
    mixture_of,
    ramp,
    rows,
    sharpened_slowly,
    taken,
)

from fewlabels.errors import UsageError
from fewlabels.training import make
from fewlabels.training.remixmatch import ReMixMatch, rotate_quarters

WEIGHTS = {"consistency_weight": 1.2, "anchor_weight": 0.7, "rotation_weight": 0.4}
MIXED = ["strong_0", "strong_1", "weak"]


def aligned_slowly(row, wanted, past):
    scaled = [one * w / p for one, w, p in zip(row, wanted, past, strict=True)]
    return [one / sum(scaled) for one in scaled]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("balances", [True, False])
def test_the_loss_is_that_of_a_slow_twin(seed, balances):
    """Berthelot et al. (2020), Algorithm 1 and Eqs. 3 and 4."""
    options = {"balances_classes": balances, "temperature": 0.6, "mixup": 0.5}
    found = taken("remixmatch", seed, 7, **options, **WEIGHTS)
    first, mixture = found.passes
    weak, anchored, turned = (rows(part) for part in first.learned.logits.split(8))
    assert turned != anchored
    shares = [1 / CLASSES] * CLASSES
    if not balances:
        labels = found.step.task.pool.labels[found.step.task.pool.labeled].tolist()
        shares = [(labels.count(c) + 1) / (len(labels) + CLASSES) for c in range(3)]
    past = [1 / CLASSES] * CLASSES
    guessed = [sharpened_slowly(aligned_slowly(r, shares, past), 0.6) for r in weak]
    inputs, blended = mixture_of(found, MIXED, guessed, 0.5)
    torch.testing.assert_close(mixture.inputs, inputs)
    said = rows(mixture.learned.logits)
    unlabeled = 1.2 * cross_entropy(said[4:], blended[4:])
    unlabeled += 0.7 * cross_entropy(anchored, guessed)
    draws = found.step.stream("quarter turns")
    turns = torch.randint(4, (8,), generator=draws).tolist()
    told = rows(first.learned.heads["rotation"][16:])
    expected = cross_entropy(said[:4], blended[:4]) + ramp(7, 0.4) * unlabeled
    expected += 0.4 * cross_entropy(told, turns)
    assert found.loss.total.item() == pytest.approx(expected, rel=1e-5)


def test_it_remembers_the_mean_prediction_of_the_last_steps():
    found = taken("remixmatch", number=130)
    weak = found.passes[0].learned.logits[:8].softmax(dim=1)
    memory = found.step.memory["predictions"]
    assert memory.shape == (128, CLASSES)
    torch.testing.assert_close(memory[2], weak.mean(dim=0).detach())
    assert (memory[:2] == 1 / CLASSES).all()
    assert (memory[3:] == 1 / CLASSES).all()


def test_guesses_are_divided_by_what_is_remembered():
    found = taken("remixmatch")
    past = torch.tensor([0.2, 0.3, 0.5])
    found.step.memory["predictions"][:] = past
    given = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    guessed = ReMixMatch().pseudo_labels(found.step, given).probabilities
    expected = [aligned_slowly(row, [1, 1, 1], past.tolist()) for row in given.tolist()]
    torch.testing.assert_close(guessed, torch.tensor(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("end", ["-darp", "-da"])
def test_an_alignment_takes_the_place_of_its_own(end):
    found = taken(f"remixmatch{end}")
    found.step.memory["predictions"][:] = torch.tensor([0.2, 0.3, 0.5])
    given = found.passes[0].learned.logits[:8].softmax(dim=1).detach()
    guessed = ReMixMatch().pseudo_labels(found.step, given).probabilities
    expected = found.step.pseudo_labels(given, lambda found: found.amax(dim=1))
    torch.testing.assert_close(guessed, expected.probabilities, atol=0.01, rtol=0)


def test_turns():
    images = torch.arange(4 * 2 * 3 * 3).view(4, 2, 3, 3)
    turned = rotate_quarters(images, torch.arange(4))
    assert torch.equal(turned[0], images[0])
    for row in range(3):
        for column in range(3):
            once, thrice = turned[[1, 3], :, row, column]
            assert torch.equal(once, images[1, :, column, 2 - row])
            assert torch.equal(thrice, images[3, :, 2 - column, row])
    assert torch.equal(turned[2], images[2].flip(1, 2))


@pytest.mark.parametrize("shape", [(5,), (1, 4, 6)])
def test_what_cannot_be_turned_is_refused(shape):
    with pytest.raises(UsageError, match=r"square.*'mixmatch'"):
        make("remixmatch").check(tiny_pool(shape=shape))
