import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference

from fewlabels.errors import ShapeError
from fewlabels.gram import (
    eigenvalue_ceiling,
    last_layer_kernel,
    numerical_rank,
    smallest_eigenvalue,
    wide_head_kernel,
)
from fewlabels.rng import stream

SEEDS = st.integers(0, 2**31 - 1)


def normal(seed, *shape):
    return torch.randn(*shape, generator=stream(seed, "test"), dtype=torch.float64)


def value_of(kernel, items):
    items = torch.tensor(items)
    return float(smallest_eigenvalue(kernel.block(items, items)))


def test_last_layer_agrees_with_automatic_differentiation():
    features = normal(0, 7, 4)
    items = torch.arange(7)
    fast = last_layer_kernel(features, num_classes=3).block(items, items)
    torch.testing.assert_close(fast, reference.last_layer_gram(features, 3))


def test_last_layer_without_bias_drops_the_one():
    features = normal(1, 5, 3)
    items = torch.arange(5)
    block = last_layer_kernel(features, 2, bias=False).block(items, items)
    torch.testing.assert_close(block, 2 * features @ features.T)


def test_wide_head_agrees_with_a_wide_network():
    features = normal(2, 6, 5)
    items = torch.arange(6)
    exact = wide_head_kernel(features).block(items, items)
    width = 200_000
    finite = reference.wide_head_gram(features, width, stream(3, "width"))
    torch.testing.assert_close(
        exact, finite, rtol=0, atol=10 * exact.max() / width**0.5
    )


@pytest.mark.parametrize("build", [lambda f: last_layer_kernel(f, 4), wide_head_kernel])
def test_blocks_by_index_and_in_bulk_agree_and_diagonals_fit(build):
    kernel = build(normal(4, 9, 3).float())
    rows, columns = torch.tensor([[1, 2], [5, 0]]), torch.tensor([[3], [8]])
    bulk = kernel.block(rows, columns)
    assert bulk.shape == (2, 2, 1)
    assert bulk.dtype == torch.float64
    for draw in range(2):
        torch.testing.assert_close(bulk[draw], kernel.block(rows[draw], columns[draw]))
    everything = torch.arange(9)
    diagonal = kernel.block(everything, everything).diagonal()
    torch.testing.assert_close(kernel.diagonal(everything), diagonal)
    assert kernel.num_items == 9


def test_two_unit_gradients_give_one_minus_their_product():  # paper, Sec. 3.3
    a, b = 0.8, 0.3
    labeled = [1.0, 0.0]
    near, far = [a, math.sqrt(1 - a**2)], [b, math.sqrt(1 - b**2)]
    features = torch.tensor([labeled, near, far], dtype=torch.float64)
    kernel = last_layer_kernel(features, 1, bias=False)
    assert value_of(kernel, [0, 1]) == pytest.approx(1 - a)
    assert value_of(kernel, [0, 2]) == pytest.approx(1 - b)


@pytest.mark.parametrize("build", [lambda f: last_layer_kernel(f, 4), wide_head_kernel])
def test_copies_give_zero(build):  # paper, Proposition 1
    features = normal(5, 6, 20)
    kernel = build(torch.cat([features, features[2:3]]))
    scale = float(kernel.diagonal(torch.arange(7)).sum())
    assert value_of(kernel, [0, 1, 2, 6]) == pytest.approx(0, abs=1e-13 * scale)
    assert value_of(kernel, [0, 1, 2, 3]) > 1e-3 * scale


def test_distinct_rows_can_be_dependent():  # where Proposition 1's proof is too quick
    features = torch.tensor([[1.0], [2.0], [3.0]])
    assert value_of(last_layer_kernel(features, 1), [0, 1, 2]) == pytest.approx(0)


@given(seed=SEEDS, size=st.integers(2, 8))
def test_adding_an_item_never_raises_the_value(seed, size):  # Cauchy's interlacing
    kernel = last_layer_kernel(normal(seed, size, 6), 3)
    larger = value_of(kernel, list(range(size)))
    smaller = value_of(kernel, list(range(size - 1)))
    assert larger <= smaller + 1e-10


@given(seed=SEEDS)
def test_order_does_not_matter_and_scaling_scales(seed):
    features = normal(seed, 6, 8)
    shuffled = torch.randperm(6, generator=stream(seed, "order")).tolist()
    kernel = last_layer_kernel(features, 2, bias=False)
    scaled = last_layer_kernel(3 * features, 2, bias=False)
    value = value_of(kernel, list(range(6)))
    assert value_of(kernel, shuffled) == pytest.approx(value)
    assert value_of(scaled, list(range(6))) == pytest.approx(9 * value)


def test_rank_is_at_most_features_plus_one():
    features = normal(6, 30, 8)
    items = torch.arange(30)
    kernel = last_layer_kernel(features, 10)
    assert kernel.rank_bound == 9
    assert int(torch.linalg.matrix_rank(kernel.block(items, items))) == 9
    assert value_of(kernel, list(range(10))) == pytest.approx(0, abs=1e-10)
    assert numerical_rank(features) == 9


def test_numerical_rank_sees_dependent_columns():
    features = normal(7, 50, 4)
    repeated = torch.cat([features, features, torch.ones(50, 1)], dim=1)
    assert numerical_rank(repeated) == 5


def test_wide_head_keeps_its_rank_where_the_last_layer_has_none():
    kernel = wide_head_kernel(normal(8, 40, 8))
    assert kernel.rank_bound is None
    assert value_of(kernel, list(range(40))) > 1e-3


@pytest.mark.parametrize("num_labeled", [0, 3])
@given(seed=SEEDS)
def test_no_set_exceeds_the_ceiling(num_labeled, seed):
    kernel = last_layer_kernel(normal(seed, 8, 5), 2)
    labeled, candidates = torch.arange(num_labeled), torch.arange(num_labeled, 8)
    ceiling = eigenvalue_ceiling(kernel, labeled, candidates, 2)
    for i in candidates.tolist():
        for j in range(i + 1, 8):
            assert value_of(kernel, [*labeled.tolist(), i, j]) <= ceiling + 1e-9


def test_normalized_rows_have_length_one():
    features = normal(9, 5, 3)
    for kernel in (
        last_layer_kernel(features, 1, normalize=True),
        wide_head_kernel(features, normalize=True),
    ):
        diagonal = kernel.diagonal(torch.arange(5))
        torch.testing.assert_close(diagonal, diagonal[:1].expand(5))


def test_features_need_two_axes():
    with pytest.raises(
        ShapeError, match=r"features have shape \(4,\); give one row per"
    ):
        last_layer_kernel(torch.zeros(4), 2)
