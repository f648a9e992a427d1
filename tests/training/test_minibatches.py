"""Minibatches are shuffled passes, and depend on the step alone."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.training.loop import draw_items, oversample


@given(num_items=st.integers(1, 20), size=st.integers(1, 30), key=st.integers(0, 2**62))
def test_every_pass_holds_every_item_once(num_items, size, key):
    indices = torch.arange(num_items) * 3 + 5
    minibatches = [draw_items(indices, size, key, "labels", s) for s in range(12)]
    assert all(len(m) == size for m in minibatches)
    items = torch.cat(minibatches)
    for start in range(0, len(items) - num_items + 1, num_items):
        passed = items[start : start + num_items]
        assert torch.equal(passed.sort().values, indices)


@given(step=st.integers(0, 10**6), size=st.integers(1, 9))
def test_a_step_can_be_repeated_alone(step, size):
    settings = torch.arange(7), size, 11, "a"
    alone = draw_items(*settings, step)
    draw_items(*settings, step + 1)
    assert torch.equal(draw_items(*settings, step), alone)


def test_purposes_and_keys_differ():
    rows = [
        draw_items(torch.arange(50), 50, key, purpose, 0).tolist()
        for key, purpose in [(1, "a"), (2, "a"), (1, "b")]
    ]
    assert rows[0] != rows[1]
    assert rows[0] != rows[2]


@given(labels=st.lists(st.sampled_from([0, 2, 3]), min_size=1, max_size=20))
def test_balanced_items_show_every_class_equally_often(labels):
    classes = torch.tensor(labels)
    indices = torch.arange(len(labels)) + 100
    chosen = oversample(indices, classes)
    counts = torch.bincount(classes[chosen - 100])
    assert set(counts[classes.unique()].tolist()) == {int(classes.bincount().max())}
    assert set(chosen.tolist()) == set(indices.tolist())
    for number in classes.unique():  # within a class, no item is favored by two
        times = torch.bincount(chosen - 100)[classes == number]
        assert times.max() - times.min() <= 1


def test_balanced_labels_stay_as_they_are():
    indices = torch.tensor([9, 4, 7, 1])
    chosen = oversample(indices, torch.tensor([0, 1, 0, 1]))
    assert chosen.tolist() == [9, 7, 4, 1]
