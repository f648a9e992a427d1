from collections import Counter

import pytest
import torch
from tests import reference
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.search.clusters import average_linkage, round_robin
from fewlabels.strategies import ClusterMargin


def chosen_from(features, logits, *, size, seed=0, **options):
    num_items = len(features)
    labels = torch.full((num_items,), UNKNOWN)
    pool = Pool.build(ArrayImages(torch.zeros(num_items, 1)), labels, ["a", "b"])
    known = PrecomputedClassifier(features, logits)
    return contract.chosen_by(ClusterMargin(**options), pool, known, size, seed)


# ----------------------------------------------------------------- the definition


def merged(rows, num_clusters):
    """Sets of rows, merging the two with the smallest mean distance again and again."""
    groups = [[number] for number in range(len(rows))]

    def apart(one, other):
        distances = [float((rows[i] - rows[j]).norm()) for i in one for j in other]
        return sum(distances) / len(distances)

    while len(groups) > num_clusters:
        pairs = [(i, j) for j in range(len(groups)) for i in range(j)]
        i, j = min(pairs, key=lambda pair: apart(groups[pair[0]], groups[pair[1]]))
        groups[i] += groups.pop(j)
    return {frozenset(group) for group in groups}


def as_sets(numbers):
    return {
        frozenset(torch.nonzero(numbers == number).flatten().tolist())
        for number in numbers.unique()
    }


@pytest.mark.parametrize("num_clusters", [1, 3, 9])
def test_average_linkage_agrees_with_its_definition(num_clusters):
    for seed in range(4):
        rows = torch.randn(15, 3, generator=stream(seed, "rows"), dtype=torch.float64)
        found = average_linkage(rows, num_clusters=num_clusters)
        assert as_sets(found) == merged(rows, num_clusters)


def check_by_definition(margins, clusters, candidates, num_uncertain, chosen):
    """Follow the published recipe; which member of a cluster is left to chance."""
    uncertain = sorted(candidates, key=lambda item: margins[item])[:num_uncertain]
    sizes = Counter(clusters[item] for item in uncertain)
    left = {number: sizes[number] for number in sizes}
    assert set(chosen) <= set(uncertain)
    still = [clusters[item] for item in chosen]
    while still:
        in_turn = [number for number in left if left[number]]
        now, still = still[: len(in_turn)], still[len(in_turn) :]
        assert len(set(now)) == len(now)
        assert [sizes[n] for n in now] == sorted(sizes[n] for n in in_turn)[: len(now)]
        for number in now:
            left[number] -= 1


@pytest.mark.parametrize("block", range(2))
def test_agrees_with_the_definition_on_a_hundred_problems(block):
    for seed in range(50 * block, 50 * block + 50):
        pool, classifier = contract.problem(seed, num_labeled=seed % 7)
        size = 1 + seed % 15
        query = contract.chosen_by(
            ClusterMargin(pool_factor=2.0, num_clusters=6), pool, classifier, size
        )
        candidates = pool.candidates.tolist()
        scores = reference.margin_scores(reference.probabilities(classifier.logits))
        numbers = average_linkage(
            classifier.features[pool.candidates].double(), num_clusters=6
        )
        check_by_definition(
            [-score for score in scores],
            dict(zip(candidates, numbers.tolist(), strict=True)),
            candidates,
            2 * size,
            query.indices.tolist(),
        )


def test_every_member_of_a_cluster_is_taken_equally_often():
    features = torch.tensor([[0.0], [0.1], [0.2], [5.0]])
    logits = torch.zeros(4, 2)
    counts = Counter(
        int(chosen_from(features, logits, size=2, seed=seed, num_clusters=2).indices[1])
        for seed in range(300)
    )
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 60  # 100 each on average, and a spread of 8


def test_turns_go_round_until_there_is_enough():
    groups = [torch.tensor([4]), torch.tensor([7, 8, 9])]
    assert round_robin(groups, 3, lambda free: free[:1]).tolist() == [4, 7, 8]


# -------------------------------------------------------------- what others got wrong


def test_two_different_rows_are_two_clusters_no_row_is_broadcast():
    # A known reproduction copies one row over all, which makes a single cluster.
    features = torch.eye(8).repeat_interleave(5, dim=0)
    query = chosen_from(features, torch.zeros(40, 2), size=8, num_clusters=8)
    assert query.record["clusters"] == 8
    assert sorted((query.indices // 5).tolist()) == list(range(8))


def test_the_number_of_clusters_is_not_fixed_at_20():
    features = torch.randn(60, 3, generator=stream(0, "rows"))
    records = [
        chosen_from(features, torch.zeros(60, 2), size=5, **options).record
        for options in ({}, {"num_clusters": 31}, {"distance": 1e9}, {"distance": 0.0})
    ]
    assert [record["clusters"] for record in records] == [6, 31, 1, 60]


# ----------------------------------------------------------------------- large pools


def test_a_part_is_clustered_where_there_are_too_many_and_margins_see_all():
    pool, classifier = contract.problem(3)
    query = contract.chosen_by(
        ClusterMargin(max_pool=20, pool_factor=3.0), pool, classifier
    )
    assert query.record["subsample"] == {
        "considered": 20,
        "out_of": 42,
        "max_pool": 20,
    }
    scores = torch.tensor(
        reference.margin_scores(
            reference.probabilities(classifier.logits[pool.candidates])
        )
    )
    uncertain = pool.candidates[scores.topk(15).indices]
    assert set(query.indices.tolist()) <= set(uncertain.tolist())
    many = contract.chosen_by(ClusterMargin(max_pool=20), pool, classifier, size=30)
    assert len(many) == 30
    assert many.record["subsample"]["considered"] == 30
