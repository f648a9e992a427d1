"""Starts, sizes, chunks, and rows that are all but certain."""

import pytest
import torch
from tests.training.darp.rows import random_rows, random_target

import fewlabels
from fewlabels.errors import InfeasibleTargetError
from fewlabels.training import darp


def test_it_is_found_where_it_is_promised():
    rows = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    refined = fewlabels.training.darp.refine(rows, torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(refined.sum(dim=0), torch.ones(2))


@pytest.mark.parametrize("solver", ["newton", "alternating"])
@pytest.mark.parametrize("capacity", [None, 2.0])
def test_a_warm_start_gives_the_same_in_fewer_turns(solver, capacity):
    rows, target = random_rows(2000, 6, 0), random_target(2000, 6, 0)
    options = {"capacity": capacity, "solver": solver, "rounds": 500}
    older = rows.clone()
    older[::10] = random_rows(2000, 6, 1)[::10]
    start = darp.solve(older, target, **options).dual
    cold = darp.solve(rows, target, **options)
    warm = darp.solve(rows, target, start=start, **options)
    assert warm.marginal_error <= 1e-6
    assert warm.iterations < cold.iterations
    torch.testing.assert_close(warm.refined, cold.refined, rtol=0, atol=1e-6)


def test_the_exact_start_needs_no_turn_and_a_shift_changes_nothing():
    rows, target = random_rows(100, 4, 0), random_target(100, 4, 0)
    first = darp.solve(rows, target, capacity=None, tolerance=1e-9)
    again = darp.solve(rows, target, capacity=None, start=first.dual + 7)
    assert again.iterations == 0
    torch.testing.assert_close(again.refined, first.refined, rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_a_far_start_is_survived_and_the_input_left_alone(solver):
    rows, target = random_rows(100, 4, 0), random_target(100, 4, 0)
    before = rows.clone()
    start = torch.tensor([1e6, -3e5, 0.0, 2e4])
    outcome = darp.solve(
        rows, target, capacity=None, solver=solver, start=start, rounds=300
    )
    assert torch.equal(rows, before)
    expected = darp.refine(rows, target, capacity=None)
    torch.testing.assert_close(outcome.refined, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("distance", [1e5, 1e7, 3e9, 1e11])
def test_a_start_from_which_no_step_leads_back_is_given_up(distance):
    """Newton's method stayed there for 100 steps; from zero it takes a few."""
    rows = torch.tensor([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
    target = torch.tensor([3.6, 1.4])
    cold = darp.solve(rows, target, capacity=None)
    for start in ([-distance, distance], [distance, -distance]):
        far = darp.solve(rows, target, capacity=None, start=torch.tensor(start))
        torch.testing.assert_close(far.refined, cold.refined, rtol=0, atol=1e-6)


def test_a_start_that_leaves_a_class_next_to_nothing():
    rows = torch.full((100, 3), 1 / 3, dtype=torch.float64)
    rows[0] = torch.tensor([0.9, 0.05, 0.05])
    target = torch.tensor([60.0, 20.0, 20.0])
    start = torch.tensor([0.0, 0.0, 1878.0])  # the last column: the smallest number
    outcome = darp.solve(rows, target, capacity=None, start=start)
    assert outcome.marginal_error <= 1e-6


@pytest.mark.parametrize("num_classes", [10, 100])
@pytest.mark.parametrize("capacity", [None, 2.0])
def test_fifty_thousand_rows(num_classes, capacity):
    rows = random_rows(50_000, num_classes, 0, bias=0.3).float()
    target = darp.targets.uniform(50_000, num_classes)
    outcome = darp.solve(rows, target, capacity=capacity)
    assert outcome.marginal_error <= 1e-6
    refined = outcome.refined.double()
    torch.testing.assert_close(refined.sum(dim=0), target, rtol=0, atol=1e-2)
    ones = torch.ones(50_000, dtype=torch.float64)
    torch.testing.assert_close(refined.sum(dim=1), ones, rtol=0, atol=1e-5)


@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_chunks_change_nothing(solver, monkeypatch):
    rows, target = random_rows(101, 7, 0), random_target(101, 7, 0)
    whole = darp.refine(rows, target, solver=solver, capacity=3.0)
    monkeypatch.setattr(darp, "_CHUNK_ENTRIES", 40)
    cut = darp.refine(rows, target, solver=solver, capacity=3.0)
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("sharpness", [4, 12, 30])
@pytest.mark.parametrize("masking", ["paper", "code"])
def test_rows_that_are_all_but_certain(sharpness, masking):
    rows = random_rows(5000, 10, 0, sharpness=sharpness, bias=0.3)
    target = darp.targets.uniform(5000, 10)
    capacity = None if masking == "paper" else 2.0
    outcome = darp.solve(rows, target, capacity=capacity, masking=masking)
    assert outcome.marginal_error <= 1e-6
    assert bool(outcome.refined.isfinite().all())


def test_a_class_that_is_hardly_predicted():
    rows = random_rows(1000, 4, 0)
    rows[:, 0] *= 1e-30
    rows /= rows.sum(dim=1, keepdim=True)
    target = darp.targets.uniform(1000, 4)
    for dtype in (torch.float32, torch.float64):
        outcome = darp.solve(rows.to(dtype), target, capacity=None)
        assert outcome.marginal_error <= 1e-6


def test_what_newton_gives_up_is_told_with_its_numbers(monkeypatch):
    monkeypatch.setattr(darp, "_MOST_STEPS", 2)
    rows, target = random_rows(100, 4, 0), random_target(100, 4, 0)
    message = r"After 2 Newton steps a class is [\d.e-]+ rows off"
    with pytest.raises(InfeasibleTargetError, match=message):
        darp.refine(rows, target, capacity=None)


def test_one_class_and_one_row():
    ones = torch.ones(5, 1)
    assert torch.equal(darp.refine(ones, torch.tensor([5.0]), tolerance=1e-300), ones)
    row = torch.tensor([[0.2, 0.8]])
    target = torch.tensor([0.7, 0.3])
    refined = darp.refine(row, target, capacity=4.0)
    torch.testing.assert_close(refined, target[None], rtol=0, atol=1e-6)


def test_no_global_randomness(untouched_randomness):
    darp.refine(random_rows(50, 3, 0), random_target(50, 3, 0), capacity=None)
