from collections import Counter
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests import reference

from fewlabels import search
from fewlabels.errors import BudgetError, ShapeError, UnknownNameError
from fewlabels.gram import last_layer_kernel
from fewlabels.rng import stream
from fewlabels.search import maximize_smallest_eigenvalue, top, uniform_subsets

SEEDS = st.integers(0, 2**31 - 1)


def kernel_of(seed, num_items=30, width=12):
    features = torch.randn(num_items, width, generator=stream(seed, "features"))
    return last_layer_kernel(features, 3)


@given(seed=SEEDS, num_labeled=st.integers(0, 6), size=st.integers(1, 6))
def test_random_search_is_exactly_the_best_of_its_draws(seed, num_labeled, size):
    kernel = kernel_of(seed)
    labeled, candidates = torch.arange(num_labeled), torch.arange(num_labeled, 30)
    draws = uniform_subsets(candidates, size, seed, range(40))
    everything = torch.arange(30)
    expected, value = reference.best_draw(
        kernel.block(everything, everything), labeled, draws
    )
    found = maximize_smallest_eigenvalue(
        kernel,
        labeled=labeled,
        candidates=candidates,
        size=size,
        draws=draws,
        generator=stream(0),
    )
    assert found.indices.tolist() == expected
    assert found.value == pytest.approx(value)
    assert found.value <= found.ceiling + 1e-9
    assert found.num_draws == 40
    assert not found.is_tie


def test_chunks_do_not_change_the_choice(monkeypatch):
    def chosen():
        return maximize_smallest_eigenvalue(
            kernel_of(1),
            labeled=torch.arange(4),
            candidates=torch.arange(4, 30),
            size=5,
            draws=333,
            generator=stream(7),
        ).indices.tolist()

    whole = chosen()
    monkeypatch.setattr(search, "_CHUNK_BYTES", 8 * 9**2 * 10)
    assert chosen() == whole


def test_there_are_as_many_draws_as_candidates_by_default():
    found = maximize_smallest_eigenvalue(
        kernel_of(2),
        labeled=torch.arange(0),
        candidates=torch.arange(10, 30),
        size=2,
        generator=stream(0),
    )
    assert found.num_draws == 20


def test_a_tie_is_seen_where_the_rank_is_too_low():
    found = maximize_smallest_eigenvalue(
        kernel_of(3, width=4),
        labeled=torch.arange(4),
        candidates=torch.arange(4, 30),
        size=6,
        generator=stream(0),
    )
    assert found.is_tie
    assert abs(found.value) < 1e-9


def test_uniform_subsets_are_uniform():
    candidates = torch.tensor([3, 5, 6, 8, 9])
    draws = uniform_subsets(candidates, 3, key=12345, numbers=range(20_000))
    counts = Counter(tuple(sorted(draw)) for draw in draws.tolist())
    assert set(counts) == set(combinations(candidates.tolist(), 3))
    expected = 20_000 / 10
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 27.9  # 99.9 % point with 9 degrees of freedom


@given(seed=SEEDS, cut=st.integers(0, 50))
def test_uniform_subsets_depend_on_the_number_alone(seed, cut):
    candidates = torch.arange(20)
    whole = uniform_subsets(candidates, 4, seed, range(50))
    parts = [
        uniform_subsets(candidates, 4, seed, numbers)
        for numbers in (range(cut), range(cut, 50))
    ]
    assert torch.equal(torch.cat(parts), whole)
    assert all(len(set(draw)) == 4 for draw in whole.tolist())


def test_uniform_subsets_of_everything():
    drawn = uniform_subsets(torch.arange(6), 6, 0, range(3))
    assert drawn.sort(dim=1).values.tolist() == [[0, 1, 2, 3, 4, 5]] * 3


def test_top_takes_the_largest_and_breaks_ties_by_the_generator():
    candidates = torch.tensor([10, 11, 12, 13, 14])
    scores = torch.tensor([0.0, 2.0, 1.0, 1.0, 1.0])
    seen = {
        tuple(top(scores, candidates, 2, stream(seed)).tolist()) for seed in range(60)
    }
    assert seen == {(11, 12), (11, 13), (11, 14)}


@pytest.mark.parametrize("size", [0, 4])
def test_a_size_that_cannot_be_had_is_refused(size):
    with pytest.raises(
        BudgetError, match=f"{size} items are asked for, and there are 3"
    ):
        top(torch.zeros(3), torch.arange(3), size, stream(0))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "gredy"}, UnknownNameError, "no search method called 'gredy'"),
        ({"draws": 0}, BudgetError, "draws is 0; at least one set has to be tried"),
        ({"draws": torch.zeros(3, 5)}, ShapeError, r"draws have shape \(3, 5\)"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        maximize_smallest_eigenvalue(
            kernel_of(4),
            labeled=torch.arange(2),
            candidates=torch.arange(2, 30),
            size=2,
            generator=stream(0),
            **arguments,
        )
