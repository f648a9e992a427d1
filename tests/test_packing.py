"""The statements of docs/theory.md, checked on random problems."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

from fewlabels import gram
from fewlabels.gram.diffusion import Diffusion
from fewlabels.rng import stream
from fewlabels.search import maximize_smallest_eigenvalue

NOISE = 0.01


def features(seed, num_items=14, width=3):
    draws = stream(seed, "packing")
    return torch.randn(num_items, width, generator=draws, dtype=torch.float64)


def gaussian(seed, **size):
    return np.exp(-torch.cdist(*[features(seed, **size)] * 2).square().numpy() / 2)


def diffusion(seed):
    kernel = gram.diffusion_kernel(features(seed), Diffusion(3, rank=10**6))
    items = torch.arange(kernel.num_items)
    return kernel.block(items, items).numpy()


def smallest(matrix, items):
    return np.linalg.eigvalsh(matrix[np.ix_(items, items)])[0]


def left_by(matrix, items):
    """The covariance of all items once some labels are known."""
    known = matrix[np.ix_(items, items)] + NOISE * np.eye(len(items))
    return matrix - matrix[:, items] @ np.linalg.inv(known) @ matrix[items]


@pytest.mark.parametrize("make", [gaussian, diffusion])
def test_1_it_can_only_fall_and_2_it_has_a_ceiling(make):
    for seed in range(20):
        matrix = make(seed)
        order = np.random.default_rng(seed).permutation(len(matrix)).tolist()
        labeled, picks = order[:4], order[4:7]
        value = smallest(matrix, labeled + picks)
        assert value <= smallest(matrix, labeled) + 1e-12
        assert value <= matrix[picks, picks].min() + 1e-12


@pytest.mark.parametrize("make", [gaussian, diffusion])
def test_3_it_is_packing(make):
    for seed in range(20):
        matrix = make(seed)
        picks = np.random.default_rng(seed).permutation(len(matrix))[:5].tolist()
        others = [[i for i in picks if i != item] for item in picks]
        variances = [
            matrix[i, i]
            - matrix[i, rest]
            @ np.linalg.inv(matrix[np.ix_(rest, rest)])
            @ matrix[rest, i]
            for i, rest in zip(picks, others, strict=True)
        ]
        inverse = np.linalg.inv(matrix[np.ix_(picks, picks)])
        assert variances == pytest.approx(1 / np.diag(inverse))
        assert smallest(matrix, picks) <= min(variances) + 1e-12


def test_4_outliers_pack_best():
    group = features(0, num_items=40, width=2)
    chosen = []
    for distance in (0.0, 2.0, 20.0):
        outliers = features(1, num_items=6, width=2)
        angles = torch.arange(6) * math.tau / 6
        outliers += distance * torch.stack([angles.cos(), angles.sin()], dim=1)
        rows = torch.cat([group, outliers])
        matrix = torch.exp(-torch.cdist(rows, rows).square() / 2)
        found = maximize_smallest_eigenvalue(
            gram.euclidean_kernel(torch.linalg.cholesky(matrix + 1e-9 * torch.eye(46))),
            labeled=[],
            candidates=torch.arange(46),
            size=6,
            method="greedy",
            generator=stream(0),
        )
        chosen.append(int((found.indices >= 40).sum()))
    assert chosen == sorted(chosen)
    assert chosen[-1] == 6  # every pick is one


def test_5_some_set_of_few_rows_is_well_conditioned():
    for seed in range(10):
        rows = features(seed, num_items=12, width=6).numpy()
        matrix = rows @ rows.T
        rank = np.trace(matrix) / np.linalg.eigvalsh(matrix)[-1]
        for k in range(1, int(rank) + 1):
            bound = (1 - math.sqrt(k / rank)) ** 2 * np.trace(matrix) / len(matrix)
            best = max(smallest(matrix, list(s)) for s in combinations(range(12), k))
            assert best >= bound


def gains(seed, value):
    """What an item takes away after few picks, and after some more."""
    draws = np.random.default_rng(seed)
    matrix = diffusion(seed)
    v = draws.uniform(0.1, 1, len(matrix)) if seed % 2 else np.ones(len(matrix))
    order = draws.permutation(len(matrix)).tolist()
    few = order[: draws.integers(1, 4)]
    more = few + order[4 : 4 + draws.integers(1, 4)]
    return [
        value(left_by(matrix, some), v) - value(left_by(matrix, [*some, order[-1]]), v)
        for some in (few, more)
    ]


@pytest.mark.parametrize(
    "value",
    [lambda left, v: v @ left @ v, lambda left, v: (v * v * np.diag(left)).sum()],
    ids=["sum", "trace"],
)
def test_6_sum_and_trace_are_submodular(value):
    for seed in range(60):
        before, after = gains(seed, value)
        assert before >= after - 1e-9 >= -2e-9


def test_7_the_largest_eigenvalue_is_not():
    found = [
        gains(seed, lambda left, v: np.linalg.eigvalsh(v[:, None] * left * v)[-1])
        for seed in range(60)
    ]
    assert min(map(min, found)) >= -1e-9  # it never rises
    assert any(after > before + 1e-3 for before, after in found)
