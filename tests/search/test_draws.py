from collections import Counter
from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.search import inputs as draws_module
from fewlabels.search.inputs import (
    ClusterDraws,
    UniformDraws,
    WeightedDraws,
    uniform_subsets,
)

SEEDS = st.integers(0, 2**31 - 1)
KINDS = {
    "uniform": UniformDraws(torch.arange(20), 4, 77),
    "clusters": ClusterDraws(
        (
            torch.arange(8),
            torch.tensor([9]),
            torch.arange(10, 15),
            torch.arange(15, 20),
        ),
        77,
    ),
    "weighted": WeightedDraws(torch.arange(20), torch.linspace(0.01, 1, 20), 4, 77),
}


def test_uniform_subsets_are_uniform():
    candidates = torch.tensor([3, 5, 6, 8, 9])
    draws = uniform_subsets(candidates, 3, key=12345, numbers=range(20_000))
    counts = Counter(tuple(sorted(draw)) for draw in draws.tolist())
    assert set(counts) == set(combinations(candidates.tolist(), 3))
    expected = 20_000 / 10
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 27.9  # 99.9 % point with 9 degrees of freedom


def test_the_top_share_is_hit_unless_every_draw_misses_it():  # paper, Sec. 3.4
    pairs = sorted(combinations(range(10), 2))
    top, num_draws, num_searches = set(pairs[:9]), 5, 2000  # 9 of 45 pairs, r = 0.2
    num_hits = 0
    for key in range(num_searches):
        draws = uniform_subsets(torch.arange(10), 2, key, range(num_draws))
        num_hits += any(tuple(sorted(draw)) in top for draw in draws.tolist())
    chance = 1 - (1 - 0.2) ** num_draws
    error = (chance * (1 - chance) / num_searches) ** 0.5
    assert num_hits / num_searches == pytest.approx(chance, abs=4 * error)
    # The worked number: 1,000 draws miss the best hundredth with 4.3e-5.
    assert pytest.approx(4.3e-5, rel=0.01) == (1 - 0.01) ** 1000


@pytest.mark.parametrize("kind", KINDS)
@given(cut=st.integers(0, 60))
def test_draws_depend_on_their_number_alone(kind, cut):
    draws = KINDS[kind]
    whole = draws.subsets(range(60))
    parts = [draws.subsets(numbers) for numbers in (range(cut), range(cut, 60))]
    assert torch.equal(torch.cat(parts), whole)
    assert whole.shape == (60, 4)
    assert all(len(set(draw)) == 4 for draw in whole.tolist())
    assert set(whole.flatten().tolist()) <= set(draws.items.tolist())


def test_uniform_subsets_of_everything():
    drawn = uniform_subsets(torch.arange(6), 6, 0, range(3))
    assert drawn.sort(dim=1).values.tolist() == [[0, 1, 2, 3, 4, 5]] * 3


def test_weighted_draws_follow_their_weights():
    weights = [0.5, 0.3, 0.15, 0.05]
    draws = WeightedDraws(torch.arange(4), torch.tensor(weights), 2, 5)
    counts = Counter(map(tuple, draws.subsets(range(40_000)).tolist()))
    chi_square = 0.0
    for first, second in permutations(range(4), 2):
        chance = weights[first] * weights[second] / (1 - weights[first])
        expected = 40_000 * chance
        chi_square += (counts[first, second] - expected) ** 2 / expected
    assert chi_square < 31.3  # 99.9 % point with 11 degrees of freedom


def test_weighted_draws_of_everything_end():
    weights = torch.tensor([1.0, 1e-3, 1e-3, 1e-3])
    drawn = WeightedDraws(torch.arange(4), weights, 4, 5).subsets(range(20))
    assert drawn.sort(dim=1).values.tolist() == [[0, 1, 2, 3]] * 20


def test_cluster_draws_take_one_of_each():
    for draw in KINDS["clusters"].subsets(range(50)).tolist():
        assert draw[0] < 8
        assert draw[1] == 9
        assert 10 <= draw[2] < 15 <= draw[3]


def test_weighted_draws_end_where_few_items_weigh_almost_everything():
    weights = torch.full((300,), 1e-6)
    weights[:25] = 1.0
    drawn = WeightedDraws(torch.arange(300), weights, 60, 5).subsets(range(200))
    assert all(len(set(draw)) == 60 for draw in drawn.tolist())
    assert all(set(range(25)) <= set(draw) for draw in drawn.tolist())


def test_the_race_follows_the_weights_too(monkeypatch):
    monkeypatch.setattr(draws_module, "_TURNS", 0)
    test_weighted_draws_follow_their_weights()
