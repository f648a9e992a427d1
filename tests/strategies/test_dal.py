import numpy as np
import pytest
import torch
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.strategies.dal import DiscriminativeActiveLearning, discriminator


def chosen_from(features, labeled, *, size, seed=0, **options):
    features = torch.as_tensor(features)
    labels = torch.full((len(features),), UNKNOWN)
    labels[list(labeled)] = 0
    pool = Pool.build(ArrayImages(features), labels, ["a", "b"])
    known = PrecomputedClassifier(features, torch.zeros(len(features), 2))
    strategy = DiscriminativeActiveLearning(**options)
    return contract.chosen_by(strategy, pool, known, size, seed)


# ----------------------------------------------------------------- the definition


def newton_scores(rows, labeled, unlabeled, penalty=0.01):
    """Log odds of being unlabeled, by Newton's method on the scaled rows."""
    both = rows[labeled + unlabeled]
    scaled = (both - both.mean(axis=0)) / both.std(axis=0)
    design = np.hstack([scaled, np.ones((len(scaled), 1))])
    target = np.array([0.0] * len(labeled) + [1.0] * len(unlabeled))
    shares = np.where(target == 0, 1 / len(labeled), 1 / len(unlabeled))
    ridge = penalty * np.eye(design.shape[1])
    ridge[-1, -1] = 0
    weights = np.zeros(design.shape[1])
    for _ in range(100):
        chances = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (shares * (chances - target)) + ridge @ weights
        bend = (design.T * (shares * chances * (1 - chances))) @ design + ridge
        step = np.linalg.solve(bend, slope)
        weights -= step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-12:
            break
    everything = (rows - both.mean(axis=0)) / both.std(axis=0)
    return everything @ weights[:-1] + weights[-1]


@pytest.mark.parametrize("block", range(2))
def test_agrees_with_the_definition_on_a_hundred_problems(block):
    for seed in range(50 * block, 50 * block + 50):
        pool, classifier = contract.problem(seed, num_labeled=1 + seed % 6)
        rows = classifier.features[:, :5].double()
        known = PrecomputedClassifier(rows, classifier.logits)
        sizes = [(3, 3, 2), (1, 1), (4, 4, 4)][seed % 3]
        strategy = DiscriminativeActiveLearning(num_parts=len(sizes))
        query = contract.chosen_by(strategy, pool, known, sum(sizes))
        labeled, unlabeled = pool.labeled.tolist(), pool.unlabeled.tolist()
        free, expected = pool.candidates.tolist(), []
        for size in sizes:
            scores = newton_scores(rows.numpy(), labeled, unlabeled)
            now = sorted(free, key=lambda item: -scores[item])[:size]
            expected += now
            labeled += now
            unlabeled = [item for item in unlabeled if item not in now]
            free = [item for item in free if item not in now]
        assert query.indices.tolist() == expected


def test_the_fit_is_at_its_minimum():
    generator = stream(0, "groups")
    one = torch.randn(7, 4, generator=generator) + 1
    other = torch.randn(90, 4, generator=generator)
    rows = torch.cat([one, other]).double().numpy()
    expected = newton_scores(rows, list(range(7)), list(range(7, 97)), penalty=0.3)
    found = discriminator(one, other, penalty=0.3)(torch.from_numpy(rows))
    assert found.numpy() == pytest.approx(expected, abs=1e-5)


def test_few_labels_count_as_much_as_many_unlabeled_items():
    generator = stream(1, "groups")
    one = torch.randn(5, 3, generator=generator) + 2
    other = torch.randn(60, 3, generator=generator)
    fit = discriminator(one, other, penalty=0.1)
    # Where the offset is best, both groups are mistaken by the same amount on average.
    mistaken = fit(one).sigmoid().mean(), (-fit(other)).sigmoid().mean()
    assert float(mistaken[0]) == pytest.approx(float(mistaken[1]), abs=1e-6)
    assert 0 < float(mistaken[0]) < 0.3


def test_what_is_least_like_the_labeled_items_is_asked_first():
    line = torch.arange(30.0)[:, None]
    query = chosen_from(line, [0, 1, 2], size=1)
    assert query.indices.tolist() == [29]
    assert query.record == {"parts": 1, "judged": 27}


def test_a_part_of_the_query_counts_as_labeled_for_the_next():
    # Labels in the middle; two groups left and right, the right one farther away.
    generator = stream(2, "groups")
    spread = 0.1 * torch.randn(60, 1, generator=generator)
    sides = torch.tensor([0.0, -8.0, 9.0]).repeat_interleave(20)[:, None]
    rows = torch.cat([sides + spread, sides.abs() / 9], dim=1)
    at_once, in_turn = (
        chosen_from(rows, range(20), size=10, num_parts=n).indices for n in (1, 10)
    )
    assert len(set((at_once // 20).tolist())) == 1
    assert set((in_turn // 20).tolist()) == {1, 2}


# -------------------------------------------------------------- what others got wrong


@pytest.mark.parametrize("seed", range(10))
def test_no_candidate_is_left_unseen_gissin_1(seed):
    # The one item that stands out is hardly ever among the five that are learned from.
    rows = torch.randn(300, 2, generator=stream(seed, "rows"))
    rows[:4] -= torch.tensor([6.0, 0.0])
    rows[200] = torch.tensor([1e4, 0.0])
    query = chosen_from(rows, range(4), size=1, seed=seed, max_train=5)
    assert query.indices.tolist() == [200]
    assert query.record["judged"] == 296
    assert query.record["trained_on"] == {
        "considered": 5,
        "out_of": 296,
        "max_train": 5,
    }
