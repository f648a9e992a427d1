import pytest
from scipy import stats

from fewlabels.experiments.evaluation.measurement import chance_of, chi_squared_tail


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 9, 99])
@pytest.mark.parametrize("value", [0.0, 1e-9, 0.3, 7.5, 60.0, 5000.0])
def test_the_tail_of_chi_squared_is_scipys(value, freedom):
    expected = stats.chi2.sf(value, freedom)
    assert chi_squared_tail(value, freedom) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("tail", [1e-9, 0.025, 0.4999])
@pytest.mark.parametrize(("least", "trials"), [(1, 1), (3, 3), (1, 10**6), (600, 1000)])
def test_the_chance_is_the_quantile_of_the_beta_distribution(least, trials, tail):
    expected = stats.beta.ppf(tail, least, trials - least + 1)
    assert chance_of(least, trials, tail) == pytest.approx(expected, rel=1e-8)
