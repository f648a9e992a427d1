import numpy as np
import pytest
from scipy import stats

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import (
    paired_tests,
    penalty_checkpoints,
    penalty_matrix,
)

RNG = np.random.default_rng(0)
NOISE = RNG.normal(scale=0.01, size=(5, 4))
GOOD = 0.9 + NOISE + RNG.normal(scale=0.001, size=(5, 4))
BAD = 0.8 + NOISE


def test_rows_are_winners_columns_are_losers_and_not_the_other_way_round():
    # Public code stores (loser, winner) and transposes only when it draws.
    found = penalty_matrix({"good": GOOD, "bad": BAD, "same": BAD})
    # The mean of a column, as the authors compute it.
    assert found.penalty == pytest.approx({"good": 0, "bad": 1 / 3, "same": 1 / 3})
    found = penalty_matrix({"good": GOOD, "bad": BAD})
    assert found.penalty == {"good": 0, "bad": 0.5}
    assert found.shares.tolist() == [[0, 1], [0, 0]]


def test_agrees_with_scipys_paired_test():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        one, other = rng.normal(size=(2, 5, 6)) + rng.normal(size=(2, 1, 6))
        found = penalty_matrix({"one": one, "other": other})
        test = stats.ttest_rel(one, other)
        wins = (test.pvalue < 0.05) & (test.statistic > 0)
        losses = (test.pvalue < 0.05) & (test.statistic < 0)
        assert found.shares[0, 1] == pytest.approx(wins.mean())
        assert found.shares[1, 0] == pytest.approx(losses.mean())


def test_the_same_difference_on_every_seed_beats_nobody():
    low = np.array([[0.8, 0.8], [0.7, 0.7], [0.6, 0.6]])
    high = low + 0.1  # 0.9 - 0.8 and 0.8 - 0.7 differ as floats
    high[:, 1] += [0.001, 0, 0.002]
    found = penalty_matrix({"high": high, "low": low})
    assert found.shares.tolist() == [[0, 0.5], [0, 0]]
    tests = [
        paired_tests({"high": high[:, k], "low": low[:, k]}, against="low")
        for k in range(2)
    ]
    assert [test.is_made for (test,) in tests] == [False, True]


@pytest.mark.parametrize(
    "given",
    [
        {"a": np.zeros((5, 3)), "b": np.zeros((4, 3))},
        {"a": np.zeros((1, 3))},
        {"a": np.zeros(3)},
        {},
    ],
)
def test_what_cannot_be_paired_is_refused(given):
    with pytest.raises(ShapeError, match="seeds"):
        penalty_matrix(given)


def test_what_was_not_measured_is_refused():
    holed = BAD.copy()
    holed[0, 0] = np.nan
    with pytest.raises(UsageError, match="1 of 20 numbers in 'bad' are not finite"):
        penalty_matrix({"good": GOOD, "bad": holed})


# -------------------------------------------------------- which measurements count


def authors_checkpoints(labels, random):
    """The rule of the BADGE authors' script, word by word."""
    accuracy_at = dict(zip(labels, random, strict=True))
    start, size = labels[0], labels[1] - labels[0]
    counted, number = [start], 1
    while True:
        amount = start + 2 ** (number - 1) * size
        if amount > labels[-1]:
            break
        if accuracy_at[amount] / random[-1] > 0.99:
            break
        counted.append(amount)
        number += 1
    return counted


def test_checkpoints_are_those_of_the_authors_script():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        labels = 10 + 5 * np.arange(rng.integers(2, 40))
        random = 1 - np.exp(-labels / 50) + rng.normal(scale=0.02, size=len(labels))
        found = labels[penalty_checkpoints(labels, random)].tolist()
        assert found == authors_checkpoints(labels.tolist(), random.tolist())


def test_what_lies_between_the_doublings_stops_nothing():
    labels = [10, 20, 30, 40, 50, 60, 70]
    found = penalty_checkpoints(labels, [0.1, 0.2, 0.3, 0.95, 0.4, 0.5, 0.9])
    assert found.tolist() == [0, 1, 2, 4]


def test_one_measurement_counts():
    assert penalty_checkpoints([10], [0.5]).tolist() == [0]


@pytest.mark.parametrize(
    ("labels", "random", "kind", "message"),
    [
        ([10, 20, 40], [0.1, 0.5, 0.9], UsageError, "30 labels are not in"),
        ([10, 20], [0.1], ShapeError, "give 2, one per entry"),
        ([20, 10], [0.1, 0.2], UsageError, "rising whole"),
        ([10, 20], [0.1, np.nan], UsageError, "1 of 2 numbers"),
    ],
)
def test_checkpoints_that_cannot_be_found_are_refused(labels, random, kind, message):
    with pytest.raises(kind, match=message):
        penalty_checkpoints(labels, random)
