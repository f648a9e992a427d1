import numpy as np
import pytest
from scipy import stats

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import curve_band, retraining_noise

RNG = np.random.default_rng(0)


def test_the_band_is_scipys_interval_of_the_mean():
    accuracies = RNG.uniform(size=(7, 4))
    band = curve_band(accuracies, level=0.9)
    for point in range(4):
        values = accuracies[:, point]
        interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
        assert (band.low[point], band.high[point]) == pytest.approx(tuple(interval))
        assert band.mean[point] == pytest.approx(values.mean())
        assert band.deviation[point] == pytest.approx(stats.tstd(values))


def test_one_seed_has_a_mean_and_no_spread():
    band = curve_band([[0.5, 0.7]])
    assert band.mean.tolist() == [0.5, 0.7]
    for unknown in (band.deviation, band.low, band.high):
        assert np.isnan(unknown).all()
        assert unknown.shape == (2,)


def test_the_band_covers_the_mean_as_often_as_it_says():
    drawn = RNG.normal(loc=0.5, scale=0.05, size=(4, 20_000))
    band = curve_band(drawn, level=0.8)
    covered = ((band.low <= 0.5) & (band.high >= 0.5)).mean()
    assert covered == pytest.approx(0.8, abs=4 * np.sqrt(0.8 * 0.2 / 20_000))


def test_the_band_ends_where_accuracies_do():
    band = curve_band([[0.0, 0.90, 0.4], [0.1, 1.00, 0.5]])
    assert (band.low[0], band.high[1]) == (0, 1)
    assert (band.low[1], band.high[2]) == pytest.approx((0.95 - 0.6353, 1), abs=1e-4)
    percent = curve_band([[90.0], [100.0]], highest=100)
    assert percent.high.tolist() == [100]


def test_noise_by_hand():
    # Squares about the mean 3 add up to 10, with 4 degrees of freedom; the quantiles of
    # chi-square at 2.5 % and 97.5 % are 0.48442 and 11.14329 in printed tables.
    noise = retraining_noise([1, 2, 3, 4, 5])
    assert (noise.mean, noise.num_trainings) == (3, 5)
    assert noise.deviation == pytest.approx(np.sqrt(10 / 4))
    assert noise.low == pytest.approx(np.sqrt(10 / 11.14329), rel=1e-5)
    assert noise.high == pytest.approx(np.sqrt(10 / 0.48442), rel=1e-5)


def test_the_interval_of_the_noise_covers_the_deviation_as_often_as_it_says():
    covered = 0
    for _ in range(2000):
        noise = retraining_noise(RNG.normal(scale=0.02, size=6), level=0.9)
        covered += noise.low <= 0.02 <= noise.high
    assert covered / 2000 == pytest.approx(0.9, abs=4 * np.sqrt(0.9 * 0.1 / 2000))


def test_equal_trainings_have_no_noise():
    noise = retraining_noise([0.5, 0.5, 0.5])
    assert (noise.deviation, noise.low, noise.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: curve_band([0.5, 0.6]), ShapeError, r"accuracies has shape \(2,\)"),
        (lambda: curve_band(np.zeros((0, 3))), ShapeError, r"shape \(0, 3\)"),
        (lambda: curve_band([[0.5], [0.5, 0.6]]), ShapeError, "cannot be read as"),
        (lambda: curve_band([[0.5, np.nan]]), UsageError, "1 of 2 numbers in accur"),
        (lambda: curve_band([[0.5]], level=95), UsageError, "level is 95"),
        (lambda: curve_band([[81, 90]]), UsageError, "are 81 to 90; give 0 to 1, or"),
        (lambda: retraining_noise([0.5]), UsageError, "There is 1 training"),
        (lambda: retraining_noise([[0.5]]), ShapeError, r"shape \(trainings,\)"),
        (lambda: retraining_noise([1, 2], level=0), UsageError, "level is 0"),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
