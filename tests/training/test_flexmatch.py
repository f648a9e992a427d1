"""FlexMatch: thresholds against a slow twin, with and without DARP."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.conftest import NUM_ITEMS
from tests.training.test_alignment import CLASSES, begun, labels_of, rows

from fewlabels.training.flexmatch import FlexMatch


def slow_thresholds(selected, num_classes, full, warms_up):
    """As the authors' program counts: one class after the other."""
    counted = Counter(selected)
    unused = counted.pop(-1, 0)
    most = max([*counted.values(), unused if warms_up else 0, 1])
    learned = [counted[number] / most for number in range(num_classes)]
    return [full * one / (2 - one) for one in learned]


@given(
    st.lists(st.integers(-1, 4), min_size=1, max_size=60),
    st.sampled_from([0.5, 0.95]),
    st.booleans(),
)
def test_thresholds_are_those_of_a_slow_twin(selected, full, warms_up):
    learner = FlexMatch(threshold=full, threshold_warmup=warms_up)
    found = learner.thresholds(torch.tensor(selected), 5)
    expected = slow_thresholds(selected, 5, full, warms_up)
    assert found.tolist() == pytest.approx(expected)


def test_a_tiny_case_by_hand():
    """Four items of class 0, two of class 1, none of class 2; three never sure."""
    selected = torch.tensor([0, 0, 0, 0, 1, 1, -1, -1, -1])
    found = FlexMatch(threshold=0.9).thresholds(selected, 3)
    assert found.tolist() == pytest.approx([0.9, 0.9 / 3, 0])
    beginning = FlexMatch(threshold=0.9).thresholds(torch.full((9,), -1), 3)
    assert beginning.tolist() == [0, 0, 0]


@pytest.mark.parametrize("darp", ["", "-darp"])
def test_a_step_counts_by_class_and_remembers_who_was_sure(darp):
    stepper = begun(name=f"flexmatch{darp}", threshold=0.6)
    selected = stepper.memory["selected"]
    assert (selected == -1).all()
    items, found = torch.arange(NUM_ITEMS), rows(NUM_ITEMS)
    first = labels_of(stepper, found, items, 0)
    assert first.keeps.all()  # thresholds begin at zero
    confidence, classes = found.max(dim=1)
    sure = confidence >= 0.6
    assert 0 < sure.sum() < NUM_ITEMS
    assert torch.equal(selected, torch.where(sure, classes, -1))
    least = stepper.learner.thresholds(selected, CLASSES)
    other = rows(NUM_ITEMS, seed=1)
    second = labels_of(stepper, other, items, 1)
    expected = other.amax(dim=1) >= least[other.argmax(dim=1)]
    assert torch.equal(second.keeps, expected)
    assert float(second.figures["mean-threshold"]) == pytest.approx(float(least.mean()))
    once_sure = sure & (other.amax(dim=1) < 0.6)
    assert torch.equal(selected[once_sure], classes[once_sure])


def test_with_darp_refined_rows_are_held_to_the_same_thresholds():
    stepper = begun(name="flexmatch-darp", warmup=0, threshold=0.6, capacity=None)
    items = torch.arange(NUM_ITEMS)
    labels_of(stepper, rows(NUM_ITEMS), items, 0)
    least = stepper.learner.thresholds(stepper.memory["selected"], CLASSES)
    pseudo = labels_of(stepper, rows(NUM_ITEMS, seed=1), items, 1)
    refined = stepper.memory["refined"]
    assert torch.equal(pseudo.classes, refined.max(dim=1).indices)
    expected = refined.amax(dim=1) >= least[refined.max(dim=1).indices]
    assert torch.equal(pseudo.keeps, expected)
