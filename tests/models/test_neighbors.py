"""A vote of the nearest rows."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from fewlabels import models, rng
from fewlabels.errors import UsageError
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Nodes
from fewlabels.models import Neighbors

ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
NEW = torch.from_numpy(np.random.default_rng(1).normal(size=(9, 6)).astype(np.float32))


def filled(num_voters=40, num_classes=3, num_neighbors=4):
    nodes = Nodes.of(ROWS, 0.0)
    graph = NeighborGraph.of(nodes, num_neighbors)
    name = f"neighbors-{num_neighbors}-{num_voters}-{len(nodes)}"
    network = models.build(name, (6,), num_classes, rng.stream(0, "none"))
    assert models.name_of(network) == name
    draws = rng.stream(0, "beliefs")
    beliefs = torch.randn(len(nodes), num_classes, generator=draws).log_softmax(1)
    network.set_nodes(nodes)
    network.set_beliefs(graph, beliefs)
    return network, graph, beliefs


def test_before_it_is_filled_everything_is_equally_likely():
    network = models.build("neighbors-3-5-8", (2, 3), 4, rng.stream(0, "none"))
    logits = network(torch.randn(7, 2, 3, generator=rng.stream(0, "rows")))
    torch.testing.assert_close(logits.softmax(1), torch.full((7, 4), 0.25))


def test_rows_of_the_pool_get_what_is_believed_about_them():
    network, graph, beliefs = filled()
    expected = beliefs[torch.from_numpy(graph.nodes.node_of)]
    rows = torch.from_numpy(ROWS)
    for features in (network.recall(rows), network.embed(rows)):
        torch.testing.assert_close(network.head(features), expected)


def test_rows_that_do_not_vote_are_remembered_all_the_same():
    network, graph, beliefs = filled(num_voters=10)
    expected = beliefs[torch.from_numpy(graph.nodes.node_of)]
    found = network.head(network.recall(torch.from_numpy(ROWS)))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("num_voters", [3, 25, 40])
def test_a_new_row_gets_the_mean_of_its_neighbors(num_voters):
    network, graph, beliefs = filled(num_voters)
    voters = graph.nodes.read(np.arange(num_voters)).double().numpy()
    new = (NEW / NEW.norm(dim=1, keepdim=True)).double().numpy()
    found = network.head(network.recall(NEW)).double().numpy()
    for row, logits in zip(new, found, strict=True):
        squares = ((voters - row) ** 2).sum(axis=1)
        near = np.argsort(squares)[:4]
        own = np.sqrt(squares[near[-1]])
        weights = np.exp(-squares[near] / (own * graph.reach[near]))
        vote = weights @ beliefs[near].exp().double().numpy() / weights.sum()
        np.testing.assert_allclose(logits, np.log(vote), atol=1e-4)


def test_votes_are_worked_out_once_and_new_beliefs_count(monkeypatch):
    network, graph, beliefs = filled()
    first = network.recall(NEW)
    counted, votes = [], Neighbors._votes
    monkeypatch.setattr(
        Neighbors, "_votes", lambda *told: counted.append(1) or votes(*told)
    )
    assert torch.equal(network.recall(NEW), first)
    network.set_beliefs(graph, beliefs.flip(1))
    torch.testing.assert_close(
        network.head(network.recall(NEW)), network.head(first).flip(1)
    )
    assert not counted
    network.recall(NEW[:5])
    assert counted == [1]


def test_features_are_directions_that_probabilities_hardly_change():
    network, graph, _ = filled()
    features = network.recall(NEW)
    assert features.shape == (9, 9)
    unit = NEW / NEW.norm(dim=1, keepdim=True)
    expected = (unit - graph.nodes.center) / graph.nodes.spread
    torch.testing.assert_close(
        torch.cdist(features, features),
        torch.cdist(expected, expected),
        atol=1e-3,
        rtol=1e-3,
    )


def test_there_is_nothing_to_train():
    assert not any(p.requires_grad for p in filled()[0].parameters())
    assert isinstance(filled()[0], Neighbors)


@pytest.mark.parametrize(
    "name", ["neighbors-0-5-8", "neighbors-3-0-8", "neighbors-3-9-8"]
)
def test_impossible_sizes(name):
    with pytest.raises(UsageError, match="at least one must vote"):
        models.check_name(name)


def test_building_without_memory_does_not_import_the_compiler():
    # Whoever asks for the first images over features waits for it.
    script = (
        "import sys, torch; from fewlabels import models\n"
        "with torch.device('meta'):\n"
        "    models.build('blend-3-5-8', (4,), 2, torch.Generator())\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
