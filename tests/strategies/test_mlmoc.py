from dataclasses import replace

import pytest
import torch
from tests.strategies import contract
from tests.strategies.twins import gaussian as twin
from tests.strategies.twins.problems import gram_of, small_problem

import fewlabels
from fewlabels.errors import UsageError
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.strategies import MostLikelyOutputChange


@pytest.mark.parametrize("kernel", ["last-layer", "wide-head"])
def test_agrees_with_retraining_on_a_hundred_problems(kernel):
    for seed in range(50):
        pool, classifier = small_problem(seed)
        ridge = [1e-3, 0.1][seed % 2]
        strategy = MostLikelyOutputChange(kernel=kernel, ridge=ridge)
        query = contract.chosen_by(strategy, pool, classifier, size=3)
        gram = gram_of(kernel, classifier)
        expected, first = twin.most_change(
            gram,
            classifier.logits.double().numpy(),
            pool.labeled.tolist(),
            pool.labels[pool.labeled].tolist(),
            pool.candidates.tolist(),
            3,
            ridge * gram.diagonal().mean(),
        )
        assert query.indices.tolist() == expected
        assert query.record["first_change"] == pytest.approx(first, rel=1e-6)


def test_top_takes_the_largest_changes_of_single_items():
    for seed in range(20):
        pool, classifier = small_problem(seed)
        strategy = MostLikelyOutputChange(kernel="wide-head", several="top")
        query = contract.chosen_by(strategy, pool, classifier, size=4)
        gram = gram_of("wide-head", classifier)
        candidates = pool.candidates.tolist()
        scores = twin.changes(
            gram,
            classifier.logits.double().numpy(),
            pool.labeled.tolist(),
            pool.labels[pool.labeled].tolist(),
            candidates,
            1e-3 * gram.diagonal().mean(),
        )
        ranked = sorted(zip(scores, candidates, strict=True), reverse=True)
        assert query.indices.tolist() == [item for _, item in ranked[:4]]


def test_one_by_one_sees_copies_and_top_does_not():
    pool, classifier = contract.problem(2, num_labeled=0)
    pool = replace(pool, candidates=torch.arange(len(pool)))
    copies = PrecomputedClassifier(
        classifier.features[:12].repeat(5, 1), classifier.logits[:12].repeat(5, 1)
    )

    def num_distinct(several):
        strategy = MostLikelyOutputChange(kernel="wide-head", several=several)
        return len(
            set((contract.chosen_by(strategy, pool, copies).indices % 12).tolist())
        )

    assert num_distinct("top") == 1
    assert num_distinct("one-by-one") == 5


def test_what_fits_its_own_prediction_changes_nothing():
    pool, classifier = contract.problem(3, num_labeled=0)
    logits = classifier.logits.clone()
    settled = pool.candidates[::2]
    logits[settled] = torch.tensor([1.0, -1.0, -1.0, -1.0])
    query = contract.chosen_by(
        MostLikelyOutputChange(several="top"),
        pool,
        PrecomputedClassifier(classifier.features, logits),
    )
    assert not set(query.indices.tolist()) & set(settled.tolist())


def test_labels_that_are_not_given_are_asked_for():
    _, classifier = contract.problem(4)
    with pytest.raises(UsageError, match="2 labeled items have no class"):
        fewlabels.select(
            "mlmoc",
            features=classifier.features,
            logits=classifier.logits,
            labeled=[0, 1],
            size=3,
            seed=0,
        )
