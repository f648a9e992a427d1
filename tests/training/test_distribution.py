"""Distribution alignment against a slow twin, and at once with every learner."""

import pytest
import torch
from tests.training.conftest import NUM_ITEMS
from tests.training.test_alignment import CLASSES, begun, labels_of, rows

from fewlabels.training import make, names, share_option, targets
from fewlabels.training.alignment import DistributionAlignment

UNEVEN = (0.6, 0.3, 0.1)


class Twin:
    """A running mean, and each row times target over mean."""

    def __init__(self, target, decay):
        self.target, self.decay = target, decay
        self.mean = [1 / len(target)] * len(target)

    def see(self, found):
        now = [sum(column) / len(found) for column in zip(*found, strict=True)]
        both = zip(self.mean, now, strict=True)
        self.mean = [self.decay * past + (1 - self.decay) * new for past, new in both]

    def aligned(self, row):
        parts = zip(row, self.target, self.mean, strict=True)
        scaled = [p * (t + 1e-6) / (m + 1e-6) for p, t, m in parts]
        return [one / sum(scaled) for one in scaled]


@pytest.mark.parametrize("target", ["uniform", UNEVEN])
@pytest.mark.parametrize("name", ["fixmatch-da", "freematch-da"])
def test_pseudo_labels_are_those_of_a_slow_twin_step_by_step(name, target):
    stepper = begun(name=name, target=target, share_decay=0.7)
    twin = Twin([1 / CLASSES] * CLASSES if target == "uniform" else target, 0.7)
    changed = 0
    for number in range(8):
        found = rows(10, seed=number)
        found[:, 0] += 0.5  # the network prefers a class
        found /= found.sum(dim=1, keepdim=True)
        pseudo = labels_of(stepper, found, torch.arange(10), number)
        twin.see(found.tolist())
        expected = torch.tensor([twin.aligned(row) for row in found.tolist()])
        torch.testing.assert_close(pseudo.probabilities, expected)
        assert torch.equal(pseudo.classes, expected.argmax(dim=1))
        changed += int((pseudo.classes != found.argmax(dim=1)).sum())
        if name == "fixmatch-da":
            assert torch.equal(pseudo.keeps, expected.amax(dim=1) >= 0.6)
            kept = (found.amax(dim=1) >= 0.6).float().mean()
            assert pseudo.figures["kept-raw"] == kept
    assert changed > 0


def test_an_estimated_target_becomes_that_of_all_predictions():
    stepper = begun(name="fixmatch-da", target="estimated", share_decay=0.9)
    found = rows(NUM_ITEMS, sharpness=4.0)
    found[:, 0] += 1.0
    found /= found.sum(dim=1, keepdim=True)
    for number in range(300):
        labels_of(stepper, found, torch.arange(NUM_ITEMS), number)
    expected = targets.estimated(found) / NUM_ITEMS
    shares = stepper.memory["class-shares"].double()
    torch.testing.assert_close(shares / shares.sum(), expected, atol=1e-3, rtol=0)


def test_a_target_from_the_labels():
    stepper = begun(name="fixmatch-da", target="labeled")
    pool = stepper.task.pool
    expected = targets.from_labels(pool.labels[pool.labeled], CLASSES, 1)
    assert stepper.memory["class-shares"].tolist() == pytest.approx(expected.tolist())


def test_every_name_is_told_shares_as_with_darp():
    found = [name for name in names() if name.endswith("-da")]
    assert "frozen-fixmatch-da" in found
    for name in found:
        assert share_option(name) == share_option(f"{name}rp")
        told = share_option(name).as_option(UNEVEN)
        assert make(name, **told).alignment == DistributionAlignment(target=UNEVEN)
    assert make("fixmatch-da", preset="official").alignment.share_decay == 0.999
