"""Likely wrong labels, compared with the cleanlab library."""

import numpy as np
import pytest
from cleanlab.rank import order_label_issues
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.experiments.evaluation.label_errors import (
    likely_errors,
    stratified_folds,
)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_cleanlab(seed):
    draws = np.random.default_rng(seed)
    labels = draws.integers(0, 4, 200)
    labels[:4] = range(4)
    probabilities = draws.dirichlet(np.full(4, 0.3), 200)
    flagged = likely_errors(probabilities, labels)
    mask = np.isin(np.arange(200), flagged)
    assert 10 < mask.sum() < 190
    ranked = order_label_issues(mask, labels, probabilities)
    np.testing.assert_array_equal(flagged, ranked)


def test_another_class_has_to_be_ten_times_as_likely():
    probabilities = np.array([[0.5, 0.05, 0.45], [0.5, 0.06, 0.44], [0.9, 0.0, 0.1]])
    assert likely_errors(probabilities, np.array([1, 1, 1])).tolist() == [2, 0]
    assert likely_errors(probabilities, np.array([1, 1, 1]), ratio=8).size == 3
    assert likely_errors(probabilities, np.array([0, 0, 0])).size == 0


def test_what_no_model_judged_is_not_flagged():
    unknown = np.full((1, 3), np.nan)
    assert likely_errors(unknown, np.array([2])).size == 0
    assert likely_errors(unknown[:0], np.array([], dtype=np.int64)).size == 0


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(2, 12))
def test_folds_are_stratified(labels, num_folds):
    labels = np.array(labels, dtype=np.int64)
    folds = stratified_folds(labels, num_folds)
    sizes = np.bincount(folds, minlength=num_folds)
    assert sizes.max() - sizes.min() <= 1
    for number in np.unique(labels):
        counts = np.bincount(folds[labels == number], minlength=num_folds)
        assert counts.max() - counts.min() <= 1
