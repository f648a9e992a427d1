import numpy as np
import pytest
from scipy import stats

from fewlabels.errors import ShapeError
from fewlabels.evaluation import penalty_matrix

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
