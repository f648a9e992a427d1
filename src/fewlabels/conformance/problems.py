"""Small pools with a classifier, ordinary and awkward, to ask a strategy about.

Shapes: N items, F features, C classes, K sampled networks.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fewlabels.features import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream

NUM_ITEMS, NUM_FEATURES, NUM_CLASSES, NUM_SAMPLES = 60, 16, 4, 20
_SATURATED = 1e4


class CheckCase(NamedTuple):
    """What a strategy is asked about."""

    pool: Pool
    classifier: PrecomputedClassifier


def problem(seed: int, num_labeled: int = 8, *, num_withheld: int = 10) -> CheckCase:
    """Return a pool in which some unlabeled items are not candidates.

    Args:
        seed: Equal seeds give equal problems.
        num_labeled: How many items are labeled.
        num_withheld: How many unlabeled items are not candidates.

    Returns:
        The pool, and a classifier with features, logits and sampled logits.
    """
    generator = stream(seed, "contract")
    features = torch.randn(NUM_ITEMS, NUM_FEATURES, generator=generator)
    logits = 2 * torch.randn(NUM_ITEMS, NUM_CLASSES, generator=generator)
    order = torch.randperm(NUM_ITEMS, generator=generator)
    labels = torch.full((NUM_ITEMS,), UNKNOWN)
    given = torch.randint(NUM_CLASSES, (num_labeled,), generator=generator)
    labels[order[:num_labeled]] = given
    noise = torch.randn(NUM_SAMPLES, NUM_ITEMS, NUM_CLASSES, generator=generator)
    pool = Pool(
        images=ArrayImages(features),
        ids=tuple(map(str, range(NUM_ITEMS))),
        labels=labels,
        classes=tuple("abcd"),
        candidates=order[num_labeled + num_withheld :].sort().values,
    )
    # Images are a tensor of their own, so that a change is told by its name.
    classifier = PrecomputedClassifier(features.clone(), logits, logits + noise)
    return CheckCase(pool, classifier)


def permuted(given: CheckCase, order: Tensor) -> CheckCase:
    """Return the problem with item ``order[i]`` at position ``i``."""
    pool = given.pool
    allowed = torch.zeros(len(pool), dtype=torch.bool)
    allowed[pool.candidates] = True
    shuffled = replace(
        pool,
        images=ArrayImages(pool.images.read(order)),
        ids=tuple(pool.ids[item] for item in order.tolist()),
        labels=pool.labels[order],
        candidates=torch.nonzero(allowed[order]).flatten(),
    )
    return CheckCase(shuffled, _rows(given.classifier, order))


def in_pairs(given: CheckCase) -> CheckCase:
    """Return the problem in which every item has a twin with equal outputs."""
    return _showing(given, 2 * (torch.arange(len(given.pool)) // 2))


def all_alike(given: CheckCase) -> CheckCase:
    """Return the problem in which all items have equal outputs."""
    return _showing(given, torch.zeros(len(given.pool), dtype=torch.int64))


def flat(given: CheckCase) -> CheckCase:
    """Return the problem in which all features are zero."""
    zeros = torch.zeros_like(given.classifier.features[:])
    pool = replace(given.pool, images=ArrayImages(zeros.clone()))
    return CheckCase(pool, replace(given.classifier, features=zeros))


def saturated(given: CheckCase) -> CheckCase:
    """Return the problem in which every network is entirely sure of the first class."""
    samples = torch.zeros(NUM_SAMPLES, len(given.pool), NUM_CLASSES)
    samples[..., 0] = _SATURATED
    sure = replace(given.classifier, logits=samples[0].clone(), samples=samples)
    return given._replace(classifier=sure)


def without_last_class(given: CheckCase) -> CheckCase:
    """Return the problem in which no item is labeled with the last class."""
    labels = given.pool.labels.clamp(max=NUM_CLASSES - 2)
    return given._replace(pool=replace(given.pool, labels=labels))


def _showing(given: CheckCase, rows: Tensor) -> CheckCase:
    """Return the problem in which item ``i`` looks as item ``rows[i]`` does."""
    images = ArrayImages(given.pool.images.read(rows))
    pool = replace(given.pool, images=images)
    return CheckCase(pool, _rows(given.classifier, rows))


def _rows(classifier: PrecomputedClassifier, rows: Tensor) -> PrecomputedClassifier:
    samples = None if classifier.samples is None else classifier.samples[:, rows]
    return PrecomputedClassifier(
        classifier.features[rows], classifier.logits[rows], samples
    )
