from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

import fewlabels
from fewlabels.errors import (
    BudgetError,
    DataError,
    NotFiniteError,
    StrategyError,
    UsageError,
)
from fewlabels.experiments.acquisition import (
    TableOracle,
    hidden,
    rounds,
    starting_answers,
)
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import UNKNOWN, Answers, ArrayImages, Pool, Query, Split
from fewlabels.protocols import Outputs
from fewlabels.rng import stream
from fewlabels.strategies import Random

NUM_CLASSES = 4


def labeled_pool(num_items=80):
    generator = stream(0, "pool")
    images = torch.randint(0, 256, (num_items, 1, 4, 4), generator=generator)
    labels = torch.arange(num_items) % NUM_CLASSES
    return Pool.build(
        ArrayImages(images.to(torch.uint8)),
        labels,
        classes=tuple("abcd"),
        test=Split(ArrayImages(images[:20].to(torch.uint8)), labels[:20]),
    )


@dataclass(frozen=True)
class PixelTrainer:
    """Knows the class of labeled images, guesses the rest; notes what it saw."""

    seen: list = field(default_factory=list)

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=None):
        self.seen.append(
            {
                "labeled": pool.labeled.tolist(),
                "test": pool.test,
                "budget": pool.budget,
                "number": int(torch.randint(2**40, (1,), generator=generator)),
                "workspace": workspace,
            }
        )
        features = pool.images.read(torch.arange(len(pool))).flatten(1).float()
        logits = torch.zeros(len(pool), pool.num_classes)
        logits[pool.labeled, pool.labels[pool.labeled]] = 1.0
        return PrecomputedClassifier(features, logits)


def run(**changes):
    trainer = PixelTrainer()
    arguments = {"strategy": "random", "start": 4, "query": 8, "budget": 24, "seed": 0}
    finished = list(
        fewlabels.run(labeled_pool(), trainer=trainer, **arguments | changes)
    )
    return finished, trainer.seen


def test_rounds_go_from_the_start_to_the_budget():
    finished, seen = run()
    assert [done.num_labeled for done in finished] == [4, 12, 20, 24]
    assert [len(done.query) for done in finished] == [8, 8, 4, 0]
    assert [done.step for done in finished] == [0, 1, 2, 3]
    assert [sum(done.class_counts) for done in finished] == [4, 12, 20, 24]
    assert finished[0].class_counts == (1, 1, 1, 1)
    for done, fit in zip(finished, seen, strict=True):
        assert len(fit["labeled"]) == done.num_labeled
    asked = torch.cat([done.query.indices for done in finished])
    assert len(set(asked.tolist()) | set(seen[0]["labeled"])) == 24


def test_accuracy_is_the_share_of_the_test_split_that_is_right():
    finished, seen = run()
    for done, fit in zip(finished, seen, strict=True):
        known = set(fit["labeled"])
        truth = [index % NUM_CLASSES for index in range(20)]
        guesses = [truth[i] if i in known else 0 for i in range(20)]
        right = sum(a == b for a, b in zip(guesses, truth, strict=True))
        assert done.accuracy == pytest.approx(right / 20)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    def picks(**changes):
        return [done.query.indices.tolist() for done in run(**changes)[0]]

    assert picks() == picks()
    assert picks() != picks(seed=1)


@pytest.mark.parametrize("strategy", ["npc", "margin"])
def test_a_strategy_leaves_the_start_and_the_training_stream_alone(strategy):
    _, passive = run()
    _, active = run(strategy=strategy)
    assert passive[0]["labeled"] == active[0]["labeled"]
    assert [fit["number"] for fit in passive] == [fit["number"] for fit in active]
    assert len({fit["number"] for fit in passive}) == len(passive)


def test_nothing_that_measures_is_seen_by_the_trainer():
    _, seen = run()
    assert all(fit["test"] is None for fit in seen)
    assert all(fit["budget"] == 24 for fit in seen)


def test_a_run_can_begin_with_nothing():
    finished, seen = run(start=0, strategy="npc")
    assert [done.num_labeled for done in finished] == [0, 8, 16, 24]
    assert seen[0]["labeled"] == []


def test_a_budget_that_is_spent_at_once_trains_once():
    finished, _ = run(start=4, budget=4, query=99)
    assert [done.num_labeled for done in finished] == [4]
    assert len(finished[0].query) == 0


def test_an_uneven_start_differs_by_one_label_at_most():
    finished, _ = run(start=6, budget=14)
    assert sorted(finished[0].class_counts) == [1, 1, 2, 2]


def test_items_without_a_label_are_never_asked():
    pool = labeled_pool()
    labels = pool.labels.clone()
    labels[::2] = UNKNOWN
    pool = replace(pool, labels=labels, candidates=torch.arange(0, 80, 2))
    done = list(
        fewlabels.run(
            pool,
            strategy="random",
            trainer=PixelTrainer(),
            start=0,
            query=20,
            budget=40,
        )
    )
    asked = torch.cat([one.query.indices for one in done])
    assert set((asked % 2).tolist()) == {1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 3}, "start is 4, .* budget 3; "),
        ({"budget": 81}, "budget is 81; 80 items"),
        ({"query": 21}, r"query \[21\] and budget 24; .* start \+ query or more"),
        ({"query": 0}, r"query \[0\] .* ask for 1 or more"),
        ({"query": []}, "ask for 1 or more"),
        ({"query": [8, 0]}, "ask for 1 or more"),
        ({"start": -1}, "start is -1, .* start with 0 or more"),
        ({"initial_models": 0}, "initial_models is 0; give at least one"),
        ({"start": 0, "budget": 0}, "budget 0; start with 0"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_before_training(changes, message):
    arguments = {"start": 4, "query": 8, "budget": 24} | changes
    with pytest.raises(BudgetError, match=message):
        fewlabels.run(labeled_pool(), trainer=PixelTrainer(), **arguments)


def test_a_class_too_small_for_the_start_is_named():
    pool = fewlabels.data.subset(labeled_pool(), [2, 20, 20, 20])
    with pytest.raises(BudgetError, match="takes 4 of class 'a', which has 2 items"):
        fewlabels.run(pool, trainer=PixelTrainer(), start=16, query=1, budget=20)


def test_a_pool_without_labels_cannot_be_simulated():
    pool = hidden(labeled_pool(), 10)
    with pytest.raises(DataError, match="None of the 80 items has a label"):
        fewlabels.run(pool, trainer=PixelTrainer(), start=4, query=8, budget=24)


def test_the_median_of_several_starts_is_kept_and_the_test_split_decides_nothing():
    pool = labeled_pool()
    trainer = PixelTrainer()
    answers = starting_answers(pool, 4, 0, trainer=trainer, num_models=3)
    tried = [fit["labeled"] for fit in trainer.seen]
    assert len({tuple(labeled) for labeled in tried}) == 3
    assert sorted(answers.indices.tolist()) in tried
    assert sorted(answers.labels.tolist()) == [0, 1, 2, 3]
    assert len({fit["number"] for fit in trainer.seen}) == 1  # round 0 repeats it
    without_test = replace(pool, test=None)
    again = starting_answers(without_test, 4, 0, trainer=PixelTrainer(), num_models=3)
    assert torch.equal(answers.indices, again.indices)


class OneGoodStart(PixelTrainer):
    """The number of the fit decides how many of the held-out images are right."""

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=None):
        super().fit(pool, generator)
        trial = len(self.seen) - 1
        return ConstantClassifier((7, 90, 45)[trial])


@dataclass(frozen=True)
class ConstantClassifier:
    """Says the truth, read off the pixels, for this percentage of the items."""

    percent: int
    num_classes = NUM_CLASSES
    module = None

    def outputs(self, images, indices):
        truth = images.read(indices)[:, 0, 0, 0].long() % NUM_CLASSES
        is_told = torch.arange(len(indices)) < len(indices) * self.percent // 100
        guess = torch.where(is_told, truth, (truth + 1) % NUM_CLASSES)
        return Outputs(
            torch.zeros(len(indices), 1), one_hot(guess, NUM_CLASSES).float()
        )


def test_the_middle_one_is_kept_not_the_best():
    pool = labeled_pool()
    pixels = pool.images.items.clone()
    pixels[:, 0, 0, 0] = pool.labels.to(torch.uint8)
    pool = replace(pool, images=ArrayImages(pixels))
    trainer = OneGoodStart()
    answers = starting_answers(pool, 4, 0, trainer=trainer, num_models=3)
    assert sorted(answers.indices.tolist()) == trainer.seen[2]["labeled"]


@dataclass(frozen=True)
class JudgedTrainer(PixelTrainer):
    """Notes which images each of its classifiers is asked about."""

    judged: list = field(default_factory=list)

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=None):
        super().fit(pool, generator)
        return NotedClassifier(self.judged)


@dataclass(frozen=True)
class NotedClassifier:
    """Guesses at nothing; notes the first pixel of what it is shown."""

    judged: list
    num_classes = NUM_CLASSES
    module = None

    def outputs(self, images, indices):
        self.judged.append(images.read(indices)[:, 0, 0, 0].tolist())
        return Outputs(
            torch.zeros(len(indices), 1), torch.zeros(len(indices), NUM_CLASSES)
        )


def test_starts_are_judged_on_all_images_that_are_in_none_of_them():
    pool = labeled_pool()
    pixels = pool.images.items.clone()
    pixels[:, 0, 0, 0] = torch.arange(len(pool)).to(torch.uint8)
    trainer = JudgedTrainer()
    pool = replace(pool, images=ArrayImages(pixels))
    starting_answers(pool, 4, 0, trainer=trainer, num_models=5)
    taken = set().union(*(fit["labeled"] for fit in trainer.seen))
    free = [index for index in range(len(pool)) if index not in taken]
    assert trainer.judged == [free] * 5


class HalfPerson:
    """Answers the first half, skips one, leaves the rest open; then goes home."""

    def __init__(self, labels, patience):
        self.table, self.patience = TableOracle(labels), patience

    def answer(self, query):
        self.patience -= 1
        if self.patience < 0:
            return Answers()
        everything = self.table.answer(query)
        half = len(query) // 2
        return Answers(
            everything.indices[:half], everything.labels[:half], query.indices[-1:]
        )


def test_a_partial_answer_leaves_the_rest_to_be_asked_again():
    truth = labeled_pool()
    finished = list(
        rounds(
            hidden(truth, 40),
            trainer=PixelTrainer(),
            strategy=Random(),
            oracle=HalfPerson(truth.labels, patience=3),
            query=8,
            budget=40,
            seed=0,
            test=None,
        )
    )
    assert [done.num_labeled for done in finished] == [0, 4, 8, 12]
    assert all(done.accuracy is None for done in finished)
    skipped = torch.cat([done.answers.skipped for done in finished])
    later = torch.cat([done.query.indices for done in finished[1:]])
    assert not set(skipped[:1].tolist()) & set(later.tolist())


def test_history_goes_on_where_it_stopped():
    truth = labeled_pool()

    def go(pool, history=()):
        return rounds(
            pool,
            trainer=PixelTrainer(),
            strategy=Random(),
            oracle=TableOracle(truth.labels),
            query=8,
            budget=24,
            seed=5,
            test=truth.test,
            history=history,
        )

    whole = list(go(hidden(truth, 24)))
    begun = list(islice(go(hidden(truth, 24)), 2))
    pool = hidden(truth, 24)
    for done in begun:
        pool = pool.with_answers(done.answers)
    rest = list(go(pool, begun))
    assert [d.step for d in begun + rest] == [d.step for d in whole]
    for one, other in zip(begun + rest, whole, strict=True):
        assert torch.equal(one.query.indices, other.query.indices)
        assert one.accuracy == other.accuracy


@dataclass(frozen=True)
class Fixed:
    """A strategy that returns what it was told to, whatever it is asked."""

    indices: tuple

    def select(self, classifier, pool, size, generator, *, history=()):
        return Query(torch.tensor(self.indices, dtype=torch.int64))


@pytest.mark.parametrize(
    ("indices", "seen"),
    [
        ((3, 3, 5), "3 items, 2 distinct and 0 no candidates"),
        ((3, 5), "2 items, 2 distinct"),
        ((0, 3, 5), "1 no candidates, such as 0"),
        ((3, 5, 99), "1 no candidates, such as 99"),
        ((), "returned 0 items"),
    ],
)
def test_a_strategy_that_breaks_its_promise_is_stopped(indices, seen):
    truth = labeled_pool()
    pool = hidden(truth, 40).with_answers(
        Answers(torch.tensor([0, 1]), truth.labels[[0, 1]])
    )
    broken = rounds(
        pool,
        trainer=PixelTrainer(),
        strategy=Fixed(indices),
        oracle=TableOracle(truth.labels),
        query=3,
        budget=40,
        seed=0,
        test=None,
    )
    with pytest.raises(StrategyError, match=seen):
        next(broken)


@pytest.mark.parametrize("pool", ["digits", None, torch.zeros(4, 1, 2, 2)])
def test_a_run_needs_a_pool(pool):
    message = r"pool is .*; load one with fewlabels.load"
    with pytest.raises(UsageError, match=f"(?s){message}"):
        fewlabels.run(pool)


@pytest.mark.parametrize("name", ["start", "query", "budget", "seed", "initial_models"])
@pytest.mark.parametrize("value", [4.0, "4", None, True])
def test_numbers_of_a_run_are_whole(name, value):
    with pytest.raises(UsageError, match=f"{name} is .*, of type .*; give a whole"):
        run(**{name: value})


def test_numbers_of_a_run_may_come_from_numpy():
    numbers = {"start": 4, "query": 8, "budget": 24, "seed": 0, "initial_models": 1}
    numbers = {name: np.int64(number) for name, number in numbers.items()}
    picks = [done.query.indices.tolist() for done in run(**numbers)[0]]
    assert picks == [done.query.indices.tolist() for done in run()[0]]
    assert type(run(**numbers)[1][0]["budget"]) is int


def test_a_record_is_checked_before_the_answers_are_paid_for():
    class Noting:
        def select(self, classifier, pool, size, generator, *, history=()):
            return Query(pool.candidates[:size], None, {"rows": torch.zeros(2)})

    with pytest.raises(StrategyError, match=r"record is {'rows': tensor"):
        run(strategy=Noting())


@dataclass(frozen=True)
class Lost:
    """A trainer whose network broke down: its logits of two items are not finite."""

    value: float

    def fit(self, pool, generator, *, workspace=None, on_checkpoint=None):
        rows = torch.rand(len(pool), 3, generator=generator)
        logits = torch.rand(len(pool), NUM_CLASSES, generator=generator)
        logits[[70, 71], 1] = self.value
        return PrecomputedClassifier(rows, logits, logits.expand(20, -1, -1))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", sorted({*fewlabels.strategies.names()} - {"random"}))
def test_a_strategy_gets_no_outputs_that_are_not_finite(name, value):
    pool = replace(labeled_pool(), test=None)
    with pytest.raises(NotFiniteError, match=r"2 of \d+ .* are NaN or infinite"):
        list(fewlabels.run(pool, strategy=name, trainer=Lost(value), start=4, query=5))


def test_no_accuracy_is_computed_from_outputs_that_are_not_finite():
    pool = labeled_pool()
    wide = replace(pool, test=Split(pool.images, pool.labels))
    asked = fewlabels.run(wide, strategy="random", trainer=Lost(float("nan")), start=4)
    with pytest.raises(NotFiniteError, match=r"2 of .* index 70"):
        next(asked)


def test_large_outputs_are_finite_though_their_sum_is_not():
    rows = torch.full((3, 2), torch.finfo(torch.float32).max)
    assert Outputs(rows, rows).logits is rows


def test_several_query_sizes_are_those_of_the_first_rounds():
    finished, _ = run(start=4, budget=17, query=[2, 5])
    assert [done.num_labeled for done in finished] == [4, 6, 11, 16, 17]
