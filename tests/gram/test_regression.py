"""Kernel ridge regression mode by mode, against definitions and simulated sets."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.errors import UsageError
from fewlabels.gram import (
    euclidean_kernel,
    kernel_modes,
    labeled_set_error,
    random_set_error,
    wide_head_kernel,
)
from fewlabels.rng import stream

NUM_ITEMS = 300


@pytest.fixture(scope="module")
def kernel():
    return wide_head_kernel(torch.randn(NUM_ITEMS, 12, generator=stream(0, "rows")))


@pytest.fixture(scope="module")
def modes(kernel):
    return kernel_modes(kernel, torch.arange(NUM_ITEMS))


@pytest.fixture(scope="module")
def targets(modes):
    """Two outputs: one along a few large modes, one with some power in all."""
    rough = torch.randn(NUM_ITEMS, 1, generator=stream(1, "targets")).double()
    return torch.cat([modes.functions[:, 1:4].sum(dim=1, keepdim=True), rough], dim=1)


def set_of(size, seed):
    return torch.randperm(NUM_ITEMS, generator=stream(seed, "set"))[:size]


def slow_errors(gram, modes, labeled, targets, ridge):
    """Predict item by item and project the error onto each mode, in plain loops."""
    inside = gram[labeled][:, labeled] + ridge * torch.eye(len(labeled)).double()
    weights = torch.linalg.inv(inside) @ targets[labeled]
    errors = []
    for number in range(len(modes.eigenvalues)):
        total = 0.0
        for output in range(targets.shape[1]):
            overlap = 0.0
            for item in range(len(gram)):
                guess = float(gram[item, labeled] @ weights[:, output])
                gap = guess - float(targets[item, output])
                overlap += float(modes.functions[item, number]) * gap
            total += (overlap / len(gram)) ** 2
        errors.append(total)
    return errors


def test_modes_are_eigenfunctions(kernel, modes):
    every = torch.arange(NUM_ITEMS)
    gram, functions = kernel.block(every, every), modes.functions
    same = torch.eye(NUM_ITEMS).double()
    torch.testing.assert_close(functions.T @ functions / NUM_ITEMS, same)
    torch.testing.assert_close(
        gram @ functions / NUM_ITEMS, functions * modes.eigenvalues
    )
    assert (modes.eigenvalues.diff() <= 0).all()
    assert float(modes.eigenvalues.sum()) == pytest.approx(
        float(gram.diagonal().mean())
    )


def test_power_is_parsevals(modes, targets):
    power = modes.power(targets)
    assert float(power.sum()) == pytest.approx(float(targets.square().sum(1).mean()))
    assert power[1:4].min() > 0.5


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_error_of_a_set_agrees_with_plain_loops(ridge):
    rows = torch.randn(14, 5, generator=stream(2, "rows"))
    kernel, every = wide_head_kernel(rows), torch.arange(14)
    modes = kernel_modes(kernel, every)
    targets = torch.randn(14, 2, generator=stream(3, "targets")).double()
    labeled = torch.tensor([3, 7, 9, 0])
    found = labeled_set_error(kernel, modes, labeled, targets, ridge=ridge)
    slow = slow_errors(kernel.block(every, every), modes, labeled, targets, ridge)
    assert found.tolist() == pytest.approx(slow)


def test_without_targets_it_is_the_mean_over_targets_of_the_process(kernel, modes):
    labeled = set_of(20, 0)
    drawn = torch.randn(NUM_ITEMS, 20_000, generator=stream(4, "process")).double()
    paths = modes.functions * modes.eigenvalues.sqrt() @ drawn
    for ridge in (0.0, 2.0):
        expected = labeled_set_error(kernel, modes, labeled, ridge=ridge)
        over_paths = labeled_set_error(kernel, modes, labeled, paths, ridge=ridge)
        torch.testing.assert_close(over_paths / 20_000, expected, rtol=0.05, atol=1e-4)
    # Without a ridge: the variance that is left.
    every = torch.arange(NUM_ITEMS)
    cross = kernel.block(every, labeled)
    explained = cross @ torch.linalg.solve(kernel.block(labeled, labeled), cross.T)
    left = (kernel.diagonal(every) - explained.diagonal()).mean()
    total = labeled_set_error(kernel, modes, labeled).sum()
    assert float(total) == pytest.approx(float(left), rel=1e-6)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("size", [10, 30, 60])
def test_theory_agrees_with_simulated_random_sets(kernel, modes, targets, size, ridge):
    power = modes.power(targets)
    theory = random_set_error(modes, power, size, ridge=ridge)
    sets = [set_of(size, seed) for seed in range(200)]
    simulated = torch.stack(
        [labeled_set_error(kernel, modes, one, targets, ridge=ridge) for one in sets]
    ).mean(dim=0)
    assert float(theory.sum()) == pytest.approx(float(simulated.sum()), rel=0.1)
    for part in (slice(0, 1), slice(1, 4), slice(4, 13), slice(13, None)):
        assert float(theory[part].sum()) == pytest.approx(
            float(simulated[part].sum()), rel=0.2, abs=0.01 * float(power.sum())
        )


def test_large_modes_are_learned_first(modes):  # Bordelon et al.; paper, Sec. 4.2
    for size in (1, 10, 100):
        errors = random_set_error(modes, modes.eigenvalues, size)
        assert ((errors / modes.eigenvalues).diff() >= -1e-12).all()
    nothing = random_set_error(modes, modes.eigenvalues, 0)
    assert nothing.tolist() == modes.eigenvalues.tolist()


@given(st.integers(1, 250), st.floats(0, 10))
def test_the_equation_is_met(modes, num_labeled, ridge):
    """A target in the first mode alone tells κ and γ, which meet their equations."""
    values, first = modes.eigenvalues, torch.zeros(NUM_ITEMS).double()
    first[0] = 1
    errors = random_set_error(modes, first, num_labeled, ridge=ridge)
    # Elsewhere there is variance alone: P λ² / (κ + P λ)² E.
    share = float((errors[1] / errors[-1]).sqrt() * values[-1] / values[1])
    kappa = float(num_labeled * (values[-1] - values[1] * share) / (share - 1))
    learned = num_labeled * values / (kappa + num_labeled * values)
    right = ridge + kappa * float(learned.sum()) / num_labeled
    assert kappa == pytest.approx(right, rel=1e-6)
    gamma = float(learned.square().sum()) / num_labeled
    bias = float(1 - learned[0]) ** 2
    assert float(errors.sum()) == pytest.approx(bias / (1 - gamma), rel=1e-6)


def test_more_labels_than_modes_leave_nothing_but_what_no_mode_holds():
    rows = torch.randn(40, 3, generator=stream(5, "rows"))
    modes = kernel_modes(euclidean_kernel(rows), torch.arange(40))
    assert int((modes.eigenvalues > 0).sum()) == 3
    errors = random_set_error(modes, torch.ones(40).double(), 5)
    assert errors.tolist() == [0] * 3 + [1] * 37


def test_a_part_of_the_pool_can_be_measured(kernel, targets):
    part = torch.arange(0, NUM_ITEMS, 3)
    modes, labeled = kernel_modes(kernel, part), set_of(15, 1)
    errors = labeled_set_error(kernel, modes, labeled, targets)
    weights = torch.linalg.solve(kernel.block(labeled, labeled), targets[labeled])
    gaps = kernel.block(part, labeled) @ weights - targets[part]
    assert float(errors.sum()) == pytest.approx(float(gaps.square().sum(1).mean()))


def test_wrong_numbers(modes):
    with pytest.raises(UsageError, match="num_labeled is -1"):
        random_set_error(modes, modes.eigenvalues, -1)
    with pytest.raises(UsageError, match=r"ridge is -0.1"):
        random_set_error(modes, modes.eigenvalues, 5, ridge=-0.1)
