"""The compiled factorization of draws against the same loop by Python and NumPy."""

import numpy as np
import pytest

from fewlabels.search.compiled import factorize


@pytest.mark.parametrize("seed", range(3))
def test_it_tells_what_is_positive_definite(seed):
    random = np.random.default_rng(seed)
    num_items, num_draws, size = 40, 60, 9
    features, scales, offset = (
        random.normal(size=(num_items, 12)),
        np.ones(num_items),
        1.0,
    )
    projections, weights = random.normal(size=(num_items, 3)), np.full(3, 0.5)
    gram = features @ features.T + offset
    left = gram - projections * weights @ projections.T
    draws = np.stack([random.permutation(num_items)[:size] for _ in range(num_draws)])
    smallest = np.array([np.linalg.eigvalsh(left[np.ix_(d, d)])[0] for d in draws])
    shift = np.median(smallest)  # half of them are definite then
    margins = left.diagonal() - shift
    given = (features, scales, offset, projections, weights, margins, draws, draws)
    for function in (factorize, factorize.py_func):
        found = np.empty(num_draws, dtype=np.bool_)
        function(*given, found)
        assert found.tolist() == (smallest > shift).tolist()
    assert 0 < found.sum() < num_draws
