"""What must hold whatever the rows are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.darp.rows import random_rows, random_target

from fewlabels.rng import stream
from fewlabels.training import darp

SOLVERS = ["newton", "alternating"]
WAYS = [
    {"capacity": None},
    {"capacity": None, "weighting": "none"},
    {"capacity": 2.0, "masking": "code"},
    {"capacity": 3.0},
]


@pytest.mark.parametrize("solver", SOLVERS)
@given(seed=st.integers(0, 2**20), sharpness=st.floats(0.1, 5))
def test_rows_that_fit_stay_as_they_are(solver, seed, sharpness):
    rows = random_rows(30, 4, seed, sharpness=sharpness)
    outcome = darp.solve(rows, rows.sum(dim=0), capacity=None, solver=solver)
    assert outcome.iterations == 0
    torch.testing.assert_close(outcome.refined, rows, rtol=0, atol=1e-14)


@given(seed=st.integers(0, 2**20), sharpness=st.floats(0.1, 5))
def test_newton_reaches_the_target_and_stays_within_the_simplex(seed, sharpness):
    rows, target = (
        random_rows(40, 5, seed, sharpness=sharpness),
        random_target(40, 5, seed),
    )
    refined = darp.refine(rows, target, capacity=None)
    assert bool((refined >= 0).all())
    torch.testing.assert_close(refined.sum(dim=0), target, rtol=0, atol=2e-6)
    ones = torch.ones(40, dtype=torch.float64)
    torch.testing.assert_close(refined.sum(dim=1), ones, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_certain_rows_stay_and_the_others_absorb_the_shift(solver):
    rows = random_rows(30, 3, 0)
    rows[:9] = torch.eye(3, dtype=torch.float64).repeat(3, 1)
    target = random_target(30, 3, 0)
    outcome = darp.solve(rows, target, capacity=None, solver=solver, rounds=200)
    torch.testing.assert_close(outcome.refined[:9], rows[:9], rtol=0, atol=0)
    assert outcome.marginal_error <= 1e-6
    assert float((outcome.refined[9:] - rows[9:]).abs().max()) > 0.1


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", WAYS)
def test_the_order_of_rows_and_classes_does_not_matter(options, solver):
    rows, target = random_rows(40, 4, 1), random_target(40, 4, 1)
    row_order = torch.randperm(40, generator=stream(0))
    class_order = torch.tensor([2, 0, 3, 1])
    outcome = darp.solve(rows, target, solver=solver, **options)
    shuffled = darp.solve(
        rows[row_order][:, class_order], target[class_order], solver=solver, **options
    )
    expected = outcome.refined[row_order][:, class_order]
    torch.testing.assert_close(shuffled.refined, expected, rtol=0, atol=1e-8)
    torch.testing.assert_close(
        shuffled.dual, outcome.dual[class_order], rtol=0, atol=1e-7
    )


def test_weights_matter_by_their_ratios_alone():
    one = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    orders = torch.tensor([[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 0, 1]] * 4)
    rows = one[orders]  # all of one entropy
    target = torch.tensor([5.0, 5.0, 6.0], dtype=torch.float64)
    weighted = darp.solve(rows, target, capacity=None, tolerance=1e-10)
    equal = darp.solve(rows, target, capacity=None, weighting="none", tolerance=1e-10)
    torch.testing.assert_close(weighted.refined, equal.refined, rtol=0, atol=1e-9)
    entropy = -(one * one.log()).sum()
    torch.testing.assert_close(weighted.dual * entropy, equal.dual, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rounds", [1, 2, 3, 10])
@pytest.mark.parametrize("options", [*WAYS, {"capacity": 1.2}])
def test_rows_sum_to_one_after_every_number_of_rounds(options, rounds):
    rows, target = random_rows(60, 5, 2), random_target(60, 5, 2)
    outcome = darp.solve(
        rows, target, solver="alternating", rounds=rounds, tolerance=1e-13, **options
    )
    assert outcome.iterations == rounds
    ones = torch.ones(60, dtype=torch.float64)
    torch.testing.assert_close(outcome.refined.sum(dim=1), ones, rtol=0, atol=1e-12)
    error = float((outcome.refined.sum(dim=0) - target).abs().max())
    assert outcome.marginal_error == pytest.approx(error, abs=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("options", WAYS)
def test_the_dual_tilts_the_rows(options, solver):
    """x is proportional to y0 exp(-H dual): for the unmasked, checked by hand."""
    rows, target = random_rows(25, 3, 3), random_target(25, 3, 3)
    outcome = darp.solve(rows, target, solver=solver, rounds=4, **options)
    assert float(outcome.dual.mean()) == pytest.approx(0, abs=1e-12)
    assert outcome.dual.dtype == torch.float64
    if options["capacity"] is None:
        is_weighted = "weighting" not in options
        entropies = -(rows * rows.log()).sum(dim=1, keepdim=True)
        speeds = entropies if is_weighted else torch.ones_like(entropies)
        expected = torch.softmax(rows.log() - speeds * outcome.dual, dim=1)
        torch.testing.assert_close(outcome.refined, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_the_type_is_kept_and_the_input_left_alone(dtype, solver):
    exact = torch.tensor([[0.5, 0.375, 0.125], [0.25, 0.25, 0.5]] * 20)
    rows = exact.to(dtype)
    rows.requires_grad_()
    target = torch.tensor([10.0, 20.0, 10.0])
    outcome = darp.solve(rows, target, capacity=2.5, solver=solver, rounds=100)
    assert outcome.refined.dtype == dtype
    assert not outcome.refined.requires_grad
    assert torch.equal(rows, exact.to(dtype))
    assert torch.equal(target, torch.tensor([10.0, 20.0, 10.0]))
    double = darp.refine(
        exact.double(), target, capacity=2.5, solver=solver, rounds=100
    )
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(outcome.refined.double(), double, rtol=0, atol=step)


def test_single_precision_differs_by_its_rounding_only():
    rows, target = random_rows(500, 10, 4, sharpness=4), random_target(500, 10, 4)
    single = darp.solve(rows.float(), target, capacity=None)
    double = darp.refine(rows, target, capacity=None)
    assert single.marginal_error <= 1e-6
    torch.testing.assert_close(single.refined.double(), double, rtol=0, atol=1e-5)
