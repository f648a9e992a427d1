import math

import pytest
import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, WITHHELD, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.strategies.uherding import UncertaintyHerding, best_temperature


def problem(seed, num_labeled=None):
    generator = stream(seed, "uherding")
    count = 16 + seed % 10
    rows = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    logits = 3 * torch.randn(count, 3, generator=generator, dtype=torch.float64)
    labels = torch.full((count,), UNKNOWN)
    order = torch.randperm(count, generator=generator)
    labeled = order[: seed % 6 if num_labeled is None else num_labeled]
    labels[labeled] = torch.randint(3, (len(labeled),), generator=generator)
    pool = Pool.build(ArrayImages(rows), labels, ("a", "b", "c"))
    return pool, PrecomputedClassifier(rows, logits)


def probabilities(row, temperature):
    powers = [math.exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


def doubt(kind, row, temperature):
    p = sorted(probabilities(row, temperature))
    if kind == "margin":
        return 1 - (p[-1] - p[-2])
    return -sum(x * math.log(x) for x in p)


def likeliest_temperature(pool, classifier):
    """The best of a grid from 1 to 100."""
    logits = classifier.logits.tolist()

    def likelihood(temperature):
        return sum(
            math.log(probabilities(logits[item], temperature)[int(pool.labels[item])])
            for item in pool.labeled.tolist()
        )

    return max((1.05**step for step in range(95)), key=likelihood)


def shortfalls(pool, classifier, chosen, kind, temperature):
    """How much less than the best candidate each choice adds; and the width."""
    rows = [[x / math.hypot(*row) for x in row] for row in classifier.features.tolist()]
    logits, members = classifier.logits.tolist(), pool.labeled.tolist()
    pairs = [(i, j) for i in members for j in members if i < j]
    width = min([1.0, *(math.dist(rows[i], rows[j]) for i, j in pairs)])
    candidates = pool.candidates.tolist()
    weights = {
        x: doubt(kind, logits[x], temperature) if temperature else 1.0
        for x in candidates
    }

    def near(x, s):
        return math.exp(-((math.dist(rows[x], rows[s]) / width) ** 2))

    def value(members):
        return sum(weights[x] * max(near(x, s) for s in members) for x in candidates)

    found = []
    for item in chosen:
        free = [x for x in candidates if x not in members]
        best = max(value([*members, x]) for x in free)
        found.append(best - value([*members, item]))
        members.append(item)
    return found, width


@pytest.mark.parametrize("kind", ["margin", "entropy", None])
def test_agrees_with_trying_every_candidate(kind):
    for seed in range(34):
        pool, classifier = problem(seed)
        strategy = UncertaintyHerding(uncertainty=kind)
        query = contract.chosen_by(strategy, pool, classifier, size=3)
        temperature = query.record["temperature"]
        if kind and len(pool.labeled):
            grid = likeliest_temperature(pool, classifier)
            assert temperature == pytest.approx(grid, rel=0.03)
        else:
            assert temperature is None
        found, width = shortfalls(
            pool, classifier, query.indices.tolist(), kind, temperature
        )
        assert found == pytest.approx([0, 0, 0], abs=1e-9)
        assert query.record["radius"] == pytest.approx(width)


def test_the_radius_shrinks_as_labels_are_added():
    pool, classifier = problem(7, num_labeled=0)
    radii = []
    for count in range(8):
        labels = pool.labels.clone()
        labels[:count] = WITHHELD
        some = Pool.build(pool.images, labels, pool.classes)
        query = contract.chosen_by(UncertaintyHerding(), some, classifier, size=2)
        radii.append(query.record["radius"])
    assert radii[:2] == [1, 1]
    assert radii == sorted(radii, reverse=True)
    assert radii[-1] < radii[0]


def test_copies_among_labeled_items_do_not_make_the_radius_zero():
    pool, classifier = problem(3, num_labeled=0)
    rows = classifier.features.clone()
    rows[1] = 2 * rows[0]  # the same direction
    labels = pool.labels.clone()
    labels[:3] = 0
    some = Pool.build(ArrayImages(rows), labels, pool.classes)
    other = PrecomputedClassifier(rows, classifier.logits)
    radius = contract.chosen_by(UncertaintyHerding(), some, other).record["radius"]
    units = torch.nn.functional.normalize(rows)
    assert radius == pytest.approx(min(1, float((units[0] - units[2]).norm())))


def test_doubt_attracts():
    pool, classifier = problem(0, num_labeled=2)
    logits = torch.zeros_like(classifier.logits)
    logits[:, 0] = 50
    doubtful = int(pool.candidates[4])
    logits[doubtful] = 0
    strategy = UncertaintyHerding(temperature=1.0, radius=0.05)
    certain = PrecomputedClassifier(classifier.features, logits)
    assert contract.chosen_by(strategy, pool, certain, size=1).indices == doubtful


def test_without_logits_it_is_max_herding():
    pool, classifier = problem(4, num_labeled=3)
    without = PrecomputedClassifier(
        classifier.features, torch.empty(len(classifier.features), 0)
    )
    plain = contract.chosen_by(UncertaintyHerding(uncertainty=None), pool, classifier)
    query = contract.chosen_by(UncertaintyHerding(), pool, without)
    assert torch.equal(query.indices, plain.indices)
    assert query.record["temperature"] is None


def test_the_temperature_is_the_likeliest_and_at_least_one():
    logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]).double()
    labels = torch.tensor([0, 0, 0, 0])  # three of four are right: odds of 3
    assert best_temperature(logits, labels) == pytest.approx(4 / math.log(3))
    assert best_temperature(logits[:3], labels[:3]) == 1
    assert best_temperature(logits, 1 - labels) == pytest.approx(100)
    assert best_temperature(logits, torch.full((4,), WITHHELD)) == 1
