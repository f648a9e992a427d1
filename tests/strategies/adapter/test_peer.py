"""scikit-activeml's strategies in our loop."""

import copy

import numpy as np
import pytest
import torch
from skactiveml import pool as peers
from skactiveml.classifier import ParzenWindowClassifier
from skactiveml.pool.multiannotator import SingleAnnotatorWrapper
from tests.strategies.contract import chosen_by, problem

import fewlabels
from fewlabels.errors import UsageError
from fewlabels.experiments.conformance import check
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.strategies.skactiveml import PeerStrategy

PEERS = [
    peers.Badge(),
    peers.CoreSet(),
    peers.TypiClust(),
    peers.UncertaintySampling(method="margin_sampling"),
    peers.RandomSampling(),
    peers.SubSamplingWrapper(peers.UncertaintySampling(), max_candidates=30),
]
IDS = [type(peer).__name__ for peer in PEERS]


OURS = ["a query", "distinct", "candidates only", "seeded", "global randomness"]
OURS += ["inputs untouched", "no memory", "record"]
"""What the adapter vouches for; copies and large sizes are the peer's own affair."""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("peer", PEERS, ids=IDS)
def test_a_peer_keeps_our_contract(peer):
    before = copy.deepcopy(peer.get_params())
    findings = {one.name: one for one in check(PeerStrategy(peer))}
    assert [findings[n] for n in OURS if findings[n].outcome != "passed"] == []
    assert repr(peer.get_params()) == repr(before)


def test_another_seed_is_another_choice():
    pool, classifier = problem(0)
    strategy = PeerStrategy(peers.RandomSampling(random_state=5))
    choices = {
        tuple(chosen_by(strategy, pool, classifier, seed=seed).indices.tolist())
        for seed in range(5)
    }
    assert len(choices) > 1


def test_margin_is_margin_in_both_houses():
    pool, classifier = problem(4)
    theirs = chosen_by(PeerStrategy(PEERS[3]), pool, classifier)
    ours = chosen_by(fewlabels.strategies.Margin(), pool, classifier)
    assert torch.equal(theirs.indices, ours.indices)


def test_a_wrapper_passes_the_classifier_on():
    pool, classifier = problem(4)
    wrapped = peers.SubSamplingWrapper(PEERS[3], max_candidates=1.0)
    theirs = chosen_by(PeerStrategy(wrapped), pool, classifier)
    ours = chosen_by(fewlabels.strategies.Margin(), pool, classifier)
    assert torch.equal(theirs.indices, ours.indices)


def test_coreset_sees_what_is_labeled():
    rows = np.array([[0.0], [1.0], [5.0], [9.0], [10.0]])
    strategy = PeerStrategy(peers.CoreSet())
    chosen = fewlabels.select(
        strategy, features=rows, labeled=[4], labels=[0], size=2, seed=0
    )
    assert chosen.tolist() == [0, 2]


def test_an_item_named_twice_is_asked_for_again():
    class Stutters(peers.RandomSampling):
        def query(self, X, y, candidates=None, batch_size=1, return_utilities=False):
            return [candidates[0]] * batch_size

    pool, classifier = problem(0)
    query = chosen_by(PeerStrategy(Stutters()), pool, classifier)
    assert query.indices.tolist() == pool.candidates[:5].tolist()
    assert query.record == {"peer": "Stutters", "asked": 5}


@pytest.mark.parametrize("seed", range(8))
def test_badge_names_no_item_twice_where_items_have_copies(seed):
    pool, classifier = problem(seed)
    first = torch.arange(len(pool)) % 6
    copies = PrecomputedClassifier(classifier.features[first], classifier.logits[first])
    query = chosen_by(PeerStrategy(peers.Badge()), pool, copies, size=10)
    assert len(set(query.indices.tolist())) == 10


def test_features_of_a_short_type_are_taken():
    pool, classifier = problem(0)
    short = PrecomputedClassifier(classifier.features.bfloat16(), classifier.logits)
    assert len(chosen_by(PeerStrategy(peers.Badge()), pool, short)) == 5


def test_it_runs_in_our_loop():
    pool = fewlabels.data.subset(fewlabels.load("digits"), [5] * 10)
    trainer = fewlabels.training.resolve("supervised", {"steps": 2})
    rounds = fewlabels.run(
        pool,
        strategy=PeerStrategy(peers.Badge()),
        trainer=trainer,
        start=10,
        query=4,
        budget=14,
        seed=0,
    )
    queries = [turn.query for turn in rounds]
    assert [len(query) for query in queries] == [4, 0]
    assert queries[0].record["peer"] == "Badge"


def test_labels_are_needed_by_peers():
    with pytest.raises(UsageError, match="2 labeled items have no class"):
        fewlabels.select(
            PeerStrategy(peers.CoreSet()),
            features=np.eye(5),
            labeled=[0, 1],
            size=1,
            seed=0,
        )


def test_a_peer_that_needs_predictions_says_so():
    with pytest.raises(UsageError, match="0 logits"):
        fewlabels.select(
            PeerStrategy(peers.Badge()), features=np.eye(5), size=1, seed=0
        )


def test_a_peer_that_needs_more_than_there_is_says_so():
    with pytest.raises(UsageError, match=r"QueryByCommittee\.query needs ensemble"):
        chosen_by(PeerStrategy(peers.QueryByCommittee()), *problem(0))


def test_a_peer_that_trains_is_refused():
    class Trains(peers.UncertaintySampling):
        def query(self, X, y, clf, candidates=None, batch_size=1):
            return clf.fit(X, y)

    with pytest.raises(UsageError, match="fit_clf=False"):
        chosen_by(PeerStrategy(Trains()), *problem(0))


def test_a_peer_that_invents_rows_is_refused():
    class Shifts(peers.UncertaintySampling):
        def query(self, X, y, clf, fit_clf=True, candidates=None, batch_size=1):
            return clf.predict_proba(X + 1)

    with pytest.raises(UsageError, match="row that is not in the pool"):
        chosen_by(PeerStrategy(Shifts()), *problem(0))


def test_predictions_belong_to_their_rows():
    seen = {}

    class Looks(peers.RandomSampling):
        def query(self, X, y, clf, candidates=None, batch_size=1):
            backward = X[::-1].astype(np.float64)
            seen["probabilities"] = clf.predict_proba(backward)[::-1]
            seen["classes"] = clf.predict(X)
            return candidates[:batch_size]

    pool, classifier = problem(0)
    chosen_by(PeerStrategy(Looks()), pool, classifier)
    wanted = classifier.logits.double().softmax(dim=1)
    np.testing.assert_allclose(seen["probabilities"], wanted.numpy())
    np.testing.assert_array_equal(seen["classes"], wanted.argmax(dim=1).numpy())


def test_equal_rows_have_the_prediction_of_the_first():
    pool, classifier = problem(0)
    same = torch.ones_like(classifier.features)
    strategy = PeerStrategy(peers.UncertaintySampling())
    query = chosen_by(strategy, pool, PrecomputedClassifier(same, classifier.logits))
    assert len(set(query.indices.tolist())) == 5


@pytest.mark.parametrize("wrong", [peers.Badge, "badge", ParzenWindowClassifier()])
def test_only_strategies_are_taken(wrong):
    with pytest.raises(UsageError, match="one annotator"):
        PeerStrategy(wrong)


def test_strategies_for_several_annotators_are_refused():
    with pytest.raises(UsageError, match="one annotator"):
        PeerStrategy(SingleAnnotatorWrapper(peers.RandomSampling()))
