import math

import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.search.clusters import k_means
from fewlabels.strategies import Medoids
from fewlabels.strategies.inputs import unit_rows


def nearest_to_the_middle(rows, members):
    middle = [
        sum(column) / len(members)
        for column in zip(*(rows[i] for i in members), strict=True)
    ]
    return min(math.dist(rows[i], middle) for i in members), middle


def test_agrees_with_the_definition_on_a_hundred_problems():
    for seed in range(100):
        pool, classifier = contract.problem(seed, num_labeled=seed % 5)
        items = torch.cat([pool.labeled, pool.candidates])
        size, labeled = 1 + seed % 9, set(pool.labeled.tolist())
        num_clusters = min(len(labeled) + size, 6)
        unit = unit_rows(classifier.features[items])
        numbers = k_means(unit, num_clusters, stream(0, "query")).tolist()
        rows = dict(zip(items.tolist(), unit.tolist(), strict=True))
        clusters = [
            [item for item, one in zip(rows, numbers, strict=True) if one == number]
            for number in range(num_clusters)
        ]
        clusters.sort(key=lambda one: (len(labeled & set(one)), -len(one)))
        free = [[item for item in one if item not in labeled] for one in clusters]
        query = contract.chosen_by(Medoids(max_clusters=6), pool, classifier, size)
        chosen = query.indices.tolist()
        while chosen:
            for members in free:
                if members and chosen:
                    least, middle = nearest_to_the_middle(rows, members)
                    item = chosen.pop(0)
                    assert item in members
                    assert math.dist(rows[item], middle) <= least + 1e-6
                    members.remove(item)


def test_small_clusters_count():
    axes = torch.eye(3).repeat_interleave(torch.tensor([30, 20, 4]), dim=0)
    rows = axes + 0.01 * torch.rand(54, 3, generator=stream(1, "cones"))
    pool = Pool.build(ArrayImages(rows), torch.full((54,), UNKNOWN), "abc")
    classifier = PrecomputedClassifier(rows, torch.zeros(54, 3))
    query = contract.chosen_by(Medoids(), pool, classifier, size=3)
    assert [int(axes[item].argmax()) for item in query.indices] == [0, 1, 2]
