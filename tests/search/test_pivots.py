"""The compiled factorization of draws against the same loop by Python and NumPy."""

import numpy as np
import pytest

from fewlabels.protocols import InnerProduct
from fewlabels.search import pivots


@pytest.mark.parametrize("seed", range(3))
def test_it_tells_what_is_positive_definite(seed, monkeypatch):
    random = np.random.default_rng(seed)
    num_items, num_draws, size = 40, 60, 9
    form = InnerProduct(random.normal(size=(num_items, 12)), np.ones(num_items), 1.0)
    projections, weights = random.normal(size=(num_items, 3)), np.full(3, 0.5)
    gram = form.features @ form.features.T + form.offset
    left = gram - projections * weights @ projections.T
    draws = np.stack([random.permutation(num_items)[:size] for _ in range(num_draws)])
    smallest = np.array([np.linalg.eigvalsh(left[np.ix_(d, d)])[0] for d in draws])
    shift = np.median(smallest)  # half of them are definite then
    given = (form, projections, weights, left.diagonal() - shift, draws, draws)
    found = pivots.definite(*given)
    assert found.tolist() == (smallest > shift).tolist()
    assert 0 < found.sum() < num_draws
    monkeypatch.setattr(pivots, "_factorize", pivots._factorize.py_func)
    assert pivots.definite(*given).tolist() == found.tolist()
