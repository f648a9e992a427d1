"""The worked example, to the printed digits."""

import pytest
import torch
from tests.training.darp.rows import (
    AS_THE_CODE,
    AS_THE_PAPER,
    EXAMPLE,
    TWO_EACH,
    UNMASKED,
    UNWEIGHTED,
)

from fewlabels.training import darp

VECTORS = [UNWEIGHTED, UNMASKED, AS_THE_CODE, AS_THE_PAPER]


@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize(("options", "dual", "rows"), VECTORS)
def test_the_worked_example(options, dual, rows, solver):
    outcome = darp.solve(
        EXAMPLE, TWO_EACH, solver=solver, rounds=100, tolerance=1e-11, **options
    )
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(outcome.refined, expected, rtol=0, atol=1e-6)
    if dual is not None:
        expected = torch.tensor(dual, dtype=torch.float64)
        torch.testing.assert_close(outcome.dual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "is_weighted", "value"),
    [(UNWEIGHTED[0], False, 1.1118882101), (UNMASKED[0], True, 1.3154796590)],
)
def test_the_objective(options, is_weighted, value):
    refined = darp.refine(EXAMPLE, TWO_EACH, tolerance=1e-12, **options)
    distances = (refined * (refined / EXAMPLE).log()).sum(dim=1)
    entropies = -(EXAMPLE * EXAMPLE.log()).sum(dim=1)
    weights = 1 / entropies if is_weighted else torch.ones(6)
    assert float((weights * distances).sum()) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize(
    ("rounds", "difference"), [(1, 2.8e-2), (2, 3.1e-3), (5, 6.3e-6), (10, 3.3e-10)]
)
def test_rounds_come_near_as_fast_as_exact_roots_do(rounds, difference):
    expected = darp.refine(EXAMPLE, TWO_EACH, capacity=None, tolerance=1e-13)
    after = darp.solve(
        EXAMPLE,
        TWO_EACH,
        capacity=None,
        solver="alternating",
        rounds=rounds,
        tolerance=1e-14,
    )
    assert after.iterations == rounds
    distance = float((after.refined - expected).abs().max())
    assert distance == pytest.approx(difference, rel=0.05)


def test_what_masking_keeps():
    kept = darp.mask(EXAMPLE, TWO_EACH, 2.0) > 0
    rows = ["".join(str(int(entry)) for entry in row) for row in kept.tolist()]
    assert rows == ["111", "111", "100", "011", "010", "101"]


def test_what_the_code_begins_with():
    kept = darp.mask(EXAMPLE, TWO_EACH, 2.0)
    scales = (2 + 1e-6) / (kept.sum(dim=0) + 1e-6)
    expected = torch.tensor([0.72727283, 1.59999952, 2.66666444], dtype=torch.float64)
    torch.testing.assert_close(scales, expected, rtol=0, atol=1e-8)
    problem = darp.Problem(EXAMPLE, TWO_EACH, 2.0, masking="code")
    first = torch.tensor([0.46460158, 0.29203549, 0.24336293], dtype=torch.float64)
    torch.testing.assert_close(problem.reference[0], first, rtol=0, atol=1e-8)


def test_the_entropies():
    problem = darp.Problem(EXAMPLE, TWO_EACH, None)
    expected = [0.80181855, 0.89794572, 0.61286945, 1.03972077, 0.94334839, 0.79098735]
    torch.testing.assert_close(
        problem.entropies,
        torch.tensor(expected, dtype=torch.float64),
        rtol=0,
        atol=1e-8,
    )
