import itertools
import math

import pytest
import torch
from scipy import stats

from fewlabels.errors import BudgetError
from fewlabels.gram import euclidean_kernel, wide_head_kernel
from fewlabels.rng import stream
from fewlabels.search import (
    covering,
    farthest_first,
    k_means_plus_plus,
    smallest_distance,
)


def rows_of(seed, num_items=30, num_features=4):
    generator = stream(seed, "covering")
    return torch.randn(
        num_items, num_features, generator=generator, dtype=torch.float64
    )


def slow_farthest_first(rows, labeled, candidates, size):
    """Farthest-first from the definition, item by item; also the radius."""
    members, free = list(labeled), list(candidates)
    mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    if not members:
        members.append(min(free, key=lambda item: math.dist(rows[item], mean)))

    def distance(item):
        return min(math.dist(rows[item], rows[member]) for member in members)

    while len(members) < len(labeled) + size:
        members.append(
            max((item for item in free if item not in members), key=distance)
        )
    return members[len(labeled) :], max(map(distance, free))


def test_farthest_first_agrees_with_the_definition():
    for seed in range(100):
        rows = rows_of(seed, num_items=20 + seed % 20)
        num_labeled = seed % 6
        order = torch.randperm(len(rows), generator=stream(seed))
        labeled, candidates = order[:num_labeled], order[num_labeled:-3]
        chosen, radius = farthest_first(
            euclidean_kernel(rows),
            labeled=labeled,
            candidates=candidates,
            size=5,
            generator=stream(0),
        )
        expected, expected_radius = slow_farthest_first(
            rows.tolist(), labeled.tolist(), candidates.tolist(), 5
        )
        assert chosen.tolist() == expected
        assert radius == pytest.approx(expected_radius)


def slow_k_means_plus_plus(rows, candidates, size, generator):
    """Arthur and Vassilvitskii's seeding, with the same draws as the fast one."""
    chosen = [int(torch.randint(len(candidates), (1,), generator=generator))]
    while len(chosen) < size:
        weights = [
            0.0
            if position in chosen
            else min(math.dist(rows[item], rows[candidates[c]]) for c in chosen) ** 2
            for position, item in enumerate(candidates)
        ]
        aim = float(torch.rand(1, generator=generator, dtype=torch.float64))
        aim *= math.fsum(weights)
        sums = list(itertools.accumulate(weights))
        chosen.append(next(place for place, until in enumerate(sums) if until > aim))
    return [candidates[position] for position in chosen]


def test_k_means_plus_plus_agrees_with_the_definition():
    for seed in range(100):
        rows = rows_of(seed)
        candidates = torch.arange(3, 30)
        chosen = k_means_plus_plus(
            euclidean_kernel(rows), candidates=candidates, size=6, generator=stream(1)
        )
        expected = slow_k_means_plus_plus(
            rows.tolist(), candidates.tolist(), 6, stream(1)
        )
        assert chosen.tolist() == expected


def test_chances_are_squared_distances_and_nothing_else():
    # Items on a line; the second center, given the first. A wrong power of the
    # distance is told apart by the same number of draws.
    places = [0.0, 1.0, 2.0, 4.0]
    kernel = euclidean_kernel(torch.tensor(places)[:, None])
    counts = torch.zeros(4, 4, dtype=torch.float64)
    generator = stream(0, "many")
    for _ in range(1000):
        first, second = k_means_plus_plus(
            kernel, candidates=torch.arange(4), size=2, generator=generator
        ).tolist()
        counts[first, second] += 1

    def is_plausible(power):
        weights = torch.tensor([[abs(a - b) ** power for b in places] for a in places])
        chances = (weights / weights.sum(dim=1, keepdim=True)).double()
        off_diagonal = ~torch.eye(4, dtype=torch.bool)
        expected = 250 * chances[off_diagonal]
        expected *= 1000 / expected.sum()
        return stats.chisquare(counts[off_diagonal], expected).pvalue > 1e-3

    assert float(counts.diagonal().sum()) == 0
    assert [is_plausible(power) for power in (1, 2, 4)] == [False, True, False]


def test_the_largest_comes_first_if_wanted():
    rows = rows_of(0)
    kernel = wide_head_kernel(rows)
    longest = int(kernel.diagonal(torch.arange(30)).argmax())
    for seed in range(5):
        chosen = k_means_plus_plus(
            kernel,
            candidates=torch.arange(30),
            size=4,
            generator=stream(seed),
            first="largest",
        )
        assert int(chosen[0]) == longest


def test_the_chunk_size_changes_nothing(monkeypatch):
    kernel = euclidean_kernel(rows_of(1, num_items=50).float())
    labeled, candidates = torch.arange(7), torch.arange(7, 50)

    def both():
        spread, radius = farthest_first(
            kernel, labeled=labeled, candidates=candidates, size=9, generator=stream(0)
        )
        drawn = k_means_plus_plus(
            kernel, candidates=candidates, size=9, generator=stream(0)
        )
        return spread.tolist(), drawn.tolist(), pytest.approx(radius)

    whole = both()
    for rows, columns in ((1, 1), (4, 3), (43, 7)):
        monkeypatch.setattr(covering, "_CHUNK_ROWS", rows)
        monkeypatch.setattr(covering, "_CHUNK_COLUMNS", columns)
        assert both() == whole


def test_copies_are_distinct_items_and_chosen_at_random():
    kernel = euclidean_kernel(1e3 + rows_of(2, num_items=3).repeat(4, 1))
    everything = torch.arange(12)
    seen = set()
    for seed in range(5):
        spread, radius = farthest_first(
            kernel,
            labeled=torch.empty(0, dtype=torch.int64),
            candidates=everything,
            size=8,
            generator=stream(seed),
        )
        drawn = k_means_plus_plus(
            kernel, candidates=everything, size=12, generator=stream(seed)
        )
        assert radius == 0
        assert len(set((spread[:3] % 3).tolist())) == 3
        assert len(set((drawn[:3] % 3).tolist())) == 3
        assert len(set(spread.tolist())) == 8
        assert sorted(drawn.tolist()) == everything.tolist()
        seen.add((tuple(spread.tolist()), tuple(drawn.tolist())))
    assert len(seen) == 5


def test_a_draw_rounded_up_to_the_sum_does_not_repeat_the_last_item(monkeypatch):
    almost_one = torch.tensor([1.0], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: almost_one)
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([3]))
    kernel = euclidean_kernel(torch.tensor([[0.0], [1.0], [5.0], [7.0]]))
    drawn = k_means_plus_plus(
        kernel, candidates=torch.arange(4), size=3, generator=stream(0)
    )
    assert drawn.tolist() == [3, 2, 1]


def test_the_smallest_distance_passes_over_copies():
    rows = torch.tensor([[0.0], [0.0], [3.0], [5.0], [1e-3]])
    kernel = euclidean_kernel(rows)
    assert smallest_distance(kernel, torch.arange(4)) == pytest.approx(2)
    assert smallest_distance(kernel, torch.arange(5)) == pytest.approx(1e-3)
    assert smallest_distance(kernel, torch.arange(2)) is None
    assert smallest_distance(kernel, torch.arange(0)) is None


def test_more_than_there_is_is_refused():
    kernel = euclidean_kernel(rows_of(0))
    with pytest.raises(BudgetError, match="6 items are asked for, and there are 5"):
        k_means_plus_plus(
            kernel, candidates=torch.arange(5), size=6, generator=stream(0)
        )
