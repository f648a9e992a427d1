from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.strategies import contract
from tests.strategies.twins import bait as twin
from tests.strategies.twins.problems import small_problem

from fewlabels.errors import UsageError
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.rng import stream
from fewlabels.strategies import Bait
from fewlabels.strategies.arrays import precomputed


@pytest.mark.parametrize(
    ("likelihood", "definition"),
    [("categorical", twin.categorical), ("binary", twin.binary)],
)
def test_agrees_with_whole_matrices_on_a_hundred_problems(likelihood, definition):
    for seed in range(100):
        pool, classifier = small_problem(seed)
        size, regularization = 1 + seed % 3, [1.0, 0.01][seed % 2]
        strategy = Bait(likelihood=likelihood, regularization=regularization)
        query = contract.chosen_by(strategy, pool, classifier, size)
        matrices = definition(
            classifier.logits.double().numpy(), classifier.features.double().numpy()
        )
        expected, left = twin.forward_backward(
            matrices,
            pool.labeled.tolist(),
            pool.candidates.tolist(),
            size,
            regularization=regularization,
        )
        assert query.indices.tolist() == expected
        assert query.record["remainder"] == pytest.approx(left, rel=1e-7)


def test_taking_items_out_again_changes_the_choice():
    def sets(oversample):
        strategy = Bait(oversample=oversample)
        return [
            set(contract.chosen_by(strategy, *small_problem(seed), 3).indices.tolist())
            for seed in range(20)
        ]

    assert sets(1) != sets(2)


def test_copies_are_asked_once():
    pool, classifier = contract.problem(5, num_labeled=0)
    pool = replace(pool, candidates=torch.arange(len(pool)))
    features = classifier.features[:6].repeat(10, 1)
    logits = classifier.logits[:6].repeat(10, 1) / 20
    strategy = Bait(likelihood="binary", regularization=0.01)
    query = contract.chosen_by(strategy, pool, PrecomputedClassifier(features, logits))
    assert len(set((query.indices % 6).tolist())) == 5


def test_a_certain_prediction_holds_no_information():
    pool, classifier = contract.problem(6)
    logits = classifier.logits.clone()
    certain = pool.candidates[::2]
    logits[certain] = 0
    logits[certain, 0] = 1e3
    for likelihood in ("categorical", "binary"):
        query = contract.chosen_by(
            Bait(likelihood=likelihood),
            pool,
            PrecomputedClassifier(classifier.features, logits),
        )
        assert not set(query.indices.tolist()) & set(certain.tolist())


def test_long_rows_do_not_break_the_way_back():
    pool, classifier = contract.problem(7)
    for scale in (1e6, 1e30):
        longer = PrecomputedClassifier(
            classifier.features.double() * scale, classifier.logits
        )
        query = contract.chosen_by(Bait(), pool, longer)
        assert len(set(query.indices.tolist())) == 5


def test_a_part_of_a_large_pool_is_named_in_the_record():
    pool, classifier = contract.problem(8)
    query = contract.chosen_by(Bait(max_pool=20), pool, classifier)
    assert query.record["subsample"] == {
        "considered": 20,
        "out_of": len(pool.candidates),
        "max_pool": 20,
    }
    everything = contract.chosen_by(
        Bait(max_pool=20, likelihood="binary"), pool, classifier
    )
    assert "subsample" not in everything.record


def test_too_many_parameters_are_refused_with_the_cheap_form_as_a_remedy():
    pool, _ = contract.problem(9)
    wide = PrecomputedClassifier(torch.zeros(60, 1251), torch.zeros(60, 4))
    with pytest.raises(UsageError, match=r"4 x 1251 .*likelihood='binary'"):
        contract.chosen_by(Bait(components=2000), pool, wide)


def test_wide_rows_are_projected_and_the_choice_explains_nearly_as_much():
    pool, classifier = contract.problem(0)
    draws = stream(0, "wide rows")
    hidden = torch.randn(len(pool), 4, generator=draws, dtype=torch.float64)
    mixing = torch.randn(4, 12, generator=draws, dtype=torch.float64)
    noise = 0.01 * torch.randn(len(pool), 12, generator=draws, dtype=torch.float64)
    wide = PrecomputedClassifier(hidden @ mixing + noise, classifier.logits)
    exact = contract.chosen_by(Bait(components=12), pool, wide)
    short = contract.chosen_by(Bait(components=4), pool, wide)
    assert short.value == pytest.approx(exact.value, rel=0.05)
    assert len(set(exact.indices.tolist()) & set(short.indices.tolist())) >= 4


@pytest.mark.parametrize("likelihood", ["categorical", "binary"])
def test_the_way_back_stays_finite_where_items_outweigh_the_regularization(likelihood):
    rng = np.random.default_rng(0)
    rows, logits = rng.normal(size=(40, 5)) * 1e30, rng.normal(size=(40, 3))
    pool, classifier = precomputed(torch.from_numpy(rows), logits, [3, 9], [0, 1])
    strategy = Bait(likelihood=likelihood, oversample=5.5)
    query = strategy.select(classifier, pool, 5, stream(0, "query"))
    assert len(set(query.indices.tolist())) == 5
    assert 0 <= query.record["remainder"] < float("inf")


def test_a_target_from_a_part_of_the_pool_is_noted():
    rng = np.random.default_rng(0)
    rows, logits = rng.normal(size=(40, 5)), rng.normal(size=(40, 3))
    pool, classifier = precomputed(
        torch.from_numpy(rows), logits, [], None, [*range(9)]
    )
    query = Bait(max_pool=10).select(classifier, pool, 2, stream(0, "query"))
    assert query.record["target"] == {"considered": 10, "out_of": 40, "max_pool": 10}
    assert "subsample" not in query.record
