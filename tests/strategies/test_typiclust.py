from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.search import clusters as grouping
from fewlabels.strategies import TypiClust
from fewlabels.strategies.inputs import unit_rows


def a_pool(num_items, labeled=()):
    labels = torch.full((num_items,), UNKNOWN)
    labels[list(labeled)] = 0
    return Pool.build(ArrayImages(torch.zeros(num_items, 1)), labels, ["a", "b"])


def chosen_from(features, labeled=(), *, size, seed=0, **options):
    features = torch.as_tensor(features)
    known = PrecomputedClassifier(features, torch.zeros(len(features), 2))
    pool = a_pool(len(features), labeled)
    return contract.chosen_by(TypiClust(**options), pool, known, size, seed)


# ----------------------------------------------------------------- the definition


def mean_distance(rows, item, members, power=1):
    """Mean distance from one member to the nearest half of the others, at most 20."""
    others = [other for other in members if other != item]
    lengths = sorted(np.linalg.norm(rows[item] - rows[other]) for other in others)
    return np.mean(np.array(lengths[: min(20, len(members) // 2)]) ** power)


def check_by_definition(rows, labeled, candidates, clusters, chosen):
    """Follow the published recipe, given the cluster of each item.

    The two members of a pair are equally typical: either may be chosen.
    """
    table = []
    for number in sorted(set(clusters.values())):
        members = [item for item in clusters if clusters[item] == number]
        num_labels = sum(item in labeled for item in members)
        table.append((num_labels, -len(members), number))
    large = [row for row in table if row[1] < -5]
    if sum(-row[1] - row[0] for row in large) >= len(chosen):
        table = large
    left = {
        number: [item for item in candidates if clusters[item] == number]
        for _, _, number in sorted(table)
    }
    still = list(chosen)
    while still:
        for members in left.values():
            if members and still:
                item = still.pop(0)
                assert item in members
                if len(members) > 1:
                    distances = [mean_distance(rows, one, members) for one in members]
                    own = mean_distance(rows, item, members)
                    assert own == pytest.approx(min(distances), abs=1e-6)
                members.remove(item)


@pytest.mark.parametrize("block", range(4))
def test_agrees_with_the_definition_on_a_hundred_problems(block):
    for seed in range(25 * block, 25 * block + 25):
        pool, classifier = contract.problem(seed, num_labeled=seed % 7)
        rows = torch.nn.functional.normalize(classifier.features.double()).numpy()
        items = torch.cat([pool.labeled, pool.candidates])
        size = 1 + seed % 12
        numbers = grouping.k_means(
            unit_rows(classifier.features[items]),
            min(len(pool.labeled) + size, 6),
            stream(0, "query"),
        )
        query = contract.chosen_by(TypiClust(max_clusters=6), pool, classifier, size)
        check_by_definition(
            rows,
            set(pool.labeled.tolist()),
            pool.candidates.tolist(),
            dict(zip(items.tolist(), numbers.tolist(), strict=True)),
            query.indices.tolist(),
        )


def test_covered_clusters_come_last_and_large_ones_first():
    # Three directions with 30, 20 and 10 items; the largest has a label already.
    generator = stream(0, "cones")
    axes = torch.eye(3).repeat_interleave(torch.tensor([30, 20, 10]), dim=0)
    rows = axes + 0.05 * torch.rand(60, 3, generator=generator)
    query = chosen_from(rows, labeled=[0], size=2)
    assert 30 <= int(query.indices[0]) < 50
    assert int(query.indices[1]) >= 50
    assert query.record == {"clusters": 3, "clusters_used": 3}


def test_small_clusters_are_left_out_while_others_are_enough():
    generator = stream(1, "cones")
    axes = torch.eye(3).repeat_interleave(torch.tensor([30, 20, 4]), dim=0)
    rows = axes + 0.01 * torch.rand(54, 3, generator=generator)
    query = chosen_from(rows, size=3)
    assert int(query.indices.max()) < 50
    assert query.record == {"clusters": 3, "clusters_used": 2}
    assert sorted(chosen_from(rows, size=54).indices.tolist()) == list(range(54))


def test_length_does_not_matter():
    pool, classifier = contract.problem(5)
    lengths = 1 + 9 * torch.rand(60, 1, generator=stream(0, "lengths"))
    longer = replace(classifier, features=classifier.features * lengths)
    one, other = (
        contract.chosen_by(TypiClust(), pool, known) for known in (classifier, longer)
    )
    assert torch.equal(one.indices, other.indices)


# -------------------------------------------------------------- what others got wrong


@pytest.mark.parametrize("num_distinct", [1, 2, 7])
@pytest.mark.parametrize("size", [1, 10, 35])
def test_duplicates_scikit_activeml_451(num_distinct, size):
    rows = torch.randn(num_distinct, 4, generator=stream(num_distinct, "rows"))
    copies = rows.repeat(40 // num_distinct + 1, 1)[:40]
    for seed in range(3):
        chosen = chosen_from(copies, [0, 1, 2], size=size, seed=seed).indices.tolist()
        assert len(set(chosen)) == size
        assert not {0, 1, 2} & set(chosen)


def test_a_choice_among_copies_is_random():
    copies = torch.ones(40, 3)
    chosen = {int(chosen_from(copies, size=1, seed=seed).indices) for seed in range(5)}
    assert len(chosen) > 1


def test_distances_are_euclidean_not_squared():
    # One cluster on an arc; half of six neighbors count.
    found = 0
    for seed in range(200):
        angles = torch.rand(6, generator=stream(seed, "arc"), dtype=torch.float64)
        rows = torch.stack([angles.cos(), angles.sin()], dim=1)
        plain, squared = (
            min(range(6), key=lambda i: mean_distance(rows.numpy(), i, range(6), power))
            for power in (1, 2)
        )
        if plain != squared:
            found += 1
            query = chosen_from(rows, size=1, max_clusters=1)
            assert query.indices.tolist() == [plain]
    assert found >= 5


def test_the_seed_reaches_the_clusters_scikit_activeml_503():
    pool, classifier = contract.problem(4)
    chosen = [
        contract.chosen_by(TypiClust(), pool, classifier, 10, seed).indices.tolist()
        for seed in (0, 0, 1, 2, 3)
    ]
    assert chosen[0] == chosen[1]
    assert len(set(map(tuple, chosen))) > 1


# ----------------------------------------------------------------------- large pools


def test_clusters_of_a_part_serve_all_rows():
    generator = stream(3, "blobs")
    centers = 10 * torch.randn(4, 3, generator=generator)
    rows = centers.repeat(50, 1) + 0.1 * torch.randn(200, 3, generator=generator)
    numbers = grouping.k_means(rows, 4, stream(0), num_fitted=60).reshape(50, 4)
    assert bool((numbers == numbers[0]).all())
    assert len(set(numbers[0].tolist())) == 4
    few = grouping.k_means(rows, 100, stream(0), num_fitted=5)
    assert set(few.tolist()) == set(range(100))


def test_neighbors_of_a_part_rank_rows_nearly_as_all_do():
    rows = torch.randn(400, 2, generator=stream(4, "rows"))
    exact = grouping.neighbor_distances(rows, 20, stream(0))
    rough = grouping.neighbor_distances(rows, 20, stream(0), num_references=200)
    assert float(torch.corrcoef(torch.stack([exact, rough]))[0, 1]) > 0.9
    assert not torch.equal(exact, rough)


def test_centers_fitted_to_a_part_are_noted(monkeypatch):
    monkeypatch.setattr("fewlabels.strategies.typiclust._NUM_FITTED", 30)
    rows = torch.randn(50, 3, generator=stream(5, "rows"))
    known = PrecomputedClassifier(rows, torch.zeros(50, 2))
    query = TypiClust().select(known, a_pool(50), 4, stream(0))
    assert query.record["fitted_to"] == {"considered": 30, "out_of": 50}
