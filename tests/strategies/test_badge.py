import itertools
from dataclasses import replace

import pytest
import torch
from scipy import stats
from tests.strategies import contract

from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.strategies import Badge


def problem(seed, num_items=30, num_labeled=0):
    generator = stream(seed, "badge")
    rows = torch.randn(num_items, 5, generator=generator, dtype=torch.float64)
    logits = 2 * torch.randn(num_items, 3, generator=generator, dtype=torch.float64)
    labels = torch.full((num_items,), UNKNOWN)
    labels[torch.randperm(num_items, generator=generator)[:num_labeled]] = 1
    pool = Pool.build(ArrayImages(rows), labels, ("a", "b", "c"))
    return pool, PrecomputedClassifier(rows, logits)


def embeddings(classifier):
    """(e_ŷ - p) ⊗ h of every item, written out: (N, C F)."""
    p = classifier.logits.softmax(dim=1)
    predicted = torch.nn.functional.one_hot(p.argmax(dim=1), p.shape[1])
    return torch.stack(
        [
            torch.outer(a, h).flatten()
            for a, h in zip(predicted - p, classifier.features, strict=True)
        ]
    )


def weights(rows, chosen):
    """Squared distance of each row to the nearest chosen one; none for these."""
    nearest = torch.cdist(rows, rows[chosen]).square().min(dim=1).values
    nearest[chosen] = 0
    return nearest.tolist()


def twin(classifier, pool, size, generator, first):
    """BADGE on embeddings that are written out, with the same draws."""
    candidates = pool.candidates.tolist()
    rows = embeddings(classifier)[candidates]
    chosen = [
        int(rows.norm(dim=1).argmax())
        if first == "largest"
        else int(torch.randint(len(rows), (1,), generator=generator))
    ]
    while len(chosen) < size:
        sums = list(itertools.accumulate(weights(rows, chosen)))
        aim = float(torch.rand(1, generator=generator, dtype=torch.float64)) * sums[-1]
        chosen.append(next(place for place, until in enumerate(sums) if until > aim))
    return [candidates[place] for place in chosen]


@pytest.mark.parametrize("first", ["largest", "uniform"])
def test_agrees_with_embeddings_that_are_written_out(first):
    for seed in range(100):
        pool, classifier = problem(seed, 20 + seed % 20, num_labeled=seed % 6)
        query = contract.chosen_by(Badge(first=first), pool, classifier, seed=seed)
        expected = twin(classifier, pool, 5, stream(seed, "query"), first)
        assert query.indices.tolist() == expected


def test_the_second_item_is_drawn_by_squared_distances_that_sum_to_one():
    # skactiveml #587: utilities that were no probabilities.
    pool, classifier = problem(4, num_items=6)
    rows = embeddings(classifier)
    first = int(rows.norm(dim=1).argmax())
    counts = torch.zeros(6, dtype=torch.float64)
    generator = stream(0, "many")
    for _ in range(600):
        query = Badge().select(classifier, pool, 2, generator)
        assert int(query.indices[0]) == first
        counts[int(query.indices[1])] += 1
    squares = torch.tensor(weights(rows, [first]), dtype=torch.float64)
    others = torch.arange(6) != first

    def is_plausible(wrong):
        chances = wrong[others] / wrong[others].sum()
        return stats.chisquare(counts[others], 600 * chances).pvalue > 1e-3

    assert counts[first] == 0
    assert is_plausible(squares)
    assert not is_plausible(squares.sqrt())
    assert not is_plausible(squares.square())


def test_no_ghost_center_at_the_origin():
    # skactiveml #588: with a center at the origin that nobody chose, items without a
    # gradient would have no chance although they are far from the first center.
    pool, _ = problem(0, num_items=20)
    features = torch.ones(20, 2)
    logits = torch.tensor([[9999.0, 0.0]]).repeat(20, 1)
    logits[:4, 0] = 5  # four in slight doubt, one in full; 15 have no gradient at all
    logits[7] = 0
    classifier = PrecomputedClassifier(features, logits)
    seconds = set()
    for seed in range(40):
        chosen = contract.chosen_by(Badge(), pool, classifier, 2, seed).indices.tolist()
        assert chosen[0] == 7
        seconds.add(chosen[1])
    assert len(seconds - {0, 1, 2, 3}) > 8


def test_no_item_is_chosen_twice():
    # skactiveml #586.
    pool, classifier = problem(1, num_items=8)
    for seed in range(50):
        query = contract.chosen_by(Badge(), pool, classifier, size=8, seed=seed)
        assert sorted(query.indices.tolist()) == list(range(8))


def test_a_saturated_model_gives_uniform_draws_and_no_nan():
    pool, _ = problem(0, num_items=12)
    logits = torch.zeros(12, 3)
    logits[:, 1] = 1e4
    classifier = PrecomputedClassifier(torch.randn(12, 4, generator=stream(0)), logits)
    counts = torch.zeros(12)
    for seed in range(300):
        query = contract.chosen_by(Badge(), pool, classifier, size=4, seed=seed)
        assert len(set(query.indices.tolist())) == 4
        counts[query.indices] += 1
    assert query.record["without_gradient"] == 12
    assert stats.chisquare(counts).pvalue > 1e-3


def test_labeled_items_do_not_matter():
    pool, classifier = problem(2)
    none = replace(pool, candidates=torch.arange(25))
    labels = pool.labels.clone()
    labels[25:] = 0
    some = replace(none, labels=labels)
    chosen = [contract.chosen_by(Badge(), one, classifier) for one in (none, some)]
    assert torch.equal(chosen[0].indices, chosen[1].indices)
