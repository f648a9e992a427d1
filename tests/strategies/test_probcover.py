import math

import pytest
import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.search import coverage
from fewlabels.strategies import ProbCover


def pool_of(rows, labeled):
    labels = torch.full((len(rows),), UNKNOWN)
    labels[labeled] = 0
    pool = Pool.build(ArrayImages(rows), labels, ("a", "b", "c"))
    return pool, PrecomputedClassifier(rows, torch.empty(len(rows), 0))


def problem(seed):
    generator = stream(seed, "probcover")
    rows = torch.randn(20 + seed % 20, 4, generator=generator, dtype=torch.float64)
    labeled = torch.randperm(len(rows), generator=generator)[: seed % 7]
    return pool_of(rows, labeled)


def test_agrees_with_the_graph_of_the_definition():
    for seed in range(100):
        pool, classifier = problem(seed)
        chosen = contract.chosen_by(ProbCover(radius=0.7), pool, classifier).indices
        rows = torch.nn.functional.normalize(classifier.features).tolist()
        members = pool.labeled.tolist()
        for item in chosen.tolist():
            uncovered = [
                x
                for x in pool.candidates.tolist()
                if not any(math.dist(rows[x], rows[s]) < 0.7 for s in members)
            ]
            degrees = {
                x: sum(math.dist(rows[x], rows[y]) < 0.7 for y in uncovered)
                for x in pool.candidates.tolist()
                if x not in members
            }
            if not uncovered:  # farthest first
                degrees = {
                    x: min(math.dist(rows[x], rows[s]) for s in members)
                    for x in degrees
                }
            assert degrees[item] == pytest.approx(max(degrees.values()))
            members.append(item)


@pytest.mark.parametrize("chunk", [5, 10, 64])
def test_tail_rows_are_kept_where_the_pool_is_no_multiple_of_the_chunk(
    chunk, monkeypatch
):
    # The authors' code loops over len // 500 chunks: the last items are never seen.
    monkeypatch.setattr(coverage, "_CHUNK_ROWS", chunk)
    monkeypatch.setattr(coverage, "_CHUNK_COLUMNS", chunk)
    monkeypatch.setattr("fewlabels.search.covering._CHUNK_ROWS", chunk)
    # Thirty items alone, and three together at the very end.
    angles = torch.cat([torch.linspace(0, 3, 30), torch.full((3,), 4.0)]).double()
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    pool, classifier = pool_of(rows, [])
    for seed in range(5):
        query = contract.chosen_by(
            ProbCover(radius=0.05), pool, classifier, size=1, seed=seed
        )
        assert int(query.indices[0]) >= 30
        assert query.record["covered"] == pytest.approx(3 / 33)


def test_when_all_is_covered_new_candidates_come_and_never_a_labeled_one():
    # The authors' code takes the first index then, labeled or not.
    pool, classifier = problem(6)
    assert len(pool.labeled) == 6
    query = contract.chosen_by(
        ProbCover(radius=1.99), pool, classifier, size=len(pool.candidates)
    )
    assert sorted(query.indices.tolist()) == pool.candidates.tolist()
    assert query.record["covered"] == 1
    few = contract.chosen_by(ProbCover(radius=1.99), pool, classifier, size=4)
    assert len(set(few.indices.tolist())) == 4
    assert not set(few.indices.tolist()) & set(pool.labeled.tolist())


def test_the_radius_found_separates_clusters_that_are_apart():
    generator = stream(0, "clusters")
    centers = torch.eye(3, 8, dtype=torch.float64).repeat_interleave(12, dim=0)
    noise = torch.randn(36, 8, generator=generator, dtype=torch.float64)
    pool, classifier = pool_of(centers + 0.02 * noise, [])
    query = contract.chosen_by(ProbCover(), pool, classifier, size=3)
    assert 1.2 < query.record["radius"] < math.sqrt(2)
    assert query.record["covered"] == 1
    assert sorted((query.indices // 12).tolist()) == [0, 1, 2]


def test_clusters_are_classes_or_else_as_many_as_items(monkeypatch):
    asked = []
    own = ProbCover.choose.__globals__["k_means"]

    def listening(rows, num_clusters, generator):
        asked.append(num_clusters)
        return own(rows, num_clusters, generator)

    monkeypatch.setattr("fewlabels.strategies.probcover.k_means", listening)
    pool, classifier = problem(3)
    contract.chosen_by(ProbCover(), pool, classifier, size=5)
    contract.chosen_by(ProbCover(num_clusters=4), pool, classifier, size=5)
    labels = torch.full((len(pool),), UNKNOWN)
    nameless = Pool.build(pool.images, labels, ("only",))
    contract.chosen_by(ProbCover(), nameless, classifier, size=5)
    contract.chosen_by(ProbCover(), nameless, classifier, size=1)
    assert asked == [3, 4, 5, 2]
