import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.experiments.evaluation import holm, label_gains, paired_tests, welch


@pytest.fixture(scope="module", autouse=True)
def no_search_for_garbage():
    """Corrections of statsmodels look for garbage in the whole process each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.collect", lambda: 0)
        yield


# ---------------------------------------------------------------------------- Holm


def test_holm_by_hand():
    # Rising: .005 x 4, .01 x 3, .03 x 2, .04 x 1; the last may not fall below .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1, 1]
    assert holm([]).shape == (0,)


def test_a_test_that_was_not_made_does_not_count():
    found = holm([np.nan, 0.02, np.nan, 0.04])
    np.testing.assert_allclose(found, [np.nan, 0.04, np.nan, 0.04])
    assert np.isnan(holm([np.nan])).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_agrees_with_statsmodels(p_values):
    oracle = multipletests(p_values, method="holm")[1]
    np.testing.assert_allclose(holm(p_values), oracle, atol=1e-12)


# -------------------------------------------------------------------- paired tests


@pytest.mark.parametrize("num_seeds", [2, 3, 5, 10, 30, 60])
def test_paired_tests_agree_with_scipy(num_seeds):
    rng = np.random.default_rng(num_seeds)
    values = {name: rng.normal(size=num_seeds) for name in ("npc", "random", "badge")}
    found = paired_tests(values, against="random", level=0.9)
    assert [test.name for test in found] == ["npc", "badge"]
    for test in found:
        one, other = values[test.name], values["random"]
        oracle = stats.ttest_rel(one, other)
        assert test.t_p == pytest.approx(oracle.pvalue)
        interval = tuple(oracle.confidence_interval(0.9))
        assert (test.low, test.high) == pytest.approx(interval)
        assert test.wilcoxon_p == pytest.approx(stats.wilcoxon(one, other).pvalue)
        assert test.difference == pytest.approx(np.mean(one) - np.mean(other))
        # dz and t are the same but for the number of pairs.
        assert test.effect_size * np.sqrt(num_seeds) == pytest.approx(oracle.statistic)
        assert test.wins == (one > other).sum()
        assert test.losses == (one < other).sum()
        assert (test.num_pairs, test.against) == (num_seeds, "random")
    for field, corrected in [("t_p", "t_holm"), ("wilcoxon_p", "wilcoxon_holm")]:
        plain = [getattr(test, field) for test in found]
        oracle = multipletests(plain, method="holm")[1]
        assert [getattr(test, corrected) for test in found] == pytest.approx(oracle)


def test_seeds_that_overlap_count_less_nadeau_bengio():
    one = np.array([0.9, 0.8, 0.85, 0.95, 0.83])
    other = np.array([0.8, 0.75, 0.85, 0.85, 0.80])
    (plain,) = paired_tests({"a": one, "b": other}, against="b")
    (found,) = paired_tests({"a": one, "b": other}, against="b", overlaps={"a": 0.2})
    # Their ratio of test to training items is 1 to 4 where 0.2 is held out.
    differences = one - other
    error = np.sqrt((1 / 5 + 1 / 4) * differences.var(ddof=1))
    t = differences.mean() / error
    assert found.t_p == pytest.approx(2 * stats.t.sf(t, 4))
    reach = stats.t.ppf(0.975, 4) * error
    assert (found.low, found.high) == pytest.approx(
        (differences.mean() - reach, differences.mean() + reach)
    )
    assert plain.t_p < found.t_p
    assert plain.wilcoxon_p < found.wilcoxon_p < 1
    assert (found.effect_size, found.wins) == (plain.effect_size, plain.wins)
    assert (plain.overlap, found.overlap) == (0, 0.2)


def test_one_comparison_that_is_repeated_shows_nothing():
    values = {"a": [0.9, 0.8, 0.85], "b": [0.8, 0.75, 0.8], "c": [0.8, 0.75, 0.8]}
    found = paired_tests(values, against="b", overlaps={"a": 1.0, "c": 1.0})
    assert [(test.t_p, test.wilcoxon_p) for test in found] == [(1, 1), (1, 1)]
    assert (found[0].low, found[0].high) == (-np.inf, np.inf)
    assert (found[1].low, found[1].high) == (0, 0)
    with pytest.raises(UsageError, match=r"overlaps\['a'\] is 1.5; it must be at"):
        paired_tests(values, against="b", overlaps={"a": 1.5})


def test_equal_differences_tie_although_floats_differ():
    ones, others = [0.9, 0.8, 0.6, 0.5], [0.8, 0.7, 0.7, 0.2]
    assert ones[0] - others[0] != ones[1] - others[1]
    (found,) = paired_tests({"a": ones, "b": others}, against="b")
    assert found.wilcoxon_p == stats.wilcoxon([1, 1, -1, 3]).pvalue
    (percent,) = paired_tests(
        {"a": [90, 80, 60, 50], "b": [80, 70, 70, 20]}, against="b"
    )
    assert found.t_p == pytest.approx(percent.t_p)
    assert found.effect_size == pytest.approx(percent.effect_size)


@pytest.mark.parametrize("scale", [1e-9, 1, 1e9])
def test_the_scale_does_not_matter(scale):
    one, other = np.array([0.9, 0.8, 0.85]), np.array([0.8, 0.82, 0.8])
    (plain,) = paired_tests({"a": one, "b": other}, against="b")
    (scaled,) = paired_tests({"a": scale * one, "b": scale * other}, against="b")
    for field in ("t_p", "wilcoxon_p", "effect_size", "wins", "losses"):
        assert getattr(scaled, field) == pytest.approx(getattr(plain, field))
    assert scaled.low == pytest.approx(scale * plain.low)


@pytest.mark.parametrize("value", [0.0, 0.7])
def test_no_difference_at_all(value):
    found = paired_tests({"a": [value, value], "b": [value, value]}, against="b")
    (test,) = found  # and no warning, which would be an error here
    assert (test.t_p, test.wilcoxon_p, test.t_holm, test.wilcoxon_holm) == (1, 1, 1, 1)
    assert (test.difference, test.low, test.high, test.effect_size) == (0, 0, 0, 0)
    assert (test.wins, test.losses, test.num_pairs) == (0, 0, 2)


def test_the_same_difference_on_every_seed_is_not_tested():
    values = {
        "same": [0.9, 0.8, 0.7],
        "other": [0.9, 0.9, 0.9],
        "random": [0.8, 0.7, 0.6],
    }
    same, other = paired_tests(values, against="random")
    assert not same.is_made
    assert same.difference == pytest.approx(0.1)
    assert (same.wins, same.losses, same.num_pairs) == (3, 0, 3)
    not_known = (same.low, same.high, same.effect_size, same.t_p, same.wilcoxon_p)
    assert np.isnan([*not_known, same.t_holm, same.wilcoxon_holm]).all()
    assert other.is_made
    assert other.t_holm == other.t_p  # what was not tested does not count


@pytest.mark.parametrize("num_seeds", [2, 5, 9, 12])
def test_tied_ranks_are_exact(num_seeds):
    rng = np.random.default_rng(num_seeds)
    for _ in range(3):
        steps = rng.integers(-3, 4, size=num_seeds)  # ties, and zeros among them
        steps[:2] = 1, -2
        (found,) = paired_tests(
            {"a": 0.5 + 0.1 * steps, "b": [0.5] * num_seeds}, against="b"
        )
        assert found.wilcoxon_p == pytest.approx(all_signs_p(steps))


def all_signs_p(differences):
    """Wilcoxon's p by its definition: all ways to give signs to the ranks."""
    moved = differences[differences != 0]
    ranks = stats.rankdata(np.abs(moved))
    signs = np.array(list(itertools.product([0, 1], repeat=len(moved))))
    sums, seen = signs @ ranks, ranks[moved > 0].sum()
    return min(1, 2 * min((sums <= seen).mean(), (sums >= seen).mean()))


def test_a_strategy_alone_has_nothing_to_be_compared_with():
    assert paired_tests({"random": [0.1, 0.2]}, against="random") == ()


# --------------------------------------------------------------------------- Welch


@given(
    st.tuples(st.floats(0, 100), st.floats(0.01, 20), st.integers(2, 30)),
    st.tuples(st.floats(0, 100), st.floats(0.01, 20), st.integers(2, 30)),
)
def test_welch_agrees_with_scipy(one, other):
    oracle = stats.ttest_ind_from_stats(*one, *other, equal_var=False)
    found = welch(*one, *other)
    assert found.t == pytest.approx(oracle.statistic)
    assert found.p == pytest.approx(oracle.pvalue, abs=1e-12)


def test_both_readings_are_those_of_numpys_deviations():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=4), 1 + 3 * rng.normal(size=6)
    oracle = stats.ttest_ind(one, other, equal_var=False)
    for reading, ddof in [("sample", 1), ("population", 0)]:
        found = welch(
            one.mean(),
            one.std(ddof=ddof),
            4,
            other.mean(),
            other.std(ddof=ddof),
            6,
            reading=reading,
        )
        assert found.t == pytest.approx(oracle.statistic)
        assert found.p == pytest.approx(oracle.pvalue)


def test_one_deviation_may_be_zero():
    found = welch(2, 0, 3, 1, 1, 3)
    assert found.p == pytest.approx(2 * stats.t.sf(found.t, 2))  # the other's degrees


# ------------------------------------------------------------------------ refusals

SEEDS = [0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (
            {"a": SEEDS, "b": SEEDS[:2]},
            ShapeError,
            r"\[2, 3\] seeds; give all the same",
        ),
        ({"a": [0.1], "b": [0.2]}, ShapeError, r"\[1\] seeds; .* 2 or more"),
        ({"a": [SEEDS], "b": [SEEDS]}, ShapeError, r"'a' has shape \(1, 3\)"),
        ({"a": [0.1, np.nan], "b": [1, 2]}, UsageError, "1 of 2 numbers in 'a'"),
        ({"a": SEEDS, "random": SEEDS}, UnknownNameError, "no strategy called 'b'"),
    ],
)
def test_values_that_cannot_be_paired_are_refused(values, kind, message):
    with pytest.raises(kind, match=message):
        paired_tests(values, against="b")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: holm([[0.1]]), ShapeError, r"p_values has shape \(1, 1\)"),
        (lambda: holm([0.1, 1.2]), UsageError, "give 0 to 1, or NaN"),
        (lambda: holm([-0.1]), UsageError, "give 0 to 1, or NaN"),
        (
            lambda: welch(1, 1, 1, 2, 1, 3),
            UsageError,
            "size is 1; it must be at least 2",
        ),
        (lambda: welch(1, 1, 2.5, 2, 1, 3), UsageError, "size is 2.5"),
        (lambda: welch(1, 0, 3, 2, 0, 3), UsageError, "means without spread"),
        (
            lambda: welch(1, -1, 3, 2, 1, 3),
            UsageError,
            "deviation is -1; it must be at least 0",
        ),
        (lambda: welch(np.nan, 1, 3, 2, 1, 3), UsageError, "mean is nan"),
        (
            lambda: welch(1, 1, 3, 2, 1, 3, reading="n"),
            UsageError,
            "no reading called 'n'",
        ),
        (
            lambda: paired_tests({"a": SEEDS, "b": SEEDS}, against="b", level=1),
            UsageError,
            "level is 1",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


# ------------------------------------------------------------------ gains of labels

ALONE = [[0.60, 0.80, 0.85], [0.50, 0.80, 0.82], [0.55, 0.75, 0.83]]
WITH_ALL = [[0.70, 0.90, 0.90], [0.70, 0.80, 0.92], [0.65, 0.88, 0.93]]


def test_gains_are_differences_of_consecutive_accuracies():
    first, second = label_gains([10, 30, 50], ALONE, WITH_ALL)
    assert (first.num_before, first.num_after) == (10, 30)
    assert first.supervised == pytest.approx((0.2 + 0.3 + 0.2) / 3)
    assert first.semi_supervised == pytest.approx((0.2 + 0.1 + 0.23) / 3)
    assert (second.num_before, second.num_after) == (30, 50)
    assert second.supervised == pytest.approx((0.05 + 0.02 + 0.08) / 3)


def test_gains_are_paired_by_seed_and_corrected_together():
    alone, with_all = np.diff(ALONE), np.diff(WITH_ALL)
    gains = label_gains([10, 30, 50], ALONE, WITH_ALL)
    for step, gain in enumerate(gains):
        differences = with_all[:, step] - alone[:, step]
        assert gain.test.difference == pytest.approx(differences.mean())
        assert gain.test.t_p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    by_holm = holm([gain.test.t_p for gain in gains])
    assert [gain.test.t_holm for gain in gains] == pytest.approx(list(by_holm))


def test_gains_of_seeds_that_share_labels_are_less_certain():
    (plain, _), (shared, _) = (
        label_gains([10, 30, 50], ALONE, WITH_ALL, overlap=rho) for rho in (0.0, 0.5)
    )
    assert shared.test.difference == plain.test.difference
    assert shared.test.high - shared.test.low > 1.5 * (plain.test.high - plain.test.low)


def test_gains_take_the_same_seeds_and_rising_numbers():
    with pytest.raises(ShapeError, match="same"):
        label_gains([10, 30, 50], ALONE, WITH_ALL[:2])
    with pytest.raises(UsageError, match="rising"):
        label_gains([30, 10, 50], ALONE, WITH_ALL)
