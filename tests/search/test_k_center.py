import itertools

import pytest
import torch

from fewlabels.gram import euclidean_kernel
from fewlabels.rng import stream
from fewlabels.search import smallest_radius


def radius_of(rows, labeled, candidates, centers, num_outliers):
    """Radius from the definition: the largest distance but for the outliers."""
    members = rows[[*labeled, *centers]]
    nearest = torch.cdist(rows[candidates], members).min(dim=1).values
    return float(nearest.sort().values[len(candidates) - 1 - num_outliers])


@pytest.mark.parametrize("num_outliers", [0, 1, 3])
@pytest.mark.parametrize("num_labeled", [0, 2])
def test_no_other_set_has_a_smaller_radius(num_labeled, num_outliers):
    for seed in range(12):
        generator = stream(seed, "k-center")
        rows = torch.randn(11, 2, generator=generator, dtype=torch.float64)
        labeled, candidates = list(range(num_labeled)), list(range(num_labeled, 11))
        size = 1 + seed % 3
        found = smallest_radius(
            euclidean_kernel(rows),
            labeled=torch.tensor(labeled, dtype=torch.int64),
            candidates=torch.tensor(candidates),
            size=size,
            num_outliers=num_outliers,
            generator=stream(0),
        )
        best = min(
            radius_of(rows, labeled, candidates, centers, num_outliers)
            for centers in itertools.combinations(candidates, size)
        )
        own = radius_of(rows, labeled, candidates, found.indices.tolist(), num_outliers)
        assert found.is_proven
        assert found.radius == pytest.approx(best, abs=1e-9)
        assert own == pytest.approx(best, abs=1e-9)
        assert found.greedy_radius >= found.radius - 1e-9
        assert set(found.indices.tolist()) <= set(candidates)
        assert len(set(found.indices.tolist())) == size


def test_released_code_is_not_robust_and_this_is():
    # Two tight groups and one item far away: two centers cover the groups only if the
    # far item may be left out.
    generator = stream(0, "robust")
    groups = torch.tensor([[0.0, 0.0], [5.0, 0.0]]).repeat_interleave(8, dim=0)
    rows = torch.cat(
        [
            groups + 0.1 * torch.randn(16, 2, generator=generator),
            torch.tensor([[0.0, 90.0]]),
        ]
    )

    def found(num_outliers):
        return smallest_radius(
            euclidean_kernel(rows),
            labeled=torch.empty(0, dtype=torch.int64),
            candidates=torch.arange(17),
            size=2,
            num_outliers=num_outliers,
            generator=stream(1),
        )

    strict, robust = found(0), found(1)
    assert 16 in strict.indices.tolist()
    assert strict.radius > 4
    assert 16 not in robust.indices.tolist()
    assert robust.radius < 0.5


def test_a_solver_that_gives_up_is_not_called_proof(monkeypatch):
    rows = torch.randn(40, 6, generator=stream(3), dtype=torch.float64)

    def give_up(*_, **__):
        return type("Solved", (), {"x": None, "status": 1})()

    monkeypatch.setattr("scipy.optimize.milp", give_up)
    found = smallest_radius(
        euclidean_kernel(rows),
        labeled=torch.empty(0, dtype=torch.int64),
        candidates=torch.arange(40),
        size=5,
        num_outliers=0,
        generator=stream(0),
    )
    assert not found.is_proven
    assert found.radius == found.greedy_radius
    assert len(set(found.indices.tolist())) == 5
