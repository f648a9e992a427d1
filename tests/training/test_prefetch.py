"""Minibatches made ahead are the same ones, in the same order."""

import threading

import pytest
import torch

from fewlabels.training.loop import prefetch_minibatches


@pytest.mark.parametrize("depth", [0, 1, 3, 20])
def test_order_and_content_do_not_depend_on_the_depth(depth):
    assert list(prefetch_minibatches(lambda step: step * 10, 2, 9, depth)) == [
        20,
        30,
        40,
        50,
        60,
        70,
        80,
    ]


def test_another_thread_makes_them_with_our_number_of_threads():
    before = torch.get_num_threads()
    seen = list(
        prefetch_minibatches(
            lambda _: (threading.get_ident(), torch.get_num_threads()), 0, 4, 2
        )
    )
    assert {threads for _, threads in seen} == {before}
    assert threading.get_ident() not in {thread for thread, _ in seen}


def test_several_threads_make_them_side_by_side():
    together = threading.Barrier(3, timeout=60)

    def make(step):
        if step < 3:
            together.wait()  # which one thread alone could not pass
        return step

    assert list(prefetch_minibatches(make, 0, 6, 3)) == list(range(6))


def test_no_more_than_the_depth_is_made_ahead():
    made = []
    minibatches = prefetch_minibatches(
        lambda step: made.append(step) or step, 0, 100, 3
    )
    assert next(minibatches) == 0
    minibatches.close()
    assert len(made) <= 4


@pytest.mark.parametrize("depth", [0, 2])
def test_a_fault_arrives_at_its_step(depth):
    def make(step):
        if step == 3:
            raise ValueError("image 3 is broken")
        return step

    minibatches = prefetch_minibatches(make, 0, 9, depth)
    assert [next(minibatches) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="image 3"):
        next(minibatches)
