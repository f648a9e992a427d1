import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.gram.toy import normal, value_of, whole

from fewlabels.errors import UnknownNameError
from fewlabels.gram import last_layer_kernel, numerical_rank
from fewlabels.rng import stream

SEEDS = st.integers(0, 2**31 - 1)


def test_last_layer_agrees_with_automatic_differentiation():
    features = normal(0, 7, 4)
    fast = whole(last_layer_kernel(features, num_classes=3))
    torch.testing.assert_close(fast, reference.last_layer_gram(features, 3))


def test_last_layer_without_bias_drops_the_one():
    features = normal(1, 5, 3)
    block = whole(last_layer_kernel(features, 2, bias=False))
    torch.testing.assert_close(block, 2 * features @ features.T)


def test_full_blocks_repeat_the_eigenvalues_that_the_trace_multiplies():
    features = normal(2, 5, 6)
    full = torch.linalg.eigvalsh(reference.full_last_layer_gram(features, 3))
    ours = torch.linalg.eigvalsh(whole(last_layer_kernel(features, 3, blocks="full")))
    torch.testing.assert_close(ours.repeat_interleave(3), full)
    trace = torch.linalg.eigvalsh(whole(last_layer_kernel(features, 3)))
    torch.testing.assert_close(trace, 3 * ours)


def test_unknown_form_of_blocks_is_refused():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'trace'\?"):
        last_layer_kernel(torch.zeros(2, 2), 2, blocks="traces")


def test_two_unit_gradients_give_one_minus_their_product():  # paper, Sec. 3.3
    a, b = 0.8, 0.3
    labeled = [1.0, 0.0]
    near, far = [a, math.sqrt(1 - a**2)], [b, math.sqrt(1 - b**2)]
    features = torch.tensor([labeled, near, far], dtype=torch.float64)
    kernel = last_layer_kernel(features, 1, bias=False)
    assert value_of(kernel, [0, 1]) == pytest.approx(1 - a)
    assert value_of(kernel, [0, 2]) == pytest.approx(1 - b)


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
    kernel = last_layer_kernel(features, 10)
    assert kernel.rank_bound == 9
    assert int(torch.linalg.matrix_rank(whole(kernel))) == 9
    assert value_of(kernel, list(range(10))) == pytest.approx(0, abs=1e-10)
    assert numerical_rank(features) == 9
