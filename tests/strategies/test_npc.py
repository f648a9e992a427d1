from dataclasses import replace

import pytest
import torch
from tests import reference
from tests.sizes import seeds
from tests.strategies import contract

from fewlabels import strategies
from fewlabels.errors import DegenerateGramWarning, UsageError
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, Answers, ArrayImages, Pool, Query, Round
from fewlabels.rng import fork, stream
from fewlabels.search import uniform_subsets
from fewlabels.strategies import NeuralPreconditioning


def test_algorithm_1_by_its_definition():
    pool, classifier = contract.problem(0)
    query = contract.chosen_by(
        NeuralPreconditioning(kernel="last-layer", draws=50), pool, classifier
    )
    features = classifier.outputs(pool.images, torch.arange(60)).features
    gram = reference.last_layer_gram(features, contract.NUM_CLASSES)
    key = fork(stream(0, "query"))
    draws = uniform_subsets(pool.candidates, 5, key, range(50))
    expected, value = reference.best_draw(gram, pool.labeled, draws)
    assert query.indices.tolist() == expected
    assert query.value == pytest.approx(value)
    assert query.record["kernel"] == "last-layer"
    assert query.record["draws"] == 50
    assert query.record["tie"] is False
    assert query.value <= query.record["ceiling"]


def test_of_logits_the_choice_has_no_prediction_in_it():  # against Sec. 3.2.1
    pool, classifier = contract.problem(1)
    outputs = classifier.outputs(pool.images, torch.arange(60))

    def chosen(logits, kernel):
        other = PrecomputedClassifier(outputs.features, logits)
        strategy = NeuralPreconditioning(kernel=kernel)
        return contract.chosen_by(strategy, pool, other).indices.tolist()

    logits, turned = outputs.logits, outputs.logits.flip(0)
    assert chosen(logits, "last-layer") == chosen(turned, "last-layer")
    assert chosen(logits, "softmax") != chosen(turned, "softmax")


def test_direction_and_length_of_gradients_both_count():  # paper, Sec. 3.3
    # One labeled item, then one in nearly the same direction and one far from it.
    rows = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.3, -(0.91**0.5)]])
    labels = torch.tensor([0, UNKNOWN, UNKNOWN])
    pool = Pool.build(ArrayImages(rows), labels, ["a"])

    def chosen(scale, **options):
        classifier = PrecomputedClassifier(rows * scale, torch.zeros(3, 1))
        strategy = NeuralPreconditioning(
            kernel="last-layer", tie_tolerance=0, **options
        )
        return contract.chosen_by(strategy, pool, classifier, 1).indices.tolist()

    # The kernel adds 1 to each product, so the features are long against that 1.
    lengths = torch.tensor([[10.0], [10.0], [1.0]])
    assert chosen(10) == [2]
    assert chosen(lengths) == [1]
    assert chosen(lengths, normalize=True) == [2]


@pytest.mark.parametrize("seed", seeds(20))
def test_without_a_tolerance_the_best_draw_wins_however_close(seed):
    chance = stream(seed, "close")
    features = torch.randn(200, 80, generator=chance)
    labels = torch.full((200,), UNKNOWN)
    labels[torch.randperm(200, generator=chance)[:50]] = 0
    pool = Pool.build(ArrayImages(features), labels, ["a", "b"])
    classifier = PrecomputedClassifier(features, torch.zeros(200, 2))
    size = (1, 1, 2, 5)[seed % 4]
    literal = NeuralPreconditioning(kernel="last-layer", tie_tolerance=0)
    query = contract.chosen_by(literal, pool, classifier, size=size)
    rows = torch.cat([features, torch.ones(200, 1)], dim=1).double()
    key = fork(stream(0, "query"))
    draws = uniform_subsets(pool.candidates, size, key, range(150))
    expected, _ = reference.best_draw(2 * rows @ rows.T, pool.labeled, draws)
    assert query.indices.tolist() == expected


def test_by_default_a_thousandth_of_the_ceiling_is_a_tie():
    # With item 0 labeled the ceiling is 2. Item 2 reaches it, and item 1 nearly does
    # and is explained far less.
    rows = torch.tensor([[1.0, 0, 0], [-0.7, 10, 0], [-1, 0, 2]])
    pool = Pool.build(ArrayImages(rows), torch.tensor([0, UNKNOWN, UNKNOWN]), ["a"])
    classifier = PrecomputedClassifier(rows, torch.zeros(3, 1))
    chosen = [
        contract.chosen_by(strategy, pool, classifier, size=1).indices.tolist()
        for strategy in (
            NeuralPreconditioning(kernel="last-layer", draws=20),
            NeuralPreconditioning(kernel="last-layer", draws=20, tie_tolerance=0),
        )
    ]
    assert chosen == [[1], [2]]


@pytest.mark.parametrize("kernel", ["auto", "last-layer", "wide-head"])
@pytest.mark.parametrize("method", ["random", "greedy"])
@pytest.mark.parametrize("num_labeled", [0, 1, 8])
def test_a_tie_of_copies_is_reported(kernel, method, num_labeled):
    pool, _ = contract.problem(1, num_labeled=num_labeled)
    copies = PrecomputedClassifier(torch.ones(60, 16), torch.zeros(60, 4))
    strategy = NeuralPreconditioning(kernel=kernel, method=method)
    message = f"{num_labeled + 5} items .* no set of 5 scores .* Take copies out"
    with pytest.warns(DegenerateGramWarning, match=message):
        query = contract.chosen_by(strategy, pool, copies)
    assert query.record["tie"] is True


def test_a_kernel_is_advised_where_it_helps():
    pool, classifier = contract.problem(1)
    flat = classifier.features.clone()
    flat[:, 3:] = 0
    flat_classifier = PrecomputedClassifier(flat, torch.zeros(60, 4))
    literal = NeuralPreconditioning(kernel="last-layer")
    with pytest.warns(DegenerateGramWarning, match="use kernel='wide-head'"):
        contract.chosen_by(literal, pool, flat_classifier)
    wide = NeuralPreconditioning(kernel="wide-head")
    query = contract.chosen_by(wide, pool, flat_classifier)
    assert query.record["tie"] is False


@pytest.mark.parametrize(
    ("budget", "kernel"), [(15, "last-layer"), (16, "wide-head"), (None, "last-layer")]
)
def test_auto_decides_by_the_budget(budget, kernel):  # rank 17, so at most 15.3
    pool, classifier = contract.problem(2)
    pool = replace(pool, budget=budget)
    query = contract.chosen_by(NeuralPreconditioning(), pool, classifier)
    assert query.record["kernel"] == kernel


def test_auto_decides_once_per_run():
    pool, classifier = contract.problem(3)
    earlier = Round(
        step=0,
        num_labeled=3,
        class_counts=(1, 1, 1, 0),
        accuracy=None,
        query=Query(record={"kernel": "wide-head"}),
        answers=Answers(),
    )
    query = NeuralPreconditioning().select(
        classifier, pool, 5, stream(0), history=[earlier]
    )
    assert query.record["kernel"] == "wide-head"


@pytest.mark.parametrize("kernel", ["last-layer", "wide-head"])
def test_copies_are_not_chosen_while_other_sets_are_drawn(kernel):  # Proposition 1
    pool, classifier = contract.problem(4)
    rows = classifier.outputs(pool.images, torch.arange(60)).features[:15].repeat(4, 1)
    copies = PrecomputedClassifier(rows, torch.zeros(60, 2))
    with pytest.warns(DegenerateGramWarning, match="Take copies out of the pool"):
        query = contract.chosen_by(  # a tie: labeled items copy each other
            NeuralPreconditioning(kernel=kernel, draws=3000), pool, copies, size=3
        )
    originals = [index % 15 for index in query.indices.tolist()]
    assert len(set(originals)) == 3
    assert not set(originals) & {index % 15 for index in pool.labeled.tolist()}


def test_processes_change_neither_choice_nor_record():
    pool, classifier = contract.problem(0)
    one, two = (
        contract.chosen_by(
            strategies.resolve("npc", {"draws": 20_000, "processes": count}),
            pool,
            classifier,
        )
        for count in (1, 2)
    )
    assert two.indices.tolist() == one.indices.tolist()
    assert (two.value, two.record) == (one.value, one.record)
    with pytest.raises(UsageError, match="processes is 0; it must be at least 1"):
        strategies.resolve("npc", {"processes": 0})
