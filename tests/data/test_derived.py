import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.data.arrays import array_pool
from fewlabels.data.derived import limit_tests, repeated, resize_images, subset
from fewlabels.data.loading import digits_pool
from fewlabels.errors import DataError, UnknownNameError, UsageError

DIGITS = digits_pool()
EVERY = torch.arange(len(DIGITS))


@given(
    counts=st.lists(st.integers(0, 100), min_size=10, max_size=10).filter(any),
    seed=st.integers(0, 2**31),
)
def test_a_subset_has_the_counts_and_the_right_items(counts, seed):
    pool = subset(DIGITS, counts, seed=seed)
    assert pool.class_counts == tuple(counts)
    at = {name: index for index, name in enumerate(DIGITS.ids)}
    origin = torch.tensor([at[name] for name in pool.ids])
    assert origin.tolist() == sorted(origin.tolist())
    assert torch.equal(pool.labels, DIGITS.labels[origin])
    assert torch.equal(pool.images.read(EVERY[: len(pool)]), DIGITS.images.read(origin))
    assert pool.test is DIGITS.test


def test_counts_by_name_and_by_number_agree():
    by_name = subset(DIGITS, {"0": 5, "9": 2}, seed=3)
    by_number = subset(DIGITS, [5, 0, 0, 0, 0, 0, 0, 0, 0, 2], seed=3)
    assert by_name.ids == by_number.ids
    assert by_name.ids != subset(DIGITS, {"0": 5, "9": 2}, seed=4).ids
    assert set(by_name.ids) < set(subset(DIGITS, {"0": 6, "9": 2}, seed=3).ids)


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ({"4": 9999}, DataError, r"class '4' has \d+ labeled items.*not 9999"),
        ({"ten": 1}, UnknownNameError, "no class called 'ten'"),
        ([1, 2], UsageError, "give 10, one per class"),
        ([0] * 10, UsageError, "one must be above zero"),
        ([-1] * 10, UsageError, "none negative"),
    ],
)
def test_impossible_counts_are_refused(counts, error, message):
    with pytest.raises(error, match=message):
        subset(DIGITS, counts)


def test_exact_copies_are_equal():
    pool = repeated(DIGITS, 3)
    assert len(pool) == 3 * len(DIGITS)
    assert torch.equal(pool.labels, DIGITS.labels.repeat(3))
    for copy in range(3):
        shifted = EVERY[:50] + copy * len(DIGITS)
        assert torch.equal(pool.images.read(shifted), DIGITS.images.read(EVERY[:50]))
        assert pool.ids[copy * len(DIGITS)] == f"{DIGITS.ids[0]}#{copy + 1}"


def test_noise_is_gaussian_of_the_given_size():
    grey = array_pool(np.full((200, 8, 8), 128, np.uint8))
    noisy = repeated(grey, 2, noise=0.1).images.read(torch.arange(400)).double()
    assert abs(noisy.mean() - 128) < 1
    assert abs(noisy.std() / 255 - 0.1) < 0.003
    first, second = noisy[:200], noisy[200:]
    correlation = torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))
    assert abs(correlation[0, 1]) < 0.05


@given(st.lists(st.integers(0, 2 * len(DIGITS) - 1), min_size=1, max_size=8))
def test_noise_does_not_depend_on_what_is_read_beside(indices):
    images = repeated(DIGITS, 2, noise=0.1, seed=5).images
    together = images.read(torch.tensor(indices))
    alone = [images.read(torch.tensor([index])) for index in indices]
    assert torch.equal(together, torch.cat(alone))


def test_another_seed_is_other_noise(untouched_randomness):
    one, other = (repeated(DIGITS, 1, noise=0.1, seed=s).images for s in (0, 1))
    assert not torch.equal(one.read(EVERY[:5]), other.read(EVERY[:5]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": 0}, "times is 0"),
        ({"times": 2, "noise": -0.1}, "noise is -0.1"),
        ({"times": 2, "noise": 25.5}, "noise is 25.5"),
    ],
)
def test_impossible_repetitions_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        repeated(DIGITS, **options)


def test_vectors_have_neither_noise_nor_size():
    pool = array_pool(np.ones((3, 2)))
    assert len(repeated(pool, 2).images.read(torch.arange(6))) == 6
    with pytest.raises(UsageError, match="images only, not vectors"):
        repeated(pool, 2, noise=0.1).images.read(torch.tensor([0]))
    with pytest.raises(UsageError, match="2 features have no size"):
        resize_images(pool, 8)


def test_resizing_keeps_labels_and_the_whole_image():
    pool = resize_images(DIGITS, 16)
    assert pool.images.shape == (1, 16, 16)
    assert pool.test.images.shape == (1, 16, 16)
    assert pool.ids == DIGITS.ids
    small = resize_images(pool, 8)
    difference = small.images.read(EVERY).float() - DIGITS.images.read(EVERY).float()
    assert difference.mean().abs() < 1
    assert resize_images(DIGITS, 8) is DIGITS


def test_parts_of_one_seed_share_no_item():
    pool = digits_pool()
    parts = [subset(pool, [20] * 10, seed=3, part=part) for part in range(4)]
    assert len({name for part in parts for name in part.ids}) == 800
    assert all(part.class_counts == (20,) * 10 for part in parts)
    assert parts[0].ids == subset(pool, [20] * 10, seed=3).ids


def test_a_part_past_the_end_is_refused():
    with pytest.raises(DataError, match=r"at most 9 for part 12"):
        subset(digits_pool(), [20] * 10, part=12)
    with pytest.raises(UsageError, match="part is -1"):
        subset(digits_pool(), [20] * 10, part=-1)


def test_fewer_tests_are_even_and_keep_their_labels():
    pool = limit_tests(digits_pool(), 7, seed=1)
    assert torch.bincount(pool.test.labels).tolist() == [7] * 10
    whole, kept = digits_pool().test, pool.test.images.chosen
    assert torch.equal(whole.labels[kept], pool.test.labels)
    every = torch.arange(len(kept))
    assert torch.equal(whole.images.read(kept), pool.test.images.read(every))


@pytest.mark.parametrize("count", [0, 1000])
def test_impossible_numbers_of_tests_are_refused(count):
    with pytest.raises(UsageError, match=f"tests is {count}; give 1 to"):
        limit_tests(digits_pool(), count)
