"""The paper's CIFAR-100 setting: 100 labeled, 200 queried, 128 features."""

from unittest import TestCase

import numpy as np
import pytest
import torch
from tests import reference

from fewlabels.errors import DegenerateGramWarning
from fewlabels.gram import numerical_rank, wide_head_kernel
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.rng import stream
from fewlabels.search import maximize_smallest_eigenvalue, uniform_subsets
from fewlabels.strategies import NeuralPreconditioning

NUM_ITEMS, NUM_LABELED, SIZE, NUM_DRAWS = 1500, 100, 200, 1000


@pytest.fixture(scope="module")
def features():
    generator = stream(0, "degenerate")
    means = torch.randn(100, 128, generator=generator)
    classes = torch.randint(100, (NUM_ITEMS,), generator=generator)
    noise = torch.randn(NUM_ITEMS, 128, generator=generator)
    return (means[classes] + 0.7 * noise).clamp_min(0)


def select(features, **options):
    labels = torch.full((NUM_ITEMS,), UNKNOWN)
    labels[:NUM_LABELED] = torch.arange(NUM_LABELED)
    pool = Pool(
        images=ArrayImages(features),
        ids=tuple(map(str, range(NUM_ITEMS))),
        labels=labels,
        classes=tuple(map(str, range(100))),
        candidates=torch.arange(NUM_LABELED, NUM_ITEMS),
        budget=NUM_LABELED + SIZE,
    )
    classifier = PrecomputedClassifier(features, torch.zeros(NUM_ITEMS, 100))
    strategy = NeuralPreconditioning(draws=200, **options)
    return strategy.select(classifier, pool, SIZE, stream(1))


def test_the_last_layer_warns_with_the_numbers_and_records_the_tie(features):
    with pytest.warns(
        DegenerateGramWarning, match="300 items are compared through 129"
    ):
        query = select(features, kernel="last-layer")
    assert query.record["tie"] is True
    assert query.record["kernel"] == "last-layer"
    assert len(set(query.indices.tolist())) == SIZE


def test_auto_says_which_kernel_it_used_and_does_not_tie(features):
    assert numerical_rank(features) == 129
    with TestCase().assertLogs("fewlabels", "INFO") as heard:
        query = select(features)
    assert query.record["kernel"] == "wide-head"
    assert query.record["tie"] is False
    (line,) = heard.output
    assert "kernel wide-head: 300 items to label, rank 129" in line


@pytest.mark.slow
def test_scores_spread_and_their_order_is_that_of_extended_precision(features):
    kernel = wide_head_kernel(features)
    labeled, candidates = (
        torch.arange(NUM_LABELED),
        torch.arange(NUM_LABELED, NUM_ITEMS),
    )
    draws = uniform_subsets(candidates, SIZE, 7, range(NUM_DRAWS))
    members = torch.cat([labeled.expand(NUM_DRAWS, -1), draws], dim=1)
    extended = reference.extended_wide_head_gram(features)
    values, refined = [], []
    for row in members:
        spectrum, vectors = torch.linalg.eigh(kernel.block(row, row))
        values.append(float(spectrum[0]))
        vector = vectors[:, 0].numpy().astype(np.longdouble)
        block = extended[np.ix_(row.numpy(), row.numpy())]
        refined.append((vector @ block @ vector) / (vector @ vector))
    largest = float(spectrum[-1])
    values, refined = np.array(values), np.array(refined)
    assert values.max() - values.min() > 1e-6 * largest
    assert np.array_equal(np.argsort(values), np.argsort(refined))
    greedy, random = (
        maximize_smallest_eigenvalue(
            kernel,
            labeled=labeled,
            candidates=candidates,
            size=SIZE,
            method=method,
            draws=draws if method == "random" else None,
            generator=stream(0),
        )
        for method in ("greedy", "random")
    )
    assert random.value == pytest.approx(values.max(), rel=1e-9)
    assert greedy.value >= values.max()
