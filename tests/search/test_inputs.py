"""Index arguments of any library mean the same; a kernel that is none is refused."""

import numpy as np
import pytest
import torch

from fewlabels import search
from fewlabels.errors import NotFiniteError, UsageError
from fewlabels.gram import last_layer_kernel
from fewlabels.rng import stream

FEATURES = torch.randn(30, 8, generator=stream(0, "inputs"), dtype=torch.float64)
KERNEL = last_layer_kernel(FEATURES, 2)


def variance(kernel, size, generator, **given):
    posterior = search.Posterior(kernel, references=range(30), noise=0.1, **given)
    return search.minimize_variance(posterior, size=size, generator=generator)[0]


def coverage(kernel, **given):
    weights = torch.ones(25, dtype=torch.float64)
    return search.maximize_coverage(kernel, near, weights=weights, **given)[0]


def near(squares):
    return (-squares / 10).exp()


def means(kernel, *, labeled, **given):
    del labeled
    return search.k_means_plus_plus(kernel, **given)


SEARCHES = {
    "eigenvalue": lambda *a, **k: search.maximize_smallest_eigenvalue(*a, **k).indices,
    "determinant": lambda *a, **k: search.maximize_determinant(*a, **k)[0],
    "variance": variance,
    "coverage": coverage,
    "farthest": lambda *a, **k: search.farthest_first(*a, **k)[0],
    "means": means,
    "radius": lambda *a, **k: search.smallest_radius(*a, num_outliers=1, **k).indices,
}
MASK = np.arange(30) < 5
FORMS = {
    "lists": (list(range(5)), list(range(5, 30))),
    "ranges": (range(5), range(5, 30)),
    "arrays": (np.arange(5, dtype=np.uint8), np.arange(5, 30, dtype=np.int32)),
    "masks": (MASK, ~MASK),
    "mask tensors": (torch.from_numpy(MASK), torch.from_numpy(~MASK)),
    "lists of truth values": (MASK.tolist(), (~MASK).tolist()),
}


def chosen(name, labeled, candidates, kernel=KERNEL):
    given = {"labeled": labeled, "candidates": candidates}
    return SEARCHES[name](kernel, size=3, generator=stream(1), **given).tolist()


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("form", FORMS)
def test_indices_of_any_library_and_masks_mean_the_same(name, form):
    plain = chosen(name, torch.arange(5), torch.arange(5, 30))
    assert chosen(name, *FORMS[form]) == plain


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([5.0, 6.0, 7.0], "float64 .*; give positions"),
        ([[5, 6, 7]], r"candidates is int64 \(1, 3\)"),
        (MASK[:9], "masks 9 items; give all 30"),
        ([5, 6, 30], "candidates run from 5 to 30, but the pool has 30 items"),
        ([5, 6, 6], "only 2 distinct ones"),
        (["a", "b", "c"], "<U1 .*; give positions"),
    ],
)
def test_what_names_no_items_is_a_sentence(name, candidates, message):
    with pytest.raises(UsageError, match=message):
        chosen(name, [0, 1], candidates)


def test_a_size_that_is_no_whole_number_is_a_sentence():
    with pytest.raises(UsageError, match=r"size is 3\.0, of type float"):
        search.farthest_first(
            KERNEL, labeled=[], candidates=range(9), size=3.0, generator=stream(0)
        )


class Table:
    """A kernel that is read from a matrix."""

    rank_bound = None

    def __init__(self, matrix):
        self.matrix, self.num_items = matrix, len(matrix)

    def diagonal(self, items):
        return self.matrix.diagonal()[items]

    def block(self, rows, columns):
        return self.matrix[rows[..., :, None], columns[..., None, :]]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_kernel_with_negative_eigenvalues_is_refused(name):
    matrix = FEATURES @ FEATURES.T - 4 * torch.eye(30, dtype=torch.float64)
    with pytest.raises(UsageError, match=r"not positive semi-definite: .* -4"):
        chosen(name, range(5), range(5, 30), Table(matrix))


@pytest.mark.parametrize("method", ["random", "greedy", "exchange"])
def test_a_negative_value_is_not_returned_either(method):
    matrix = torch.eye(60, dtype=torch.float64)
    matrix[38, 39] = matrix[39, 38] = 2  # not among the items looked at beforehand
    with pytest.raises(UsageError, match="42 items have the eigenvalue -1"):
        search.maximize_smallest_eigenvalue(
            Table(matrix),
            labeled=range(40),
            candidates=range(40, 60),
            size=2,
            method=method,
            generator=stream(0),
        )


def test_a_kernel_in_single_precision_is_no_negative_one():
    rows = FEATURES[:, :3].float()
    matrix = (rows @ rows.T).double()  # of rank 3, so rounding makes it indefinite
    assert float(torch.linalg.eigvalsh(matrix)[0]) < -1e-9
    assert len(chosen("eigenvalue", range(5), range(5, 30), Table(matrix))) == 3


@pytest.mark.parametrize("name", SEARCHES)
def test_a_kernel_that_is_not_finite_is_refused(name):
    matrix = FEATURES @ FEATURES.T
    matrix[5] = torch.nan
    with pytest.raises(NotFiniteError, match=r"NaN or infinite for \d+ of \d+ pairs"):
        chosen(name, range(5), range(5, 30), Table(matrix))


@pytest.mark.parametrize("draws", [[[5, 6], [7, 9]], np.array([[5, 6], [7, 9]])])
def test_draws_may_be_lists_and_arrays(draws):
    given = {"labeled": [0, 1], "candidates": range(2, 30), "size": 2}
    found = search.maximize_smallest_eigenvalue(
        KERNEL, **given, draws=draws, generator=stream(0)
    )
    same = search.maximize_smallest_eigenvalue(
        KERNEL, **given, draws=torch.tensor([[5, 6], [7, 9]]), generator=stream(0)
    )
    assert found.indices.tolist() == same.indices.tolist()


@pytest.mark.parametrize("method", ["greedy", "exchange"])
@pytest.mark.parametrize(
    "option",
    [{"draws": 50}, {"proposal": search.WeightedDraws(*[torch.ones(3)] * 2, 1, 0)}],
)
def test_options_of_the_random_search_are_refused_by_others(method, option):
    with pytest.raises(UsageError, match=rf"{next(iter(option))} would do nothing"):
        search.maximize_smallest_eigenvalue(
            KERNEL,
            labeled=[0],
            candidates=range(1, 30),
            size=2,
            method=method,
            generator=stream(0),
            **option,
        )
