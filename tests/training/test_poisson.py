"""Poisson learning against a direct sparse solution, and PoissonMBO."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve
from tests.training.test_spreading import blobs, logits_of, pool_of, problem
from tests.training.test_trainers import fit

from fewlabels import training
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Nodes
from fewlabels.training import graph as graphs
from fewlabels.training import poisson
from fewlabels.training.graph import Sources
from fewlabels.training.poisson import Poisson, mean_potentials


def direct(graph, sources):
    """Solve L u = sum of (y - mean y), of one part, with the first node held at 0."""
    one_hot = np.eye(sources.num_classes)[sources.classes]
    source = np.zeros((len(graph), sources.num_classes))
    source[sources.nodes] = one_hot - one_hot.mean(axis=0)
    laplacian = (sparse.diags_array(graph.degrees) - graph.weights).tocsc()
    found = np.zeros_like(source)
    found[1:] = spsolve(laplacian[1:, 1:], source[1:])
    return found - np.average(found, axis=0, weights=graph.degrees)


@pytest.mark.parametrize("most", [0, 256])
def test_potentials_are_those_of_a_direct_solution(most, monkeypatch):
    monkeypatch.setattr(graphs, "MOST_COLUMNS", most)
    graph, sources, _ = problem(num_labels=8, distance=1.0)
    assert graph.parts.max() == 0
    shares = np.bincount(sources.classes) / len(sources)
    expected = direct(graph, sources) / shares / len(sources)
    found = mean_potentials(graph, sources)
    gap = found - expected  # the same for all classes
    np.testing.assert_allclose(gap, np.repeat(gap[:, :1], 3, axis=1), atol=1e-7)
    chosen = Poisson().beliefs(graph, sources).argmax(axis=1)
    np.testing.assert_array_equal(chosen, expected.argmax(axis=1))


def test_labels_are_left_out_as_if_they_had_never_been_given(monkeypatch):
    graph, sources, _ = problem(num_labels=8, distance=1.0)
    seen = []
    monkeypatch.setattr(
        poisson, "fit_sharpness", lambda *told: seen.append(told) or (2.0, 0.0)
    )
    Poisson().beliefs(graph, sources)
    left_out, labels, _ = seen[0]
    assert labels.tolist() == sources.classes.tolist()
    scale = np.std(mean_potentials(graph, sources))
    for number, row in enumerate(left_out):
        others = np.arange(len(sources)) != number
        fewer = Sources(sources.nodes[others], sources.classes[others], 3)
        expected = mean_potentials(graph, fewer)[sources.nodes[number]] / scale
        np.testing.assert_allclose(row, expected, atol=1e-6)


def test_labels_count_in_their_part_of_the_graph():
    rows, labels = blobs()
    rows = np.concatenate([rows + 9, -rows - 9])
    graph = NeighborGraph.of(Nodes.of(rows, 0.0), 3)
    assert graph.parts.max() >= 1
    node = graph.nodes.node_of
    found = mean_potentials(graph, Sources(node[[0, 1]], labels[[0, 1]], 3))
    here = graph.parts == graph.parts[node[0]]
    assert (found[here][:, 2] < -1e5).all()
    assert (found[graph.parts == graph.parts[node[60]]] == 0).all()


def test_shares_improve_on_uneven_classes():
    draws = np.random.default_rng(3)
    labels = np.array([0, 1] * 5 + [0] * 150 + [1] * 40)
    rows = draws.normal(size=(200, 6)) + 1.3 * np.eye(6)[labels]
    rows = rows.astype(np.float32)
    pool = pool_of(rows, labels, np.arange(10))

    def accuracy(**options):
        logits = logits_of(fit(training.make("poisson", **options), pool), pool)
        return float((logits.argmax(dim=1).numpy() == labels).mean())

    assert accuracy(shares=(155.0, 45.0)) > accuracy() + 0.02


def test_a_class_without_labels_changes_nothing():
    graph, sources, _ = problem(num_labels=8, distance=1.0)
    more = Sources(sources.nodes, sources.classes, 4)
    found, wider = (
        Poisson(shares="even").beliefs(graph, some) for some in (sources, more)
    )
    np.testing.assert_array_equal(wider.argmax(axis=1), found.argmax(axis=1))
    np.testing.assert_allclose(wider[:, :3], found, atol=0.01)
