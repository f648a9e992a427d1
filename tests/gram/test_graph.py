"""Which items are near each other, against all pairs looked at one by one."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.neighbors import NearestNeighbors

from fewlabels import progress, training
from fewlabels.errors import ConvergenceWarning, UnknownNameError, UsageError
from fewlabels.gram import graph as graphs
from fewlabels.gram import nearest as search
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nearest import nearest
from fewlabels.gram.nodes import Nodes, row_hashes
from fewlabels.training.spreading import Spreading


def some_rows(number=60, width=7, seed=0):
    return np.random.default_rng(seed).normal(size=(number, width)).astype(np.float32)


def graph_of(rows, num_neighbors=5, origin=0.0):
    return NeighborGraph.of(Nodes.of(rows, origin), num_neighbors)


def unit(nodes):
    rows = np.asarray(nodes.rows)[nodes.first].astype(np.float64) - nodes.origin
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("origin", [0.0, -1.0])
def test_the_nearest_are_those_of_scikit_learn(origin):
    nodes = Nodes.of(some_rows(), origin)
    near, squares = nearest(nodes, 5)
    peer = NearestNeighbors(n_neighbors=6).fit(unit(nodes))
    distances, places = peer.kneighbors(unit(nodes))
    np.testing.assert_array_equal(near, places[:, 1:])
    np.testing.assert_allclose(np.sqrt(squares), distances[:, 1:], atol=1e-6)


@pytest.mark.parametrize("block", [1, 7, 60])
def test_the_size_of_a_block_changes_no_bit(block, monkeypatch):
    expected = graph_of(some_rows())
    monkeypatch.setattr(search, "_BLOCK", block)
    monkeypatch.setattr(search, "_REFINED", block)
    found = graph_of(some_rows())
    assert found.reach.tobytes() == expected.reach.tobytes()
    assert found.weights.data.tobytes() == expected.weights.data.tobytes()
    np.testing.assert_array_equal(found.weights.indices, expected.weights.indices)


def test_edges_are_weighed_by_the_reach_of_both_ends():
    graph = graph_of(some_rows(), 4)
    rows = unit(graph.nodes)
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    reach = np.sqrt(np.sort(squares, axis=1)[:, 4])
    is_near = squares <= reach[:, None] ** 2 * (1 + 1e-9)
    expected = np.exp(-squares / np.outer(reach, reach)) * (is_near | is_near.T)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(graph.weights.toarray(), expected, atol=1e-6)


def test_the_order_of_the_items_has_no_say():
    rows = some_rows()
    order = np.random.default_rng(1).permutation(len(rows))
    one, other = graph_of(rows), graph_of(rows[order])
    np.testing.assert_array_equal(one.nodes.node_of[order], other.nodes.node_of)
    assert one.weights.data.tobytes() == other.weights.data.tobytes()


def test_equal_rows_are_one_node():
    rows = some_rows(10)
    rows[3] = rows[8]
    rows[5, 0], rows[6] = -0.0, rows[5]
    rows[6, 0] = 0.0
    nodes = Nodes.of(rows, 0.0)
    assert len(nodes) == 8
    assert nodes.node_of[3] == nodes.node_of[8]
    assert nodes.node_of[5] == nodes.node_of[6]
    np.testing.assert_array_equal(nodes.node_of[nodes.first], np.arange(8))


def test_a_row_has_its_hash_in_any_company():
    rows = torch.from_numpy(some_rows(50))
    together = row_hashes(rows)
    assert torch.equal(together, torch.cat([row_hashes(row[None]) for row in rows]))
    assert len(together.unique()) == 50
    assert int(row_hashes(torch.tensor([[1.0, 2.0]]))[0]) == -5115272266120167424


def test_center_and_spread_are_those_of_the_directions():
    nodes = Nodes.of(some_rows(), 0.0)
    rows = unit(nodes)
    np.testing.assert_allclose(nodes.center, rows.mean(axis=0), atol=1e-6)
    expected = np.sqrt(((rows - rows.mean(axis=0)) ** 2).mean())
    assert nodes.spread == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_fewer_items_than_neighbors(number):
    graph = graph_of(some_rows(number), 10)
    assert graph.weights.nnz == number * (number - 1)
    assert np.isfinite(graph.influence(0, 0.99)).all()


def test_rows_without_a_direction():
    rows = np.zeros((6, 3), dtype=np.float32)
    graph = graph_of(rows)
    assert (len(graph), graph.nodes.spread) == (1, 1.0)
    assert graph.influence(0, 0.99).tolist() == [1.0]
    rows[1:4] = np.eye(3)
    assert np.isfinite(graph_of(rows).normalized.data).all()


def test_an_outlier_keeps_its_edges():
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32) * 1e-4 + 1
    rows[0] = [1, -1, 1, -1]
    graph = graph_of(rows, 3)
    alone = graph.nodes.node_of[0]
    assert (graph.weights[[alone]].data > 0).sum() == 3
    assert np.isfinite(graph.normalized.data).all()


def test_influence_is_a_column_of_the_inverse():
    graph = graph_of(some_rows())
    inverse = np.linalg.inv(np.eye(60) - 0.9 * graph.normalized.toarray())
    found = np.stack([graph.influence(node, 0.9) for node in range(60)], axis=1)
    np.testing.assert_allclose(found, inverse, atol=1e-8)


def test_influences_do_not_depend_on_what_was_asked_before(monkeypatch):
    first, second = graph_of(some_rows()), graph_of(some_rows())
    for node in range(10):
        second.influence(node, 0.99)
    assert first.influence(9, 0.99).tobytes() == second.influence(9, 0.99).tobytes()
    monkeypatch.setattr(graphs, "_MOST_BYTES", 60 * 8 * 3)
    for node in range(10, 20):
        second.influence(node, 0.99)
    assert len(second._columns) <= 11


def test_a_solution_that_is_not_exact_is_told_once(monkeypatch):
    monkeypatch.setattr(graphs, "_MOST_ROUNDS", 3)
    graph = graph_of(some_rows())
    with pytest.warns(ConvergenceWarning) as told:
        found = graph.influence(4, 0.99)
    graph.influence(5, 0.99)  # a second warning would be an error
    source = np.eye(60)[4]
    left = source - found + 0.99 * graph.normalized @ found
    known = f"graph of 60 items is known to {np.linalg.norm(left):.1e}, not 1e-10"
    assert known in str(told[0].message)


def test_a_potential_is_that_of_a_direct_solution():
    rows = some_rows()
    rows[:, 0] += np.where(np.arange(60) < 30, 20, -20)  # two parts
    graph = graph_of(rows)
    assert graph.parts.max() == 1
    laplacian = sparse.diags_array(graph.degrees) - graph.weights
    for node in (0, 17, 40):
        inside = np.flatnonzero(graph.parts == graph.parts[node])
        source = (inside == node) - graph.degrees[inside] / graph.degrees[inside].sum()
        direct = np.zeros(len(graph))  # the first node of the part is held at zero
        kept = inside[1:]
        direct[kept] = spsolve(laplacian.tocsr()[kept][:, kept].tocsc(), source[1:])
        direct[inside] -= np.average(direct[inside], weights=graph.degrees[inside])
        np.testing.assert_allclose(graph.influence(node, None), direct, atol=1e-7)


@pytest.mark.parametrize("dense", [0, 200])
def test_the_spectrum_is_of_the_largest_eigenvalues(dense, monkeypatch):
    monkeypatch.setattr(graphs, "_DENSE", dense)
    graph = graph_of(some_rows())
    values, vectors = np.linalg.eigh(graph.normalized.toarray())
    found = graph.spectrum(4)
    np.testing.assert_allclose(found[0], values[::-1][:4], atol=1e-8)
    np.testing.assert_allclose(
        np.abs(found[1].T @ vectors[:, ::-1][:, :4]), np.eye(4), atol=1e-6
    )
    assert found is graph.spectrum(4)
    assert values[-1] == pytest.approx(1)


def test_faiss_finds_most_neighbors_and_tells_how_many(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(search, "_BLOCK", 100)
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(3, 8))[draws.integers(3, size=600)]
    rows = (rows + 0.3 * draws.normal(size=rows.shape)).astype(np.float32)
    nodes = Nodes.of(rows, 0.0)

    listener = Mock()
    with progress.reporting(listener):
        near, squares = nearest(nodes, 5, "faiss")
    exact = nearest(nodes, 5)[0]
    share = (near[:, :, None] == exact[:, None]).any(axis=2).mean()
    assert 0.6 < share <= 1
    (told,) = listener.tell.call_args_list
    assert told.args[1]["recall"] == pytest.approx(share, abs=0.1)
    assert (np.diff(squares, axis=1) >= 0).all()
    assert not (near == np.arange(len(nodes))[:, None]).any()


def test_faiss_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'faiss-cpu'"):
        training.make("spreading", search="faiss")
    with pytest.raises(UnknownNameError, match="search called 'best'"):
        Spreading(search="best")
