"""The largest entries of each column, whatever ties there are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.darp import twin

from fewlabels.rng import stream
from fewlabels.training.darp import mask


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
    expected = twin.masked(rows.tolist(), target.tolist(), capacity)
    assert mask(rows, target, capacity).tolist() == expected


def test_rounding_takes_no_place_away():
    target = torch.tensor([49.999999999, 2.4999, 0.4], dtype=torch.float64)
    rows = torch.rand(500, 3, generator=stream(0))
    assert (mask(rows, target, 2.0) > 0).sum(dim=0).tolist() == [100, 4, 0]
    assert (mask(rows[:60], target, 2.0) > 0).sum(dim=0).tolist() == [60, 4, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [1, 2])
def test_the_type_is_kept_and_the_input_left_alone(dtype, columns):
    rows = torch.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=dtype)[:, :columns]
    before = rows.tolist()
    kept = mask(rows, torch.ones(columns).double(), 1.0)
    assert kept.dtype == dtype
    assert kept.tolist() == [[0.5, 0.0][:columns], [0.0, 0.75][:columns]]
    assert rows.tolist() == before
