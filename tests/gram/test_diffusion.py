import numpy as np
import pytest
import torch

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.gram import diffusion
from fewlabels.gram.diffusion import Diffusion, diffusion_rows
from fewlabels.rng import stream

EXACT = 10**6


def rows_of(seed, num_items=40):
    return torch.randn(num_items, 3 + seed % 5, generator=stream(seed, "rows"))


def inverse(rows, num_neighbors, damping):
    """The kernel from its definition: all pairs, one by one, and a dense inverse."""
    unit = torch.nn.functional.normalize(rows.double()).float().double().numpy()
    count = len(unit)
    squares = ((unit[:, None] - unit[None]) ** 2).sum(axis=2)
    near = [
        sorted((one for one in range(count) if one != item), key=lambda j: row[j])
        for item, row in enumerate(squares)
    ]
    reach = [squares[i, near[i][num_neighbors - 1]] ** 0.5 for i in range(count)]
    weights = np.zeros((count, count))
    for i in range(count):
        for j in near[i][:num_neighbors]:
            weights[i, j] = weights[j, i] = np.exp(-squares[i, j] / reach[i] / reach[j])
    roots = weights.sum(axis=1) ** 0.5
    return np.linalg.inv(np.eye(count) - damping * weights / roots / roots[:, None])


@pytest.mark.parametrize("block", range(5))
def test_agrees_with_a_dense_inverse_on_fifty_graphs(block):
    for seed in range(10 * block, 10 * block + 10):
        rows, damping = rows_of(seed), (0.99, 0.5)[seed % 2]
        neighbors = 3 + seed % 8
        expected = inverse(rows, neighbors, damping)
        found = diffusion_rows(rows, Diffusion(neighbors, damping, EXACT))
        products = (found.rows @ found.rows.T).numpy()
        scale = np.abs(expected).max()
        assert np.abs(products - expected).max() < 1e-8 * scale
        assert found.remainder == 0
        sums = found.sums.numpy()
        assert np.abs(sums - products.sum(axis=1)).max() < 1e-8 * scale * len(rows)


def test_few_eigenvectors_leave_little_and_more_leave_less():
    rows = rows_of(3, num_items=300)
    whole = diffusion_rows(rows, Diffusion(rank=EXACT))
    exact = whole.rows @ whole.rows.T
    errors = []
    for rank in (20, 60, 150):
        found = diffusion_rows(rows, Diffusion(rank=rank))
        assert found.rows.shape == (300, rank)
        guess = found.rows @ found.rows.T + found.remainder * torch.eye(300)
        errors.append(float((guess - exact).norm() / exact.norm()))
        assert float(found.diagonal.sum()) == pytest.approx(
            float(exact.trace()), rel=0.02
        )
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02


def test_sparse_and_dense_decompositions_agree(monkeypatch):
    rows = rows_of(1, num_items=120)
    whole = diffusion_rows(rows, Diffusion(rank=20))
    monkeypatch.setattr("fewlabels.gram.graph._DENSE", 0)
    monkeypatch.setattr("fewlabels.gram.graph._MOSTLY", 0)
    monkeypatch.setattr(diffusion, "_last", {})
    found = diffusion_rows(rows, Diffusion(rank=20))
    assert (found.rows @ found.rows.T).numpy() == pytest.approx(
        (whole.rows @ whole.rows.T).numpy(),
        abs=1e-5,  # single precision
    )
    assert found.remainder == pytest.approx(whole.remainder)


def test_copies_are_one_node():
    rows = rows_of(2)
    twice = torch.cat([rows, rows[:5]])
    single, double = (
        diffusion_rows(some, Diffusion(rank=EXACT)) for some in (rows, twice)
    )
    products = single.rows @ single.rows.T
    copied = double.rows @ double.rows.T
    assert copied[:40, :40].numpy() == pytest.approx(products.numpy())
    assert torch.equal(double.rows[40:], double.rows[:5])


def test_influence_weighs_items_by_what_they_say_about_the_pool():
    rows = rows_of(4)
    found = diffusion_rows(rows, Diffusion(rank=EXACT))
    kernel = gram.diffusion_kernel(rows, Diffusion(rank=EXACT), weights="influence")
    items = torch.arange(len(rows))
    expected = found.sums.square() / found.diagonal
    assert kernel.diagonal(items).numpy() == pytest.approx(expected.numpy())
    plain = gram.diffusion_kernel(rows, Diffusion(rank=EXACT))
    assert plain.diagonal(items).numpy() == pytest.approx(found.diagonal.numpy())


@pytest.mark.parametrize(
    "options", [{"damping": 1.0}, {"damping": 0.0}, {"rank": 0}, {"num_neighbors": 0}]
)
def test_what_makes_no_kernel_is_refused(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        Diffusion(**options)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_length_does_not_matter(scale):
    rows = rows_of(5)
    found, scaled = (diffusion_rows(some, Diffusion()) for some in (rows, scale * rows))
    assert scaled.diagonal.sort().values.numpy() == pytest.approx(
        found.diagonal.sort().values.numpy(), rel=1e-4
    )


def test_the_same_features_are_decomposed_once(monkeypatch):
    calls = []
    compute = diffusion._compute_rows
    monkeypatch.setattr(
        diffusion, "_compute_rows", lambda *a: calls.append(a) or compute(*a)
    )
    rows = rows_of(6)
    found = diffusion_rows(rows, Diffusion())
    assert diffusion_rows(rows.clone(), Diffusion()) is found
    assert len(calls) == 1
    for other, settings in (
        (rows.flip(0), Diffusion()),  # the same nodes, of other items
        (rows * 2, Diffusion()),
        (rows, Diffusion(num_neighbors=4)),
    ):
        assert diffusion_rows(other, settings) is not found
    assert len(diffusion._last) == 1
