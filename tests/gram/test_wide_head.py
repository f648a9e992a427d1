import math
from fractions import Fraction

import pytest
import torch
from tests import reference
from tests.gram.toy import normal, value_of, whole

from fewlabels.gram import wide_head_kernel
from fewlabels.rng import stream


def test_wide_head_agrees_with_a_wide_network():
    features = normal(2, 6, 5)
    exact = whole(wide_head_kernel(features))
    width = 200_000
    finite = reference.wide_head_gram(features, width, stream(3, "width"))
    torch.testing.assert_close(
        exact, finite, rtol=0, atol=10 * exact.max() / width**0.5
    )


def test_wide_head_keeps_its_rank_where_the_last_layer_has_none():
    kernel = wide_head_kernel(normal(8, 40, 8))
    assert kernel.rank_bound is None
    assert value_of(kernel, list(range(40))) > 1e-3


def exact_sine(x, y):
    """|x| |y| sin(angle) over |x| |y|, from sums of exact fractions (Lagrange)."""
    x, y = ([Fraction(v) for v in [*row.tolist(), 1.0]] for row in (x, y))
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    product = sum(a * a for a in x) * sum(b * b for b in y)
    return math.sqrt((product - dot * dot) / product), math.sqrt(product)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("distance", [0.02, 1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("side", [1, -1])
def test_nearly_parallel_rows_keep_their_digits(distance, side, normalize):
    row = 1e14 * normal(9, 30).abs() if side < 0 else normal(9, 30).abs()
    other = side * (row + distance * row.norm() * normal(10, 30) / 30**0.5)
    kernel = wide_head_kernel(torch.stack([row, other]), normalize=normalize)
    sine, lengths = exact_sine(row, other)
    angle = math.asin(sine) if side > 0 else math.pi - math.asin(sine)
    truth = sine / math.pi + 2 * (1 - angle / math.pi) * math.cos(angle)
    scale = 1 if normalize else lengths
    assert whole(kernel)[0, 1] == pytest.approx(scale * truth, abs=3e-15 * scale, rel=0)


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
def test_near_copies_have_the_value_that_their_angle_gives(distance):
    row = normal(11, 50)
    other = row + distance * normal(12, 50)
    sine, lengths = exact_sine(row, other)
    kernel = wide_head_kernel(torch.stack([row, other]), normalize=True)
    gap = 2 - whole(kernel)[0, 1]
    assert float(gap) == pytest.approx(
        math.asin(sine) / math.pi, rel=4 * distance + 1e-6
    )
    assert value_of(kernel, [0, 1]) == pytest.approx(float(gap), abs=1e-15)
    assert lengths > 0


@pytest.mark.parametrize("normalize", [False, True])
def test_equal_rows_give_exactly_the_diagonal(normalize):
    features = normal(13, 20, 40)
    kernel = wide_head_kernel(torch.cat([features, features]), normalize=normalize)
    copies = whole(kernel)[:20, 20:].diagonal()
    assert torch.equal(copies, kernel.diagonal(torch.arange(20)))


def test_many_nearly_parallel_pairs_are_compared_in_parts(monkeypatch):
    features = normal(14, 1, 6) + 1e-9 * normal(15, 9, 6)
    at_once = whole(wide_head_kernel(features))
    monkeypatch.setattr("fewlabels.gram.kernels._CHUNK_NUMBERS", 21)
    assert torch.equal(whole(wide_head_kernel(features)), at_once)
