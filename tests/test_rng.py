"""Streams: named, independent, the same everywhere; draws keyed by their number."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.errors import UsageError
from fewlabels.rng import fork, keyed_uniforms, stream

purposes = st.lists(st.one_of(st.text(max_size=8), st.integers(0, 99)), max_size=3)
seeds = st.integers(0, 2**62)

GOLDEN_STREAM = [2122227332, 711324392, 431959273, 483891403]
GOLDEN_FORK = 618420555535523460
GOLDEN_UNIFORMS = [
    [0.5243459416779314, 0.30213903321684277],
    [0.7215081806049702, 0.6497043364684557],
    [0.9923384916157716, 0.7084300671322183],
]


def first_numbers(generator, count=4):
    return torch.randint(2**31, (count,), generator=generator).tolist()


def test_golden_numbers():
    assert first_numbers(stream(0, "query", 3)) == GOLDEN_STREAM
    assert fork(stream(0, "query", 3)) == GOLDEN_FORK
    golden = keyed_uniforms(7, np.array([0, 1, 10**12]), 2)
    np.testing.assert_array_equal(golden, GOLDEN_UNIFORMS)


@given(seed=seeds, purpose=purposes)
def test_the_same_name_gives_the_same_numbers(seed, purpose):
    assert first_numbers(stream(seed, *purpose)) == first_numbers(
        stream(seed, *purpose)
    )


@given(seed=seeds, purpose=purposes, other=purposes)
def test_another_name_gives_other_numbers(seed, purpose, other):
    if purpose != other:
        assert first_numbers(stream(seed, *purpose)) != first_numbers(
            stream(seed, *other)
        )
    assert first_numbers(stream(seed, *purpose)) != first_numbers(
        stream(seed + 1, *purpose)
    )


def test_a_number_and_its_spelling_are_different_names():
    assert first_numbers(stream(0, 1)) != first_numbers(stream(0, "1"))
    assert first_numbers(stream(0, "a", "b")) != first_numbers(stream(0, "ab"))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array, torch.tensor])
def test_a_seed_is_a_number_whichever_library_it_comes_from(kind):
    assert first_numbers(stream(kind(0), "query", kind(3))) == GOLDEN_STREAM


@pytest.mark.parametrize(
    "seed", [False, np.True_, 0.0, "0", None, np.random.default_rng(0)]
)
def test_what_only_looks_like_a_seed_is_refused(seed):
    name = type(seed).__name__
    with pytest.raises(UsageError, match=f"seed is .*, of type {name}; give a whole"):
        stream(seed, "query")


def test_neighboring_streams_are_uncorrelated():
    rows = torch.stack(
        [torch.rand(4000, generator=stream(0, "train", step)) for step in range(20)]
    )
    correlation = torch.corrcoef(rows) - torch.eye(20)
    assert correlation.abs().max() < 0.08  # five standard deviations of 1/sqrt(4000)


@pytest.mark.usefixtures("untouched_randomness")
def test_global_randomness_stays_untouched():
    fork(stream(0, "query"))
    keyed_uniforms(0, np.arange(3), 2)


def test_fork_advances_its_generator():
    generator = stream(0, "query")
    drawn = [fork(generator) for _ in range(100)]
    assert len(set(drawn)) == 100
    assert all(0 <= number < 2**62 for number in drawn)


@given(
    key=seeds,
    numbers=st.lists(st.integers(0, 2**62), min_size=1, max_size=12, unique=True),
    cut=st.integers(0, 12),
    width=st.integers(1, 6),
)
def test_a_draw_depends_on_its_number_only(key, numbers, cut, width):
    numbers = np.array(numbers)
    together = keyed_uniforms(key, numbers, width)
    pieces = [keyed_uniforms(key, part, width) for part in np.split(numbers, [cut])]
    np.testing.assert_array_equal(together, np.concatenate(pieces))
    backwards = keyed_uniforms(key, numbers[::-1], width)
    np.testing.assert_array_equal(together, backwards[::-1])


@given(key=seeds, width=st.integers(1, 5))
def test_a_wider_draw_begins_like_a_narrow_one(key, width):
    numbers = np.arange(5)
    wide = keyed_uniforms(key, numbers, width + 3)
    np.testing.assert_array_equal(wide[:, :width], keyed_uniforms(key, numbers, width))


@given(key=seeds)
def test_uniforms_lie_in_the_unit_interval_and_differ(key):
    numbers = keyed_uniforms(key, np.arange(200), 5)
    assert numbers.shape == (200, 5)
    assert numbers.dtype == np.float64
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert len(np.unique(numbers)) == 1000


@pytest.mark.parametrize("key", [0, 1, 2**62 - 1])
def test_uniforms_are_roughly_uniform_and_uncorrelated(key):
    numbers = keyed_uniforms(key, np.arange(50_000), 4)
    counts = np.stack([np.histogram(c, bins=20, range=(0, 1))[0] for c in numbers.T])
    chi_squared = ((counts - 2500) ** 2 / 2500).sum(axis=1)
    assert chi_squared.max() < 60  # 19 degrees of freedom: mean 19, deviation 6
    correlation = np.corrcoef(numbers.T) - np.eye(4)
    assert np.abs(correlation).max() < 0.025
    serial = np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]
    assert abs(serial) < 0.025


def test_another_key_gives_other_draws():
    numbers = np.arange(20_000)
    one, other = (keyed_uniforms(key, numbers, 1)[:, 0] for key in (5, 6))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.04
    assert not np.intersect1d(one, other).size
