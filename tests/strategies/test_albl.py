"""Expected numbers are worked out by hand, or by a twin that follows formulas."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from tests.strategies import contract

from fewlabels.errors import UsageError
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, WITHHELD, Answers, ArrayImages, Pool, Query, Round
from fewlabels.rng import stream
from fewlabels.strategies import (
    ActiveLearningByLearning,
    Coreset,
    Margin,
    resolve,
)


class First:
    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates[:size], 0.5, {"mark": "first"})


class Last:
    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(pool.candidates.flip(0)[:size])


ARMS = (First(), Last())
BATCH = ActiveLearningByLearning(arms=ARMS)


def small_pool(num_items=12, num_labeled=2, budget=None):
    labels = torch.full((num_items,), UNKNOWN)
    labels[:num_labeled] = 0
    images = ArrayImages(torch.zeros(num_items, 1))
    return replace(Pool.build(images, labels, ["a", "b"]), budget=budget)


def right_on(items, num_items=12):
    """A classifier that says class 0 for these items, and 1 for all others."""
    logits = torch.tensor([[0.0, 1.0]]).repeat(num_items, 1)
    logits[list(items)] = torch.tensor([1.0, 0.0])
    return PrecomputedClassifier(torch.zeros(num_items, 1), logits)


def a_round(query, pool, answered=None):
    """The round that asked, where everything is of class 0, and the pool after it."""
    indices = query.indices if answered is None else torch.tensor(answered)
    answers = Answers(indices, torch.zeros_like(indices))
    done = Round(
        step=0,
        num_labeled=0,
        class_counts=(),
        accuracy=None,
        query=query,
        answers=answers,
    )
    return done, pool.with_answers(answers)


def asked(strategy, classifier, pool, history=(), *, size=2, seed=0):
    return strategy.select(
        classifier, pool, size, stream(seed, "query"), history=history
    )


def asked_by(arm, *arguments):
    """The query of the first seed with which this arm answers."""
    queries = (asked(BATCH, *arguments, seed=seed) for seed in range(50))
    return next(query for query in queries if query.record["albl"]["chosen"] == arm)


# -------------------------------------------------------------------------- weights


def test_batch_weights_of_three_rounds_by_hand():
    # K = 2, p_min = 1 / 20, delta = 0.1: sqrt(ln(2 / 0.1) / 2) = 1.2238734.
    pool = small_pool()
    first = asked_by(0, right_on([]), pool)
    state = first.record["albl"]
    assert state["weights"] == [1.0, 1.0]
    assert state["probabilities"] == pytest.approx([0.5, 0.5])
    assert state["reward"] is None
    assert first.indices.tolist() == [2, 3]
    assert first.value == 0.5
    assert first.record["mark"] == "first"

    # Right on item 0 (importance 1) and item 2 (importance 0.5), wrong on 1 and 3:
    # reward = (1 + 0 + 1 / 0.5 + 0) / 4 = 0.75
    # w_0 = exp(0.05 / 2 (0.75 + 1.2238734 / 0.5)) = exp(0.0799437) = 1.0832260
    # p_0 = 0.9 * 1.0832260 / 2.0832260 + 0.05 = 0.5179778
    one, pool = a_round(first, pool)
    second = asked_by(1, right_on([0, 2]), pool, [one])
    state = second.record["albl"]
    assert state["reward"] == pytest.approx(0.75)
    assert state["weights"] == pytest.approx([1.0832260, 1.0], abs=1e-6)
    assert state["probabilities"] == pytest.approx([0.5179778, 0.4820222], abs=1e-6)
    assert second.indices.tolist() == [11, 10]

    # Right on all six: reward = (1 + 1 + 2 + 2 + 2 / 0.4820222) / 6 = 1.6915312
    # w_1 = exp(0.025 (1.6915312 + 1.2238734 / 0.4820222)) = exp(0.1057643) = 1.1115598
    # p_0 = 0.9 * 1.0832260 / 2.1947858 + 0.05 = 0.4941906
    two, pool = a_round(second, pool)
    third = asked(BATCH, right_on(range(12)), pool, [one, two])
    state = third.record["albl"]
    assert state["reward"] == pytest.approx(1.6915312, abs=1e-6)
    assert state["weights"] == pytest.approx([1.0832260, 1.1115598], abs=1e-6)
    assert state["probabilities"] == pytest.approx([0.4941906, 0.5058094], abs=1e-6)


def twin_of_batch(pool, classifiers, queries, num_arms=2, delta=0.1):
    """Weights before each query, by the formulas of the batch version."""
    least = 1 / (10 * num_arms)
    weights, importance = [1.0] * num_arms, dict.fromkeys(pool.labeled.tolist(), 1.0)
    expected, chosen, chance = [], None, None
    for number, (classifier, query) in enumerate(
        zip(classifiers, queries, strict=True)
    ):
        if number:
            predicted = classifier.logits.argmax(dim=1)
            gains = [(int(predicted[i]) == 0) / importance[i] for i in importance]
            bonus = math.sqrt(math.log(num_arms / delta) / num_arms) / chance
            reward = sum(gains) / len(gains)
            weights[chosen] *= math.exp(least / 2 * (reward + bonus))
        expected.append(list(weights))
        chosen = query.record["albl"]["chosen"]
        chance = (1 - num_arms * least) * weights[chosen] / sum(weights) + least
        importance |= dict.fromkeys(query.indices.tolist(), chance)
    return expected


def play(strategy, pool, classifiers, seed, size=2):
    queries, history = [], []
    for number, classifier in enumerate(classifiers):
        query = asked(
            strategy, classifier, pool, history, size=size, seed=100 * seed + number
        )
        done, pool = a_round(query, pool)
        queries.append(query)
        history.append(done)
    return queries


def some_classifiers(seed, number=4):
    generator = stream(seed, "classifiers")
    return [
        PrecomputedClassifier(
            torch.zeros(12, 1), torch.randn(12, 2, generator=generator)
        )
        for _ in range(number)
    ]


def test_batch_agrees_with_its_formulas_on_a_hundred_problems():
    chosen = Counter()
    for seed in range(100):
        pool, classifiers = small_pool(num_labeled=1 + seed % 3), some_classifiers(seed)
        queries = play(BATCH, pool, classifiers, seed)
        states = [query.record["albl"] for query in queries]
        expected = twin_of_batch(pool, classifiers, queries)
        for state, weights in zip(states, expected, strict=True):
            assert state["weights"] == pytest.approx(weights)
            chosen[state["chosen"]] += 1
    assert set(chosen) == {0, 1}


def test_arms_are_chosen_by_their_chance():
    # After a heavy past the second arm has 0.9 * 0.8 + 0.05 = 0.77.
    pool = small_pool()
    query = asked_by(0, right_on([]), pool)
    state = query.record["albl"] | {"weights": [1.0, 4.0], "importance": 1e9}
    one, _ = a_round(replace(query, record={"albl": state}), pool)
    nothing_learned = replace(small_pool(num_labeled=0), candidates=pool.candidates)
    chosen = Counter(
        asked(BATCH, right_on([]), nothing_learned, [one], seed=seed).record["albl"][
            "chosen"
        ]
        for seed in range(400)
    )
    assert 0.71 < chosen[1] / 400 < 0.83  # three standard deviations


def test_rounds_of_another_strategy_and_open_items_count_as_nothing():
    pool = small_pool()
    other, pool = a_round(Query(torch.tensor([5])), pool)
    first = asked_by(0, right_on([]), pool, [other])
    assert first.record["albl"]["weights"] == [1.0, 1.0]
    one, pool = a_round(first, pool, answered=[2])  # item 3 is left open
    second = asked(BATCH, right_on([0, 2]), pool, [other, one])
    # Items 0, 1 and 5 have importance 1, item 2 has 0.5: (1 + 0 + 0 + 2) / 4.
    assert second.record["albl"]["reward"] == pytest.approx(0.75)


def test_weights_stay_finite_however_long_it_goes_on():
    pool = small_pool()
    query = asked_by(0, right_on([]), pool)
    state = query.record["albl"] | {"weights": [1e100, 5e99]}
    one, pool = a_round(replace(query, record={"albl": state}), pool)
    weights = asked(BATCH, right_on([0, 2]), pool, [one]).record["albl"]["weights"]
    assert weights == pytest.approx([1.0, 0.5 / 1.0832260], abs=1e-6)


# ------------------------------------------------------------------------- refusals


def test_labels_without_classes_are_refused_once_they_are_needed():
    pool = small_pool()
    one, later = a_round(asked_by(0, right_on([]), pool), pool)
    labels = later.labels.clone()
    labels[:2] = WITHHELD
    with pytest.raises(UsageError, match="2 labeled items have no class"):
        asked(BATCH, right_on([]), replace(later, labels=labels), [one])


def test_arms_are_found_by_name_path_and_options():
    path = "tests.strategies.test_albl:First"
    named = {"name": "coreset", "method": "robust"}
    arms = ["margin", path, named, ARMS[1]]
    found = resolve("albl", {"arms": arms, "delta": 0.2})
    assert found.delta == 0.2
    assert found.arms[0] == Margin()
    assert type(found.arms[1]).__name__ == "First"
    assert found.arms[2:] == (Coreset(method="robust"), ARMS[1])
    assert arms == ["margin", path, named, ARMS[1]]
    query = asked(found, right_on([]), small_pool())
    assert query.record["albl"]["arms"] == ["Margin", "First", "Coreset", "Last"]


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("margn", "Did you mean 'margin'"),
        ({"name": "coreset", "methd": "robust"}, "Did you mean 'method'"),
        (
            {"method": "robust"},
            r"The arm \{'method': 'robust'\} has no name; give",
        ),
        (3, "3 is not a strategy"),
    ],
)
def test_an_arm_that_stands_for_nothing_is_refused(arm, words):
    with pytest.raises(UsageError, match=words):
        resolve("albl", {"arms": ["margin", arm]})


def test_arms_that_are_no_list_are_refused():
    with pytest.raises(UsageError, match="could not be made with the options"):
        resolve("albl", {"arms": 3})


def test_the_default_arms_are_told():
    pool, classifier = contract.problem(0)
    state = contract.chosen_by(ActiveLearningByLearning(), pool, classifier).record
    assert state["albl"]["arms"][0] == "LeastConfidence"
