import math

import pytest
import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.strategies import Coreset


def problem(seed, num_labeled):
    generator = stream(seed, "coreset")
    rows = torch.randn(20 + seed % 20, 4, generator=generator)
    labels = torch.full((len(rows),), UNKNOWN)
    labels[torch.randperm(len(rows), generator=generator)[:num_labeled]] = 0
    pool = Pool.build(ArrayImages(rows), labels, ("a",))
    return pool, PrecomputedClassifier(rows, torch.empty(len(rows), 0))


def twin(rows, labeled, candidates, size):
    """Repeat: the candidate whose nearest member is farthest."""
    members = list(labeled)
    if not members:
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        members.append(min(candidates, key=lambda item: math.dist(rows[item], mean)))
    while len(members) < len(labeled) + size:
        free = [item for item in candidates if item not in members]
        members.append(
            max(free, key=lambda i: min(math.dist(rows[i], rows[m]) for m in members))
        )
    return members[len(labeled) :]


def test_agrees_with_the_definition():
    for seed in range(100):
        pool, classifier = problem(seed, num_labeled=seed % 7)
        query = contract.chosen_by(Coreset(), pool, classifier)
        rows = classifier.features.tolist()
        expected = twin(rows, pool.labeled.tolist(), pool.candidates.tolist(), 5)
        assert query.indices.tolist() == expected


def test_with_nothing_labeled_the_first_is_near_the_mean_and_not_index_zero():
    for seed in range(20):
        pool, classifier = problem(seed, num_labeled=0)
        first = int(contract.chosen_by(Coreset(), pool, classifier, size=1).indices[0])
        rows = classifier.features
        assert first == int((rows - rows.mean(dim=0)).norm(dim=1).argmin())


def test_robust_is_never_worse_and_says_what_it_left_out():
    strategy = Coreset(method="robust", outliers=0.2, max_pool=20)
    for seed in range(5):
        pool, classifier = problem(seed + 15, num_labeled=2)
        record = contract.chosen_by(strategy, pool, classifier).record
        assert record["radius"] <= record["greedy_radius"]
        assert record["outliers"] == 4
        assert record["proven"]
        assert record["subsample"]["considered"] == 20
        assert record["subsample"]["out_of"] == len(pool.candidates)


def test_the_radius_is_a_distance_and_not_its_square():
    rows = torch.tensor([[0.0], [1.0], [2.0], [10.0]])
    pool = Pool.build(
        ArrayImages(rows), torch.tensor([0, UNKNOWN, UNKNOWN, UNKNOWN]), ("a",)
    )
    classifier = PrecomputedClassifier(rows, torch.empty(4, 0))
    for method in ("greedy", "robust"):
        query = contract.chosen_by(Coreset(method=method), pool, classifier, size=1)
        assert query.indices.tolist() == [3]
        assert query.record["radius"] == pytest.approx(2)
