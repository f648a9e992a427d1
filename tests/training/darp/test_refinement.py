"""DARP's refinement: published vectors, a convex solver, a slow twin, properties."""

import warnings

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewlabels import rng
from fewlabels.errors import InfeasibleTargetError, ShapeError, UsageError
from fewlabels.training import darp

ROWS = torch.tensor(
    [
        [0.70, 0.20, 0.10],
        [0.60, 0.30, 0.10],
        [0.80, 0.15, 0.05],
        [0.50, 0.25, 0.25],
        [0.40, 0.50, 0.10],
        [0.65, 0.05, 0.30],
    ],
    dtype=torch.float64,
)
EVEN = torch.full((3,), 2.0, dtype=torch.float64)
NEGATIVE = ROWS + torch.tensor([[0.2, 0.0, -0.2]], dtype=torch.float64)

# Solutions of a small problem, found by Newton's method, by alternating updates and by
# a convex solver that is none of ours.
UNWEIGHTED = [
    [0.41432045, 0.31801279, 0.26766676],
    [0.32290060, 0.43372566, 0.24337374],
    [0.55980131, 0.28197554, 0.15822315],
    [0.21718591, 0.29172786, 0.49108623],
    [0.18219550, 0.61182036, 0.20598414],
    [0.30359623, 0.06273780, 0.63366597],
]
WEIGHTED = [
    [0.42315995, 0.32050996, 0.25633009],
    [0.30028486, 0.44737219, 0.25234295],
    [0.63148022, 0.24945393, 0.11906585],
    [0.16597994, 0.29380304, 0.54021702],
    [0.15863133, 0.62436661, 0.21700206],
    [0.32046371, 0.06449426, 0.61504204],
]
MASKED_BY_CODE = [
    [0.38879058, 0.28245483, 0.32875459],
    [0.30635488, 0.39003059, 0.30361453],
    [0.99999656, 1.72e-6, 1.72e-6],
    [7.5e-7, 0.32751466, 0.67248459],
    [1.25e-6, 0.99999750, 1.25e-6],
    [0.30485597, 7.1e-7, 0.69514332],
]
MASKED_BY_PAPER = [
    [0.407291, 0.296889, 0.295820],
    [0.289270, 0.412852, 0.297878],
    [1, 0, 0],
    [0, 0.290259, 0.709741],
    [0, 1, 0],
    [0.303439, 0, 0.696561],
]
VECTORS = {
    "A": ({"capacity": None, "weighting": "none"}, UNWEIGHTED),
    "B": ({"capacity": None}, WEIGHTED),
    "C": ({"masking": "code"}, MASKED_BY_CODE),
    "D": ({"masking": "paper"}, MASKED_BY_PAPER),
}
DUALS = {
    "A": [0.83240936, -0.15580549, -0.67660386],
    "B": [1.00586016, -0.21003350, -0.79582666],
    "D": [1.06538, -0.102705, -0.962675],
}


def problem(seed, num_rows=None, num_classes=None):
    """Return random probabilities and a random target that some matrix meets."""
    draws = np.random.default_rng(seed)
    num_rows = num_rows or int(draws.integers(8, 40))
    num_classes = num_classes or int(draws.integers(2, 6))
    logits = draws.normal(size=(num_rows, num_classes)) * draws.uniform(0.5, 2.5)
    rows = torch.from_numpy(logits).softmax(dim=1)
    shares = draws.dirichlet(np.full(num_classes, 8.0))
    return rows, torch.from_numpy(shares) * num_rows


@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize("name", VECTORS)
def test_the_published_vectors(name, solver):
    options, expected = VECTORS[name]
    found = darp.solve(ROWS, EVEN, **options, solver=solver, rounds=200, tolerance=1e-9)
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.refined, expected, rtol=0, atol=1e-6)
    if name in DUALS:
        assert found.dual.tolist() == pytest.approx(DUALS[name], abs=2e-5)


@pytest.mark.parametrize(
    ("rounds", "distance"), [(1, 2.8e-2), (2, 3.1e-3), (5, 6.3e-6), (10, 3.3e-10)]
)
def test_alternating_updates_come_near_as_fast_as_they_should(rounds, distance):
    exact = darp.refine(ROWS, EVEN, capacity=None, tolerance=1e-12)
    found = darp.solve(
        ROWS, EVEN, capacity=None, solver="alternating", rounds=rounds, tolerance=1e-14
    )
    assert float((found.refined - exact).abs().max()) < 3 * distance
    torch.testing.assert_close(found.refined.sum(dim=1), torch.ones(6).double())


def masked(rows, target, capacity):
    """Return the rows with small entries of each column removed, in plain loops."""
    kept = rows.clone()
    for column in range(rows.shape[1]):
        places = int(capacity * float(target[column]))
        order = sorted(range(len(rows)), key=lambda row: (-rows[row, column], row))
        for row in order[places:]:
            kept[row, column] = 0
    empty = kept.sum(dim=1) == 0
    kept[empty] = rows[empty]
    return kept


def by_cvxpy(rows, target, reference):
    """Minimize the weighted divergence with an independent convex solver."""
    entropies = -torch.special.xlogy(rows, rows).sum(dim=1)
    weights = (1 / entropies)[:, None].expand_as(rows).numpy()
    found = cvxpy.Variable(rows.shape, nonneg=True)
    on = reference > 0
    safe = torch.where(on, reference, 1.0).numpy()
    divergence = cvxpy.multiply(weights * on.numpy(), cvxpy.kl_div(found, safe))
    task = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(divergence)),
        [
            cvxpy.sum(found, axis=1) == 1,
            cvxpy.sum(found, axis=0) == target.numpy(),
            cvxpy.multiply(found, 1.0 - on.numpy()) == 0,
        ],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own accuracy; the status says it too
        task.solve(
            solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
        )
    return task.status, found.value


@pytest.mark.parametrize("capacity", [None, 2.0])
def test_an_independent_convex_solver_agrees(capacity):
    agreed = 0
    for seed in range(200):
        rows, target = problem(seed)
        reference = rows if capacity is None else masked(rows, target, capacity)
        try:
            found = darp.refine(rows, target, capacity=capacity, tolerance=1e-9)
        except InfeasibleTargetError:
            status, _ = by_cvxpy(rows, target, reference)
            assert status != cvxpy.OPTIMAL, seed
            continue
        status, expected = by_cvxpy(rows, target, reference)
        if status != cvxpy.OPTIMAL:
            continue  # its own accuracy was out of reach
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=2e-5)
        agreed += 1
        if agreed == 50:
            return
    pytest.fail(f"only {agreed} of 200 random problems could be compared")


def test_newton_meets_rows_and_columns():
    draws = rng.stream(0, "rows")
    for num_classes, sharpness in [(10, 1.0), (10, 4.0), (40, 3.0)]:
        logits = torch.randn(3000, num_classes, generator=draws, dtype=torch.float64)
        rows = (sharpness * logits).softmax(dim=1)
        target = torch.full((num_classes,), 3000 / num_classes, dtype=torch.float64)
        found = darp.solve(rows, target)
        sums = found.refined.sum(dim=1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-9)
        assert float((found.refined.sum(dim=0) - target).abs().max()) <= 1e-6
        assert found.marginal_error <= 1e-6


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_columns_own_sums_change_nothing(seed):
    rows, _ = problem(seed)
    found = darp.solve(rows, rows.sum(dim=0), capacity=None)
    torch.testing.assert_close(found.refined, rows, rtol=0, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_order_of_rows_and_classes_does_not_matter(seed):
    rows, target = problem(seed)
    draws = rng.stream(seed, "orders")
    over_rows = torch.randperm(len(rows), generator=draws)
    over_classes = torch.randperm(len(target), generator=draws)
    found = darp.refine(rows, target, capacity=None, tolerance=1e-9)
    moved = darp.refine(
        rows[over_rows][:, over_classes],
        target[over_classes],
        capacity=None,
        tolerance=1e-9,
    )
    expected = found[over_rows][:, over_classes]
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-6)


def test_a_certain_row_stays_and_the_others_take_the_shift():
    rows = torch.cat([ROWS, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)])
    target = torch.tensor([2.5, 2.5, 2.0], dtype=torch.float64)
    found = darp.refine(rows, target, capacity=None)
    torch.testing.assert_close(found[-1], rows[-1], rtol=0, atol=1e-7)
    torch.testing.assert_close(found.sum(dim=0), target, rtol=0, atol=1e-6)


def test_a_warm_start_gives_the_same_answer_sooner():
    rows, target = problem(3, num_rows=2000, num_classes=8)
    cold = darp.solve(rows, target, capacity=None, tolerance=1e-9)
    changed = rows.clone()
    changed[:100] = rows[100:200]
    anew = darp.solve(changed, target, capacity=None, tolerance=1e-9)
    warm = darp.solve(changed, target, capacity=None, tolerance=1e-9, start=cold.dual)
    torch.testing.assert_close(warm.refined, anew.refined, rtol=0, atol=1e-8)
    assert warm.iterations < anew.iterations


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masking", ["paper", "code"])
def test_type_and_input_stay(dtype, masking):
    rows = ROWS.to(dtype)
    before = rows.clone()
    found = darp.refine(rows, EVEN, masking=masking)
    assert found.dtype == dtype
    assert torch.equal(rows, before)


@pytest.mark.parametrize(
    ("rows", "target", "error", "message"),
    [
        (ROWS[0], EVEN, ShapeError, "shape"),
        (ROWS, EVEN[:2], ShapeError, "3"),
        (ROWS * 2, EVEN, UsageError, "sum"),
        (ROWS - 1, EVEN, UsageError, "Row 0 .* sums to -2"),
        (NEGATIVE, EVEN, UsageError, "-0.1"),
        (ROWS, EVEN * 2, UsageError, "12"),
        (ROWS, torch.tensor([4.0, 2.0, 0.0]), UsageError, "0"),
        (ROWS, torch.tensor([float("nan"), 3.0, 3.0]), UsageError, "nan|NaN"),
        (ROWS * float("nan"), EVEN, Exception, "nan|NaN"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_numbers(rows, target, error, message):
    with pytest.raises(error, match=message):
        darp.refine(rows, target)


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan")])
def test_a_capacity_that_makes_no_sense_is_refused(capacity):
    with pytest.raises(UsageError, match="capacity"):
        darp.refine(ROWS, EVEN, capacity=capacity)


def test_a_class_that_nothing_can_be_is_infeasible():
    rows = torch.tensor([[0.5, 0.5, 0.0]] * 6, dtype=torch.float64)
    with pytest.raises(InfeasibleTargetError, match="2"):
        darp.refine(rows, EVEN, capacity=None)


def test_too_little_capacity_is_infeasible():
    """Four rows keep nothing but class 0, which shall get three."""
    first = torch.tensor([[0.98, 0.01, 0.01]] * 4, dtype=torch.float64)
    others = torch.tensor([[0.02, 0.49, 0.49]] * 6, dtype=torch.float64)
    target = torch.tensor([3.0, 3.5, 3.5], dtype=torch.float64)
    with pytest.raises(InfeasibleTargetError, match=r"Raise capacity, which is 1\.5"):
        darp.refine(torch.cat([first, others]), target, capacity=1.5)
    darp.refine(torch.cat([first, others]), target, capacity=None)


@pytest.mark.parametrize("option", ["weighting", "masking", "solver"])
def test_unknown_words_are_refused(option):
    with pytest.raises(UsageError, match=r"called 'odd'"):
        darp.refine(ROWS, EVEN, **{option: "odd"})
