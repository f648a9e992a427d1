import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.gram.toy import normal, value_of

from fewlabels.errors import BudgetError
from fewlabels.gram import (
    eigenvalue_ceiling,
    last_layer_kernel,
    lobpcg_smallest_eigenvalue,
    numerical_rank,
    smallest_eigenvalue,
    spectrum,
)
from fewlabels.rng import stream

SEEDS = st.integers(0, 2**31 - 1)


def with_eigenvalues(seed, values):
    basis = torch.linalg.qr(normal(seed, len(values), len(values))).Q
    return basis @ torch.diag(torch.as_tensor(values, dtype=torch.float64)) @ basis.T


def test_smallest_eigenvalue_of_many_matrices():
    grams = torch.stack(
        [with_eigenvalues(0, [3, 1, 2]), with_eigenvalues(1, [5, 7, 4])]
    )
    torch.testing.assert_close(
        smallest_eigenvalue(grams), torch.tensor([1.0, 4.0], dtype=torch.float64)
    )


def test_spectrum_of_a_regular_matrix():
    found = spectrum(with_eigenvalues(2, [8.0, 0.5, 2.0]))
    assert found.smallest == pytest.approx(0.5)
    assert found.largest == pytest.approx(8)
    assert found.rank == 3
    assert found.condition == pytest.approx(16)
    assert found.step_limit == pytest.approx(0.25)


def test_spectrum_of_singular_matrices():
    found = spectrum(with_eigenvalues(3, [8.0, 0.0, 2.0, 0.0]))
    assert found.rank == 2
    assert found.condition == math.inf
    nothing = spectrum(torch.zeros(2, 2))
    assert nothing.rank == 0
    assert nothing.condition == nothing.step_limit == math.inf


@given(seed=SEEDS, size=st.integers(1, 30))
def test_lobpcg_is_right_or_says_that_it_was_not(seed, size):
    rows = normal(seed, size, 20)
    gram = rows @ rows.T
    value, _ = lobpcg_smallest_eigenvalue(gram, stream(seed, "start"))
    scale = float(gram.diagonal().max())
    assert value == pytest.approx(float(smallest_eigenvalue(gram)), abs=1e-6 * scale)


def test_lobpcg_converges_where_it_can_and_falls_back_where_it_cannot():
    easy = with_eigenvalues(4, [1.0, *range(10, 40)])
    value, is_own = lobpcg_smallest_eigenvalue(easy, stream(0, "start"))
    assert is_own
    assert value == pytest.approx(1, abs=1e-4)
    hard = with_eigenvalues(5, np.geomspace(1e-3, 1e7, 120))
    value, is_own = lobpcg_smallest_eigenvalue(hard, stream(0, "start"))
    assert not is_own or value == pytest.approx(1e-3, abs=10)
    tiny, is_own = lobpcg_smallest_eigenvalue(torch.eye(2), stream(0, "start"))
    assert (tiny, is_own) == (1, False)


@pytest.mark.parametrize("answer", ["another eigenvalue", "no eigenvector"])
def test_a_wrong_answer_of_lobpcg_is_noticed(answer, monkeypatch):
    gram = torch.diag(torch.arange(1.0, 9.0, dtype=torch.float64))
    vector = np.eye(8)[:, [3]] if answer == "another eigenvalue" else np.ones((8, 1))
    monkeypatch.setattr("scipy.sparse.linalg.lobpcg", lambda *_, **__: (None, vector))
    assert lobpcg_smallest_eigenvalue(gram, stream(0, "start")) == (1, False)


def test_lobpcg_gives_the_same_for_the_same_start(untouched_randomness):
    gram = with_eigenvalues(6, range(1, 31))
    pair = [lobpcg_smallest_eigenvalue(gram, stream(3, "start")) for _ in range(2)]
    assert pair[0] == pair[1]


@pytest.mark.parametrize("num_labeled", [0, 3])
@given(seed=SEEDS)
def test_no_set_exceeds_the_ceiling(num_labeled, seed):
    kernel = last_layer_kernel(normal(seed, 8, 5), 2)
    labeled, candidates = torch.arange(num_labeled), torch.arange(num_labeled, 8)
    ceiling = eigenvalue_ceiling(kernel, labeled, candidates, 2)
    for i in candidates.tolist():
        for j in range(i + 1, 8):
            assert value_of(kernel, [*labeled.tolist(), i, j]) <= ceiling + 1e-9


def test_the_ceiling_reads_the_diagonal_in_chunks(monkeypatch):
    kernel = last_layer_kernel(normal(7, 500, 3), 2)
    nobody, candidates = torch.empty(0, dtype=torch.int64), torch.arange(100, 500)
    asked = []

    class Watched:
        def diagonal(self, items):
            asked.append(len(items))
            return kernel.diagonal(items)

    monkeypatch.setattr("fewlabels.gram.spectra._CHUNK_LENGTH", 64)
    ceiling = eigenvalue_ceiling(Watched(), nobody, candidates, 5)
    assert ceiling == sorted(kernel.diagonal(candidates).tolist())[-5]
    assert sum(asked) == 400
    assert max(asked) == 64


def test_the_ceiling_needs_enough_candidates():
    kernel = last_layer_kernel(normal(8, 4, 3), 2)
    with pytest.raises(BudgetError, match="size is 5; give 1 to 3"):
        eigenvalue_ceiling(kernel, torch.tensor([0]), torch.arange(1, 4), 5)


def test_numerical_rank_sees_dependent_columns():
    features = normal(7, 50, 4)
    repeated = torch.cat([features, features, torch.ones(50, 1)], dim=1)
    assert numerical_rank(repeated) == 5


def test_numerical_rank_keeps_nearly_dependent_columns_apart(monkeypatch):
    features = normal(9, 300, 3)
    near = torch.cat([features, features[:, :1] + 1e-10 * normal(10, 300, 1)], dim=1)
    assert numerical_rank(near) == 5
    monkeypatch.setattr("fewlabels.gram.kernels._CHUNK_BYTES", 1000)
    assert numerical_rank(near) == 5
    assert numerical_rank(near.numpy()) == 5
    assert numerical_rank(near[:2]) == 2
