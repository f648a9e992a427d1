"""Our strategies as modAL's callables.

The learner here is a stand-in that asks as modAL 0.4.2.1 asks; where modAL is
installed, its own learner is used as well.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.adapters.offered import OFFERED

import fewlabels
from fewlabels.adapters.modal import ModalQuery
from fewlabels.errors import BudgetError, UsageError


class Learner:
    """Calls a strategy as modAL does: a second time where unpacking fails."""

    def __init__(self, query_strategy, X_training=None, y_training=None):
        self.estimator = LogisticRegression()
        self.query_strategy = query_strategy
        self.X_training, self.y_training = X_training, y_training
        if X_training is not None:
            self.estimator.fit(X_training, y_training)

    def predict_proba(self, X):
        return self.estimator.predict_proba(X)

    def query(self, X_pool, *arguments, **keywords):
        try:
            chosen, metrics = self.query_strategy(self, X_pool, *arguments, **keywords)
        except Exception:  # noqa: BLE001 - as blind as modAL
            metrics = None
            chosen = self.query_strategy(self, X_pool, *arguments, **keywords)
        return chosen, X_pool[chosen], metrics


def samples(num_items=40, seed=0):
    return np.random.default_rng(seed).normal(size=(num_items, 5))


def labeled(num_items=6):
    return samples(num_items, seed=1), np.array(["cat", "dog", "owl"] * 2)[:num_items]


@pytest.mark.parametrize("name", OFFERED)
def test_every_strategy_chooses_distinct_samples(name):
    learner = Learner(ModalQuery(strategy=name, seed=0), *labeled())
    chosen, rows, metrics = learner.query(samples(), n_instances=5)
    assert len(set(chosen.tolist())) == 5
    np.testing.assert_array_equal(rows, samples()[chosen])
    assert metrics.tolist() == [5, 4, 3, 2, 1]


def test_it_chooses_one_sample_by_default():
    learner = Learner(ModalQuery(strategy="random", seed=0), *labeled())
    assert len(learner.query(samples())[0]) == 1


def test_the_choice_is_that_of_select():
    pool, (X, y) = samples(), labeled()
    learner = Learner(ModalQuery(strategy="margin", seed=0), X, y)
    logits = np.log(learner.predict_proba(pool))
    direct = fewlabels.select("margin", features=pool, logits=logits, size=5, seed=3)
    np.testing.assert_array_equal(learner.query(pool, 5)[0], direct)


class Told:
    """Keeps what it was told."""

    def select(self, classifier, pool, size, generator, *, history=()):
        self.labels = pool.labels.tolist()
        self.features = classifier.features.numpy()
        return fewlabels.Query(pool.candidates[:size])


def test_training_samples_count_as_labeled():
    told = Told()
    X, y = labeled()
    Learner(ModalQuery(strategy=told, seed=0), X, y).query(samples(), 2)
    assert told.labels == [-1] * 40 + [0, 1, 2] * 2
    np.testing.assert_array_equal(told.features, np.concatenate([samples(), X]))


def test_samples_are_embedded_on_request():
    told = Told()
    query = ModalQuery(strategy=told, seed=0, embed=lambda X: X[:, :2])
    Learner(query, *labeled()).query(samples(), 2)
    assert told.features.shape == (46, 2)


def test_the_same_call_gives_the_same_answer_and_other_seeds_another():
    pool = samples()
    answers = [
        Learner(ModalQuery(strategy="random", seed=seed), *labeled()).query(pool, 5)[0]
        for seed in (0, 0, 1)
    ]
    assert answers[0].tolist() == answers[1].tolist() != answers[2].tolist()


def test_further_labels_give_other_random_numbers():
    pool, query = samples(), ModalQuery(strategy="random", seed=0)
    answers = {
        tuple(Learner(query, *labeled(number)).query(pool, 5)[0].tolist())
        for number in (3, 4, 5)
    }
    assert len(answers) == 3


def test_a_learner_without_labels_can_ask_by_features():
    learner = Learner(ModalQuery(strategy="npc", seed=0))
    assert len(set(learner.query(samples(), 5)[0].tolist())) == 5
    learner = Learner(ModalQuery(strategy="margin", seed=0))
    with pytest.raises(UsageError, match="0 logits per item"):
        learner.query(samples(), 5)


def test_options_reach_the_strategy():
    wrong = ModalQuery(strategy="npc", seed=0, options={"drwas": 1})
    with pytest.raises(UsageError, match="drwas"):
        Learner(wrong).query(samples(), 5)


def test_more_than_there_is_cannot_be_chosen():
    with pytest.raises(BudgetError, match="40"):
        Learner(ModalQuery(strategy="npc", seed=0)).query(samples(), 41)


def test_modals_own_learner_asks_the_same():
    models = pytest.importorskip("modAL.models", reason="modAL is not installed")
    query, (X, y) = ModalQuery(strategy="margin", seed=0), labeled()
    learner = models.ActiveLearner(LogisticRegression(), query, X, y)
    chosen, rows, metrics = learner.query(samples(), 5, return_metrics=True)
    expected = Learner(query, X, y).query(samples(), 5)
    for seen, wanted in zip((chosen, rows, metrics), expected, strict=True):
        np.testing.assert_array_equal(seen, wanted)
