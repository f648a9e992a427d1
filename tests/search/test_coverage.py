import math

import pytest
import torch

from fewlabels.gram import euclidean_kernel
from fewlabels.rng import stream
from fewlabels.search import coverage, maximize_coverage, pure_radius

NOTHING = torch.empty(0, dtype=torch.int64)


def rows_of(seed, num_items=30):
    return torch.randn(
        num_items, 3, generator=stream(seed, "coverage"), dtype=torch.float64
    )


def gaussian(squares):
    return (-squares).exp()


def value(rows, weights, members, candidates):
    """Σ_x w(x) max_s k(x, s), from the definition."""
    return math.fsum(
        weight * max(math.exp(-(math.dist(rows[x], rows[s]) ** 2)) for s in members)
        for weight, x in zip(weights, candidates, strict=True)
    )


def test_agrees_with_trying_every_item():
    for seed in range(40):
        rows = rows_of(seed, num_items=20)
        weights = torch.rand(15, generator=stream(seed), dtype=torch.float64)
        labeled, candidates = list(range(seed % 4)), list(range(5, 20))
        chosen, share = maximize_coverage(
            euclidean_kernel(rows),
            gaussian,
            weights=weights,
            labeled=torch.tensor(labeled, dtype=torch.int64),
            candidates=torch.tensor(candidates),
            size=4,
            generator=stream(0),
        )
        members = list(labeled)
        for item in chosen.tolist():
            free = [x for x in candidates if x not in members]
            values = {
                x: value(rows.tolist(), weights.tolist(), [*members, x], candidates)
                for x in free
            }
            assert item == max(values, key=values.__getitem__)
            members.append(item)
        total = float(weights.sum())
        assert share == pytest.approx(values[members[-1]] / total)


def test_the_chunk_size_changes_nothing(monkeypatch):
    kernel = euclidean_kernel(rows_of(1, num_items=40))
    clusters = torch.arange(40) % 3

    def found():
        indices, share = maximize_coverage(
            kernel,
            gaussian,
            weights=torch.ones(37, dtype=torch.float64),
            labeled=torch.arange(3),
            candidates=torch.arange(3, 40),
            size=12,
            generator=stream(0),
        )
        radius = pure_radius(kernel, clusters, 0.9)
        return indices.tolist(), pytest.approx(share), pytest.approx(radius)

    whole = found()
    for rows, columns in ((7, 3), (1, 40), (40, 1)):
        monkeypatch.setattr(coverage, "_CHUNK_ROWS", rows)
        monkeypatch.setattr(coverage, "_CHUNK_COLUMNS", columns)
        assert found() == whole


def test_few_items_are_tried_again(monkeypatch):
    tried = []
    own = coverage._LazyGreedy._gains

    def counted(self, places):
        tried.append(len(places))
        return own(self, places)

    monkeypatch.setattr(coverage._LazyGreedy, "_gains", counted)
    monkeypatch.setattr(coverage, "_CHUNK_COLUMNS", 4)
    maximize_coverage(
        euclidean_kernel(5 * rows_of(2, num_items=200)),
        gaussian,
        weights=torch.ones(200, dtype=torch.float64),
        labeled=NOTHING,
        candidates=torch.arange(200),
        size=20,
        generator=stream(0),
    )
    assert 200 <= sum(tried) < 200 * 5  # trying all in every step: 200 * 20


def test_where_nothing_is_gained_the_farthest_follow():
    rows = torch.tensor([[0.0], [0.1], [0.2], [5.0], [3.0]], dtype=torch.float64)
    chosen, share = maximize_coverage(
        euclidean_kernel(rows),
        torch.ones_like,
        weights=torch.ones(4, dtype=torch.float64),
        labeled=torch.tensor([0]),
        candidates=torch.tensor([1, 2, 3, 4]),
        size=3,
        generator=stream(0),
    )
    assert share == 1
    assert chosen.tolist() == [3, 4, 2]


@pytest.mark.parametrize("purity", [0.5, 0.9, 1.0])
def test_no_larger_radius_is_as_pure(purity):
    for seed in range(20):
        rows = rows_of(seed, num_items=21)
        clusters = torch.randint(3, (21,), generator=stream(seed))

        def pure_share(radius, rows=rows, clusters=clusters):
            within = torch.cdist(rows, rows) < radius
            mixed = within & (clusters[:, None] != clusters)
            return float((~mixed.any(dim=1)).double().mean())

        found = pure_radius(euclidean_kernel(rows), clusters, purity)
        assert pure_share(found) >= purity
        assert pure_share(found * (1 + 1e-6)) < purity


def test_an_estimate_finds_nearly_the_same_of_many(monkeypatch):
    draws = stream(3, "many")
    centers = torch.randn(30, 8, generator=draws)
    rows = centers[torch.randint(30, (900,), generator=draws)]
    rows = rows + 0.5 * torch.randn(900, 8, generator=draws)
    given = {
        "weights": torch.rand(890, generator=draws, dtype=torch.float64),
        "labeled": torch.arange(10),
        "candidates": torch.arange(10, 900),
        "size": 12,
    }
    kernel = euclidean_kernel(rows)

    def wide(squares):
        return (-squares / 8).exp()

    exact, share = maximize_coverage(kernel, wide, **given, generator=stream(0))
    for name, number in (("_CHUNK_ROWS", 500), ("_NUM_COMPONENTS", 7)):
        monkeypatch.setattr(coverage, name, number)
    monkeypatch.setattr(coverage, "_NUM_DRAWN", 300)
    found, about = maximize_coverage(
        kernel, wide, **given, generator=stream(0), rows=rows[10:]
    )
    assert len(set(found.tolist())) == 12
    assert len(set(found.tolist()) & set(exact.tolist())) >= 8
    assert about == pytest.approx(share, rel=0.02)
