"""What every strategy promises, as checks that run on any of them."""

import copy

import torch
from tests.conftest import global_random_state

from fewlabels.features import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream

NUM_ITEMS, NUM_FEATURES, NUM_CLASSES = 60, 16, 4
NUM_SAMPLES = 20


def problem(seed, num_labeled=8, *, num_withheld=10):
    """A pool in which some unlabeled items are not candidates, and a classifier."""
    generator = stream(seed, "contract")
    features = torch.randn(NUM_ITEMS, NUM_FEATURES, generator=generator)
    logits = 2 * torch.randn(NUM_ITEMS, NUM_CLASSES, generator=generator)
    order = torch.randperm(NUM_ITEMS, generator=generator)
    labels = torch.full((NUM_ITEMS,), UNKNOWN)
    labeled = order[:num_labeled]
    labels[labeled] = torch.randint(NUM_CLASSES, (num_labeled,), generator=generator)
    pool = Pool(
        images=ArrayImages(features),
        ids=tuple(map(str, range(NUM_ITEMS))),
        labels=labels,
        classes=tuple("abcd"),
        candidates=order[num_labeled + num_withheld :].sort().values,
    )
    return pool, PrecomputedClassifier(features, logits, sampled(logits, seed))


def sampled(logits, seed):
    """Logits of some networks that nearly agree, for strategies that want them."""
    noise = torch.randn(NUM_SAMPLES, *logits.shape, generator=stream(seed, "samples"))
    return logits + noise


def chosen_by(strategy, pool, classifier, size=5, seed=0):
    return strategy.select(classifier, pool, size, stream(seed, "query"))


def check_chooses_distinct_candidates(strategy, seed, num_labeled):
    pool, classifier = problem(seed, num_labeled)
    for size in (1, 5, len(pool.candidates)):
        query = chosen_by(strategy, pool, classifier, size)
        assert query.indices.dtype == torch.int64
        assert len(query) == size
        assert len(set(query.indices.tolist())) == size
        assert set(query.indices.tolist()) <= set(pool.candidates.tolist())


def check_same_seed_same_choice(strategy):
    pool, classifier = problem(1)
    first, second = (chosen_by(strategy, pool, classifier, seed=3) for _ in range(2))
    assert torch.equal(first.indices, second.indices)
    assert first.value == second.value
    assert dict(first.record) == dict(second.record)


def check_touches_nothing(strategy):
    pool, classifier = problem(2)
    before = copy.deepcopy((pool, classifier))
    randomness = global_random_state()
    chosen_by(strategy, pool, classifier)
    assert global_random_state() == randomness
    for name in ("labels", "candidates"):
        assert torch.equal(getattr(pool, name), getattr(before[0], name))
    assert torch.equal(pool.images.items, before[0].images.items)
    everything = torch.arange(NUM_ITEMS)
    for name in ("features", "logits"):
        now = getattr(classifier.outputs(pool.images, everything), name)
        then = getattr(before[1].outputs(pool.images, everything), name)
        assert torch.equal(now, then)


def check_copes_with_duplicates_and_constants(strategy):
    pool, _ = problem(3)
    features = torch.ones(NUM_ITEMS, NUM_FEATURES)
    saturated = torch.zeros(NUM_ITEMS, NUM_CLASSES)
    saturated[:, 0] = 1e4
    samples = saturated.expand(NUM_SAMPLES, -1, -1)
    known = PrecomputedClassifier(features, saturated, samples)
    query = chosen_by(strategy, pool, known)
    assert len(set(query.indices.tolist())) == 5


def check_ignores_order(*strategies):
    """A permuted pool gives the permuted answer, as ``ignores_order`` promises."""
    order = torch.randperm(NUM_ITEMS, generator=stream(0, "order"))
    place = order.argsort()
    for seed, strategy in enumerate(strategies):
        assert strategy.ignores_order
        pool, classifier = problem(seed)
        moved = Pool(
            images=ArrayImages(pool.images.items[order]),
            ids=tuple(pool.ids[index] for index in order.tolist()),
            labels=pool.labels[order],
            classes=pool.classes,
            candidates=place[pool.candidates].sort().values,
        )
        there = PrecomputedClassifier(
            classifier.features[order], classifier.logits[order]
        )
        query, again = (
            chosen_by(strategy, *both) for both in ((pool, classifier), (moved, there))
        )
        assert order[again.indices].tolist() == query.indices.tolist()
