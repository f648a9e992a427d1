import numpy as np
import pytest
from scipy import stats

from fewlabels.errors import ShapeError, UsageError
from fewlabels.evaluation import penalty_checkpoints, penalty_matrix

RNG = np.random.default_rng(0)
NOISE = RNG.normal(scale=0.01, size=(5, 4))
GOOD = 0.9 + NOISE + RNG.normal(scale=0.001, size=(5, 4))
BAD = 0.8 + NOISE


def test_rows_are_winners_columns_are_losers_and_not_the_other_way_round():
    # Public code stores (loser, winner) and transposes only when it draws.
    found = penalty_matrix({"good": GOOD, "bad": BAD})
    assert found.beats("good", "bad") == 1
    assert found.beats("bad", "good") == 0
    assert found.penalty == {"good": 0, "bad": 1}
    assert found.shares.tolist() == [[0, 1], [0, 0]]


def test_agrees_with_scipys_paired_test():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        one, other = rng.normal(size=(2, 5, 6)) + rng.normal(size=(2, 1, 6))
        found = penalty_matrix({"one": one, "other": other})
        test = stats.ttest_rel(one, other)
        wins = (test.pvalue < 0.05) & (test.statistic > 0)
        losses = (test.pvalue < 0.05) & (test.statistic < 0)
        assert found.beats("one", "other") == pytest.approx(wins.mean())
        assert found.beats("other", "one") == pytest.approx(losses.mean())


def test_the_penalty_is_a_mean_over_the_others():
    found = penalty_matrix({"good": GOOD, "bad": BAD, "same": BAD})
    assert found.penalty == {"good": 0, "bad": 0.5, "same": 0.5}


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
    with pytest.raises(ShapeError, match="at least two seeds"):
        penalty_matrix(given)


def test_what_was_not_measured_is_refused():
    holed = BAD.copy()
    holed[0, 0] = np.nan
    with pytest.raises(UsageError, match="1 of 20 numbers in 'bad' are NaN"):
        penalty_matrix({"good": GOOD, "bad": holed})


# -------------------------------------------------------- which measurements count


@pytest.mark.parametrize(
    ("num_reached", "wanted"),
    [
        (100, [100]),  # at once: only the start
        (150, [100, 150]),
        (200, [100, 150, 200]),
        (250, [100, 150, 200]),
        (300, [100, 150, 200, 300]),
        (900, [100, 150, 200, 300, 500, 900]),
    ],
)
def test_checkpoints_double_until_random_is_nearly_final(num_reached, wanted):
    labels = np.arange(100, 901, 50)  # n0 = 100, Q = 50
    random = np.where(labels < num_reached, 0.98, 0.99)  # the final one is 0.99
    random[-1] = 1
    found = penalty_checkpoints(labels, random)
    assert labels[found].tolist() == wanted


def test_the_final_accuracy_decides_and_not_the_best_one():
    found = penalty_checkpoints([10, 20, 30, 40, 50], [0.1, 0.895, 0.95, 0.3, 0.9])
    assert found.tolist() == [0, 1]


def test_one_measurement_counts():
    assert penalty_checkpoints([10], [0.5]).tolist() == [0]


@pytest.mark.parametrize(
    ("labels", "random", "kind", "message"),
    [
        ([10, 20, 40], [0.1, 0.5, 0.9], UsageError, "Nothing was measured at 30"),
        ([10, 20], [0.1], ShapeError, "has 2 measurements"),
        ([20, 10], [0.1, 0.2], UsageError, "rising order"),
        ([10, 20], [0.1, np.nan], UsageError, "1 of 2 numbers"),
    ],
)
def test_checkpoints_that_cannot_be_found_are_refused(labels, random, kind, message):
    with pytest.raises(kind, match=message):
        penalty_checkpoints(labels, random)
