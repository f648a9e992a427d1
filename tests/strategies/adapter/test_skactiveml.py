"""Our strategies in scikit-activeml's loop."""

import importlib
import sys

import numpy as np
import pytest
from skactiveml.classifier import ParzenWindowClassifier
from skactiveml.exceptions import MappingError
from skactiveml.pool import SubSamplingWrapper
from skactiveml.utils import unlabeled_indices
from sklearn.base import clone
from tests.strategies.adapter.offered import NEED_LABELS, OFFERED

import fewlabels
from fewlabels.errors import UsageError
from fewlabels.strategies.skactiveml import FewlabelsQuery


def problem(num_labeled=4, *, num_items=60, num_features=8, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(num_items, num_features))
    y = np.full(num_items, np.nan)
    labeled = generator.permutation(num_items)[:num_labeled]
    y[labeled] = np.arange(num_labeled) % 3
    return X, y


@pytest.mark.parametrize("name", OFFERED)
@pytest.mark.parametrize("num_labeled", [0, 4])
def test_every_strategy_chooses_distinct_unlabeled_samples(name, num_labeled):
    X, y = problem(num_labeled)
    clf = ParzenWindowClassifier(classes=[0, 1, 2])
    query = FewlabelsQuery(name, random_state=0)
    if name in NEED_LABELS and not num_labeled:
        with pytest.raises(UsageError, match="is labeled"):
            query.query(X, y, clf, batch_size=7)
        return
    chosen = query.query(X, y, clf, batch_size=7)
    assert len(set(chosen.tolist())) == 7
    assert np.isnan(y[chosen]).all()


def test_the_choice_is_that_of_select():
    X, y = problem()
    clf = ParzenWindowClassifier(classes=[0, 1, 2]).fit(X, y)
    through = FewlabelsQuery("margin", random_state=0).query(X, y, clf, batch_size=5)
    direct = fewlabels.select(
        "margin",
        features=X,
        logits=np.log(clf.predict_proba(X)),
        labeled=np.flatnonzero(~np.isnan(y)),
        size=5,
        seed=9,
    )
    np.testing.assert_array_equal(through, direct)


def test_options_reach_the_strategy():
    X, y = problem()
    most = FewlabelsQuery("npc", {"method": "greedy"}, random_state=0)
    few = FewlabelsQuery("npc", {"draws": 1}, random_state=0)
    greedy, poor = (query.query(X, y, batch_size=5) for query in (most, few))
    assert set(greedy.tolist()) != set(poor.tolist())
    with pytest.raises(UsageError, match="drwas"):
        FewlabelsQuery("npc", {"drwas": 1}).query(X, y)


def test_a_choice_follows_the_random_state():
    X, y = problem()
    choices = [
        FewlabelsQuery("random", random_state=seed).query(X, y, batch_size=5).tolist()
        for seed in (0, 0, 1)
    ]
    assert choices[0] == choices[1] != choices[2]


def test_labels_may_be_words():
    X, y = problem(num_labeled=3)
    words = np.array(["none", "owl", "cat", "dog"])
    named = words[np.nan_to_num(y + 1).astype(int)]
    clf = ParzenWindowClassifier(classes=["owl", "cat", "dog"], missing_label="none")
    query = FewlabelsQuery("margin", missing_label="none", random_state=0)
    chosen = query.query(X, named, clf, batch_size=4)
    assert (named[chosen] == "none").all()


def test_utilities_tell_the_order_of_the_choice():
    X, y = problem()
    among = unlabeled_indices(y)[::3]
    chosen, utilities = FewlabelsQuery("margin", random_state=0).query(
        X,
        y,
        ParzenWindowClassifier(classes=[0, 1, 2]),
        candidates=among,
        batch_size=4,
        return_utilities=True,
    )
    assert set(chosen.tolist()) <= set(among.tolist())
    assert utilities.shape == (4, len(X))
    for place, row in enumerate(utilities):
        open_still = set(among.tolist()) - set(chosen[:place].tolist())
        assert set(np.flatnonzero(~np.isnan(row)).tolist()) == open_still
        assert row[chosen[place:]].tolist() == list(range(4 - place, 0, -1))
        assert np.nansum(row) == sum(range(5 - place))


class TwoOutputs(ParzenWindowClassifier):
    """Its embeddings are the first feature alone, where it is asked for them."""

    def predict_proba(self, X, embeddings=False):
        probabilities = super().predict_proba(X)
        return (probabilities, X[:, :1] * [1, 0]) if embeddings else probabilities


class FirstAxis:
    """Chooses by features alone, so that it shows which ones it was given."""

    def select(self, classifier, pool, size, generator, *, history=()):
        rows = classifier.outputs(pool.images, pool.candidates).features
        order = rows.sum(dim=1).argsort(descending=True)
        return fewlabels.Query(pool.candidates[order[:size]])


@pytest.mark.parametrize("flag", ["embeddings", {"embeddings": True}])
def test_features_are_embeddings_where_the_classifier_has_them(flag):
    X, y = problem()
    clf = TwoOutputs(classes=[0, 1, 2])
    among = unlabeled_indices(y)
    plain = FewlabelsQuery(FirstAxis()).query(X, y, clf)
    embedded = FewlabelsQuery(FirstAxis(), clf_embedding_flag_name=flag).query(
        X, y, clf
    )
    assert plain[0] == among[X[among].sum(axis=1).argmax()]
    assert embedded[0] == among[X[among, 0].argmax()]


def test_embeddings_that_do_not_come_are_an_error():
    X, y = problem()
    query = FewlabelsQuery("npc", clf_embedding_flag_name="embed")
    with pytest.raises(UsageError, match=r"'embed': True.*clf_embedding_flag_name"):
        query.query(X, y, ParzenWindowClassifier(classes=[0, 1, 2]))


def test_images_are_flattened():
    X, y = problem()
    flat = FewlabelsQuery("npc", random_state=0).query(X, y, batch_size=3)
    square = FewlabelsQuery("npc", random_state=0).query(
        X.reshape(len(X), 2, 2, 2), y, batch_size=3
    )
    np.testing.assert_array_equal(flat, square)


def test_a_wrapper_of_scikit_activeml_takes_it():
    X, y = problem()
    wrapped = SubSamplingWrapper(
        FewlabelsQuery("npc", random_state=0), max_candidates=20, random_state=0
    )
    chosen = wrapped.query(X, y, batch_size=5)
    assert len(set(chosen.tolist())) == 5
    assert np.isnan(y[chosen]).all()


def test_rows_cannot_be_candidates():
    X, y = problem()
    with pytest.raises(MappingError):
        FewlabelsQuery("npc").query(X, y, candidates=X[:5])


def test_labeled_samples_cannot_be_candidates():
    X, y = problem()
    with pytest.raises(ValueError, match="labeled"):
        FewlabelsQuery("npc").query(X, y, candidates=np.flatnonzero(~np.isnan(y)))


def test_a_strategy_that_needs_predictions_says_so():
    X, y = problem()
    with pytest.raises(UsageError, match="0 logits"):
        FewlabelsQuery("margin").query(X, y)


def test_it_is_cloned_as_scikit_learn_clones():
    query = FewlabelsQuery("npc", {"draws": 7}, random_state=3)
    copied = clone(query)
    assert copied is not query
    assert copied.get_params() == query.get_params()
    assert copied.set_params(strategy="random").strategy == "random"


def test_without_scikit_activeml_the_command_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "skactiveml", None)
    monkeypatch.setitem(sys.modules, "skactiveml.base", None)
    monkeypatch.delitem(sys.modules, "fewlabels.strategies.skactiveml")
    with pytest.raises(UsageError, match="pip install 'scikit-activeml"):
        importlib.import_module("fewlabels.strategies.skactiveml")
