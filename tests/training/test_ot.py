"""Optimal transport: assignments against linear programs, and what shares do."""

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.training.test_spreading import logits_of, pool_of, problem
from tests.training.test_trainers import fit

from fewlabels import training
from fewlabels.training.graph import Sources, balanced
from fewlabels.training.ot import OT, assignment, center_distances, first_centers


def cheapest(costs, masses, shares):
    """Return the cheapest plan by a linear program, rows that add up to one."""
    num_nodes, num_classes = costs.shape
    weights, wanted = masses / masses.sum(), shares / shares.sum()
    each = np.kron(np.eye(num_nodes), np.ones(num_classes))
    of_class = np.kron(np.ones(num_nodes), np.eye(num_classes))
    found = linprog(
        costs.ravel(),
        A_eq=np.concatenate([each, of_class]),
        b_eq=np.concatenate([weights, wanted]),
    )
    return found.x.reshape(costs.shape) / weights[:, None]


@pytest.mark.parametrize("seed", range(4))
def test_the_assignment_approaches_the_cheapest_one(seed):
    draws = np.random.default_rng(seed)
    costs = draws.uniform(size=(24, 3))
    masses = draws.integers(1, 3, size=24).astype(float)
    shares = np.array([0.5, 0.3, 0.2])
    best = cheapest(costs, masses, shares)
    least = (masses[:, None] * best * costs).sum()
    excess = []
    for temperature in (0.3, 0.1, 0.03):
        plan = np.exp(assignment(costs, masses, shares, temperature).logs)
        np.testing.assert_allclose(plan.sum(axis=1), 1)
        met = masses @ plan / masses.sum()
        np.testing.assert_allclose(met, shares, atol=1e-3)
        excess.append((masses[:, None] * plan * costs).sum() / least - 1)
    assert excess[0] > excess[1] > excess[2]
    assert abs(excess[2]) < 0.02
    is_whole = best.max(axis=1) > 1 - 1e-9
    same = plan.argmax(axis=1) == best.argmax(axis=1)
    assert same[is_whole].mean() > 0.9


def test_without_shares_asked_for_the_estimate_is_what_softmax_gives():
    costs = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    masses = np.array([1.0, 1.0, 2.0])
    estimated = assignment(costs, masses, np.ones(2), 1.0).unbalanced
    near = 1 / (1 + np.exp(-2))
    expected = (2 * near + 2 * (1 - near)) / 4
    np.testing.assert_allclose(estimated, [expected, 1 - expected], atol=1e-6)


def test_where_an_assignment_begins_changes_nothing():
    draws = np.random.default_rng(0)
    told = draws.uniform(size=(30, 3)), np.ones(30), np.array([3.0, 2.0, 1.0]), 0.1
    first = assignment(*told)
    again = assignment(*told, first.offsets)
    np.testing.assert_allclose(again.logs, first.logs, atol=1e-4)
    np.testing.assert_allclose(again.offsets, first.offsets, atol=1e-4)


def test_center_distances():
    points, centers = np.array([[0.0, 3.0], [1.0, 1.0]]), np.array([[4.0, 0.0]])
    np.testing.assert_allclose(center_distances(points, centers), [[25.0], [10.0]])


def test_extreme_costs_give_finite_beliefs():
    logits = np.array([[0.0, -1e9], [0.0, -1e9], [0.0, -1e9]])
    assert np.isfinite(balanced(logits, np.ones(3), np.array([0.1, 0.9]))).all()


def test_few_labels_of_clear_classes_are_enough():
    graph, sources, labels = problem(num_labels=3, distance=4.0)
    found = OT(shares="even").beliefs(graph, sources).argmax(axis=1)
    assert (found == labels).mean() > 0.95


def clusters(num_classes, labeled):
    """Return three sources of each labeled class among well separated clusters."""
    graph, sources, labels = problem(
        num_labels=3 * num_classes, distance=6.0, num_classes=num_classes
    )
    is_kept = np.isin(sources.classes, labeled)
    kept = sources.nodes[is_kept], sources.classes[is_kept]
    return graph, Sources(*kept, num_classes), labels


def test_a_class_without_labels_is_found_where_shares_are_told():
    graph, sources, labels = clusters(4, labeled=[0, 1, 3])
    found = OT(shares="even").beliefs(graph, sources).argmax(axis=1)
    assert (found == labels).mean() > 0.95
    unknown = OT().beliefs(graph, sources).argmax(axis=1)
    assert set(unknown) == {0, 1, 3}


def test_of_two_classes_without_labels_none_is_preferred():
    graph, sources, labels = clusters(4, labeled=[0, 1])
    logs = OT(shares=(1.0, 1.0, 1.5, 0.5)).beliefs(graph, sources)
    is_other = np.isin(labels, [2, 3])
    preferred = (logs[:, 2] - logs[:, 3])[is_other]
    np.testing.assert_allclose(preferred, preferred[0], atol=1e-6)
    assert preferred[0] > 0
    assert np.isin(logs.argmax(axis=1), [2, 3])[is_other].mean() > 0.9
    assert not np.isin(logs.argmax(axis=1), [2, 3])[~is_other].any()


def test_first_centers():
    points = np.array([[0.0], [1.0], [9.0], [10.0], [20.0]])
    given = np.zeros((5, 3))
    given[:2, 0] = 1
    masses = np.array([1.0, 3.0, 2.0, 1.0, 1.0])
    found = first_centers(points, masses, given)
    np.testing.assert_allclose(found, [[0.75], [10.0], [20.0]])


def test_uneven_classes_are_estimated():
    draws = np.random.default_rng(0)
    labels = np.array([0, 1, 0, 1] + [0] * 90 + [1] * 26)
    rows = (draws.normal(size=(120, 6)) + 3 * np.eye(6)[labels]).astype(np.float32)
    pool = pool_of(rows, labels, np.arange(4))

    def accuracy(**options):
        logits = logits_of(fit(training.make("ot", **options), pool), pool)
        return float((logits.argmax(dim=1).numpy() == labels).mean())

    assert accuracy(shares=(92.0, 28.0)) > accuracy(shares="even") + 0.1
    assert accuracy() > accuracy(shares="even")
