"""The largest entries of each column, whatever ties there are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.darp import twin

from fewlabels.rng import stream
from fewlabels.training.darp import masking


@given(
    seed=st.integers(0, 2**20),
    num_rows=st.integers(1, 30),
    levels=st.sampled_from([1, 2, 5, 1000]),
    capacity=st.floats(1, 3),
)
def test_agrees_with_sorting(seed, num_rows, levels, capacity):
    generator = stream(seed)
    rows = torch.randint(1, levels + 1, (num_rows, 3), generator=generator) / levels
    target = torch.rand(3, generator=generator).double()
    target *= num_rows / target.sum()
    kept = masking.kept(rows, masking.places(target, capacity, num_rows))
    expected = twin.masked(rows.tolist(), target.tolist(), capacity)
    assert kept.tolist() == expected


def test_rounding_takes_no_place_away():
    target = torch.tensor([4999.9999999, 2.4999, 0.4], dtype=torch.float64)
    assert masking.places(target, 2.0, 50_000) == [10_000, 4, 0]
    assert masking.places(target, 2.0, 6000) == [6000, 4, 0]


def test_an_infinite_capacity_keeps_all():
    target = torch.tensor([1.0, 1.0], dtype=torch.float64)
    rows = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    assert torch.equal(
        masking.kept(rows, masking.places(target, float("inf"), 2)), rows
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_is_kept_and_the_input_left_alone(dtype):
    rows = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=dtype)
    kept = masking.kept(rows, [1, 1])
    assert kept.dtype == dtype
    assert kept.tolist() == [[0.5, 0.0], [0.0, 0.75]]
    assert rows.tolist() == [[0.5, 0.5], [0.25, 0.75]]
