"""Targets out of reach: found exactly where linear programming finds them."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from tests.training.darp.rows import random_rows, random_target

from fewlabels.errors import FewlabelsError, InfeasibleTargetError
from fewlabels.rng import stream
from fewlabels.training import darp


def is_reachable(near, target):
    """Ask a linear program whether rows and columns can be met on what is not zero."""
    places = np.argwhere(near.numpy() > 0)
    sums = np.zeros((len(near) + len(target), len(places)))
    for number, (row, column) in enumerate(places):
        sums[row, number] = sums[len(near) + column, number] = 1
    wanted = np.concatenate([np.ones(len(near)), target.numpy()])
    return linprog(np.zeros(len(places)), A_eq=sums, b_eq=wanted).status == 0


def test_agrees_with_linear_programming():
    seen = {True: 0, False: 0}
    for seed in range(120):
        num_rows, num_classes = 5 + seed % 20, 2 + seed % 5
        rows = random_rows(num_rows, num_classes, seed)
        if seed % 2:
            keep = torch.rand(rows.shape, generator=stream(seed, "zeros")) > 0.5
            keep[:, 0] |= ~keep.any(dim=1)
            rows = rows * keep
            rows /= rows.sum(dim=1, keepdim=True)
        target = random_target(num_rows, num_classes, seed)
        capacity = (None, 2.0, 1.3)[seed % 3]
        near = darp.Problem(rows, target, capacity).reference
        is_feasible = is_reachable(near, target)
        seen[is_feasible] += 1
        if is_feasible:
            assert darp.solve(rows, target, capacity=capacity).marginal_error <= 1e-6
        else:
            with pytest.raises(InfeasibleTargetError, match="cannot get"):
                darp.refine(rows, target, capacity=capacity)
    assert min(seen.values()) >= 20


@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_a_class_that_nothing_has_any_probability_for(solver):
    rows = torch.tensor([[0.5, 0.5, 0.0]] * 6)
    message = (
        r"1 class \(2\) cannot get 2 rows: only 0 of 6 have any probability there"
        r"\. Choose a target nearer to the predictions"
    )
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, torch.tensor([2.0, 2.0, 2.0]), capacity=None, solver=solver)


@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_too_few_places(solver):
    rows = torch.tensor([[0.5, 0.25, 0.25]] + [[0.5, 0.5, 0.0]] * 5)
    message = r"1 class \(2\) cannot get 2 rows: only 1 of 6 .* capacity \(None masks"
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, torch.tensor([2.0, 2.0, 2.0]), capacity=3.0, solver=solver)


def test_rows_that_have_nowhere_else_to_go():
    certain = [[1.0, 0, 0, 0, 0]] * 3 + [[0, 1.0, 0, 0, 0]] * 3
    rows = torch.tensor(certain + [[0, 0, 0.5, 0.25, 0.25]] * 2 + [[0.2] * 5] * 5)
    message = r"3 classes \(2, 3, 4\) cannot get 9 rows: only 7 of 13 have any"
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, torch.tensor([2.0, 2.0, 3.0, 3.0, 3.0]), capacity=None)
    message = r"4 classes \(1, 2, 3, 4\) cannot get 11 rows: only 10 of 13 have any"
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, torch.tensor([2.0, 5.0, 2.0, 2.0, 2.0]), capacity=None)


def test_classes_that_share_too_few_rows():
    rows = torch.tensor(
        [[0.5, 0.5, 0.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 0.4, 0.3, 0.3]] * 7
    )
    message = r"2 classes \(0, 1\) cannot get 4 rows: only 3 of 10 have any"
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, torch.full((5,), 2.0), capacity=None)


def test_of_many_classes_ten_are_named():
    half = torch.full((20, 15), 1 / 15)
    rows = torch.cat(
        [
            torch.cat([half, torch.zeros(20, 15)], dim=1),
            torch.cat([torch.zeros(40, 15), half.repeat(2, 1)], dim=1),
        ]
    )
    message = r"15 classes \(0, 1, 2, 3, 4, 5, 6, 7, 8, 9\) cannot get 30 rows"
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, torch.full((30,), 2.0), capacity=None)


def test_the_edge_of_what_is_possible_is_reached():
    """Rows that are confined exactly fill their class, so the others must leave it."""
    rows = torch.tensor([[1.0, 0.0, 0.0]] * 2 + [[0.4, 0.4, 0.2]] * 4)
    outcome = darp.solve(rows, torch.tensor([2.0, 2.0, 2.0]), capacity=None)
    assert outcome.marginal_error <= 1e-6
    assert float(outcome.refined[2:, 0].max()) <= 1e-6


def test_the_alternating_solver_stops_where_it_is():
    rows = torch.tensor([[1.0, 0.0, 0.0]] * 4 + [[0.0, 0.5, 0.5]] * 4)
    target = torch.tensor([3.0, 2.5, 2.5])
    outcome = darp.solve(rows, target, capacity=None, solver="alternating")
    assert outcome.iterations == 10
    assert outcome.marginal_error == pytest.approx(1.0, abs=0.01)
    with pytest.raises(InfeasibleTargetError, match="cannot get 5 rows: only 4"):
        darp.solve(rows, target, capacity=None)


def test_smoothing_keeps_every_target_in_reach():
    rows = random_rows(200, 10, 0, sharpness=8, bias=1.0)
    target = darp.targets.uniform(200, 10)
    with pytest.raises(InfeasibleTargetError, match="masking='code'"):
        darp.refine(rows, target)
    assert darp.solve(rows, target, masking="code").marginal_error <= 1e-6


def test_training_can_catch_it():
    assert issubclass(InfeasibleTargetError, FewlabelsError)
    assert not issubclass(InfeasibleTargetError, ValueError)
