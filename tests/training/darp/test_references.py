"""Against an interior-point solver, and against the definition in plain Python."""

import warnings

import cvxpy
import numpy as np
import pytest
import torch
from tests.training.darp import twin
from tests.training.darp.rows import random_rows, random_target

from fewlabels.errors import InfeasibleTargetError
from fewlabels.training import darp

NUM_INSTANCES = 50


def by_interior_point(rows, target, capacity):
    """Return the minimum over the entries above zero, or None if there is none."""
    problem = darp.Problem(rows, target, capacity)
    near = problem.reference.numpy()
    places = np.argwhere(near > 0)
    x = cvxpy.Variable(len(places))
    sums = np.zeros((sum(near.shape), len(places)))
    for number, (row, column) in enumerate(places):
        sums[row, number] = sums[near.shape[0] + column, number] = 1
    wanted = np.concatenate([np.ones(near.shape[0]), target.numpy()])
    weights = 1 / problem.entropies.numpy()[places[:, 0]]
    distances = cvxpy.kl_div(x, near[tuple(places.T)])
    task = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(weights, distances))),
        [sums @ x == wanted],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it doubts its twelfth digit
        task.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11,
                   tol_feas=1e-11)  # fmt: skip
    if x.value is None:
        return None
    outcome = np.zeros_like(near)
    outcome[tuple(places.T)] = x.value
    return torch.from_numpy(outcome)


@pytest.mark.parametrize("seed", range(NUM_INSTANCES))
def test_agrees_with_an_interior_point_solver(seed):
    num_rows, num_classes = 8 + seed % 7, 2 + seed % 4
    rows = random_rows(num_rows, num_classes, seed)
    target = random_target(num_rows, num_classes, seed)
    for capacity in (None, 2.0):
        expected = by_interior_point(rows, target, capacity)
        if expected is None:
            with pytest.raises(InfeasibleTargetError):
                darp.refine(rows, target, capacity=capacity)
            continue
        outcome = darp.solve(rows, target, capacity=capacity)
        torch.testing.assert_close(outcome.refined, expected, rtol=0, atol=1e-5)
        assert outcome.marginal_error <= 1e-6


@pytest.mark.parametrize(
    "options",
    [
        {"capacity": None},
        {"capacity": None, "weighting": "none"},
        {"capacity": 3.0},
        {"capacity": 2.0, "masking": "code"},
        {"capacity": 1.5, "masking": "code", "weighting": "none"},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_plain_twin_after_every_number_of_rounds(options, seed):
    rows, target = random_rows(9, 3, seed), random_target(9, 3, seed)
    for rounds in (1, 4):
        expected = twin.refined(
            rows.tolist(), target.tolist(), rounds=rounds, **options
        )
        outcome = darp.solve(
            rows,
            target,
            solver="alternating",
            rounds=rounds,
            tolerance=1e-12,
            **options,
        )
        assert outcome.iterations == rounds
        torch.testing.assert_close(
            outcome.refined,
            torch.tensor(expected, dtype=torch.float64),
            rtol=0,
            atol=1e-9,
        )


def test_newton_is_where_the_plain_twin_arrives():
    rows, target = random_rows(9, 3, 7), random_target(9, 3, 7)
    expected = twin.refined(rows.tolist(), target.tolist(), rounds=200, capacity=None)
    torch.testing.assert_close(
        darp.refine(rows, target, capacity=None, tolerance=1e-11),
        torch.tensor(expected, dtype=torch.float64),
        rtol=0,
        atol=1e-8,
    )


@pytest.mark.parametrize("masking", ["paper", "code"])
def test_equal_entries_and_empty_rows_as_in_the_plain_twin(masking):
    rows = torch.tensor(
        [[0.5, 0.3, 0.2]] * 4 + [[0.2, 0.3, 0.5]] * 5, dtype=torch.float64
    )
    target = torch.tensor([3.0, 2.0, 4.0], dtype=torch.float64)
    options = {"capacity": 1.0, "masking": masking}
    near, _ = twin.reference(rows.tolist(), target.tolist(), **options)
    problem = darp.Problem(rows, target, 1.0, masking=masking)
    torch.testing.assert_close(
        problem.reference, torch.tensor(near, dtype=torch.float64)
    )
    if masking == "paper":
        assert near[3] == [0.5, 0.3, 0.2]  # of this row nothing would be left
        assert near[2] == [0.5, 0.0, 0.0]
