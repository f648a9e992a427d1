"""Label spreading, and what all learners over a graph keep to."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.semi_supervised import LabelSpreading
from tests.training.test_trainers import fit, weights

from fewlabels import data, rng, strategies, training
from fewlabels.errors import UsageError
from fewlabels.experiments import conformance
from fewlabels.gram import graph as neighbor_graphs
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Nodes
from fewlabels.models.classifiers import FrozenClassifier
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.training import graph as graphs
from fewlabels.training.graph import Sources, balanced, fit_sharpness, floored
from fewlabels.training.spreading import Spreading, SpreadLabels, influence

HEADS = ["blend", "spreading", "poisson", "ot"]
each_head = pytest.mark.parametrize("name", HEADS)


def blobs(num_each=20, num_classes=3, distance=3.0, seed=0):
    """Return rows around one direction per class, and the classes."""
    draws = np.random.default_rng(seed)
    labels = np.arange(num_each * num_classes) % num_classes
    rows = draws.normal(size=(len(labels), 8)) + distance * np.eye(8)[labels]
    return rows.astype(np.float32), labels


def pool_of(rows, labels, known):
    told = torch.full((len(rows),), UNKNOWN)
    told[known] = torch.from_numpy(np.asarray(labels))[known]
    names = [str(number) for number in range(int(max(labels)) + 1)]
    return Pool.build(ArrayImages(torch.from_numpy(rows)), told, names)


def problem(num_labels=9, **options):
    rows, labels = blobs(**options)
    nodes = Nodes.of(rows, 0.0)
    places = nodes.node_of[:num_labels]
    sources = Sources(places, labels[:num_labels], int(labels.max()) + 1)
    return NeighborGraph.of(nodes, 6), sources, labels[nodes.first]


def logits_of(classifier, pool):
    return classifier.outputs(pool.images, torch.arange(len(pool))).logits


# ---------------------------------------------------------------------- mathematics


@pytest.mark.parametrize("most", [0, 256])
@pytest.mark.parametrize("damping", [0.5, 0.99])
def test_influence_is_that_of_scikit_learn_on_the_same_graph(
    damping, most, monkeypatch
):
    monkeypatch.setattr(graphs, "MOST_COLUMNS", most)
    graph, sources, _ = problem()
    felt = influence(graph, sources, damping)
    told = np.full(len(graph), -1)
    told[sources.nodes] = sources.classes
    peer = LabelSpreading(
        kernel=lambda *_: graph.weights.toarray(),
        alpha=damping,
        max_iter=20_000,
        tol=1e-13,
    ).fit(np.zeros((len(graph), 1)), told)
    found = felt / felt.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, peer.label_distributions_, atol=1e-6)


def test_every_class_is_as_influential_as_the_others():
    graph, sources, _ = problem()
    felt = influence(graph, sources, 0.99)
    scores = felt / felt.sum(axis=0)
    logs = Spreading().beliefs(graph, sources)
    np.testing.assert_array_equal(logs.argmax(axis=1), scores.argmax(axis=1))
    ratios = np.log(scores[:, 0] / scores[:, 1])
    kept = np.abs(logs).max(axis=1) < 9
    powers = (logs[:, 0] - logs[:, 1])[kept] / ratios[kept]
    np.testing.assert_allclose(powers, powers[0], rtol=1e-6)


def test_labels_are_left_out_as_if_they_had_never_been_given():
    graph, sources, _ = problem(num_labels=8)
    spread = SpreadLabels.of(graph, sources, 0.99)
    assert spread.chosen.tolist() == list(range(8))
    for number, row in enumerate(spread.left_out):
        others = np.arange(len(sources)) != number
        fewer = Sources(sources.nodes[others], sources.classes[others], 3)
        felt = influence(graph, fewer, 0.99)
        expected = (felt / felt.sum(axis=0))[sources.nodes[number]]
        np.testing.assert_allclose(np.exp(row), expected, atol=1e-9)


def test_the_only_label_of_a_class_is_not_left_out():
    graph, sources, _ = problem(num_labels=4)  # of classes 0, 1, 2, 0
    spread = SpreadLabels.of(graph, sources, 0.99)
    assert sources.classes[spread.chosen].tolist() == [0, 0]


# -------------------------------------------------------------------------- how sure


def test_sharpness_is_found_again():
    draws = np.random.default_rng(0)
    logits = draws.normal(size=(2000, 3))
    for power in (0.5, 2.0, 8.0):
        chances = softmax(power * logits, axis=1)
        labels = np.array([draws.choice(3, p=row) for row in chances])
        assert fit_sharpness(logits, labels, 4.0)[0] == pytest.approx(power, rel=0.2)


def test_without_labels_to_leave_out_sharpness_is_usual():
    assert fit_sharpness(np.empty((0, 3)), np.empty(0, dtype=int), 4.0) == (4, 0)
    assert 4 <= fit_sharpness(np.log([[0.6, 0.4]]), np.array([0]), 4.0)[0] <= 8


def test_what_no_label_reaches_may_be_anything():
    logs = floored(np.array([[-900.0, -900.0], [0.0, -900.0]]))
    np.testing.assert_allclose(np.exp(logs[0]), 0.5)
    assert logs[1, 1] == pytest.approx(-10, abs=0.02)
    assert logs[1, 1] >= -10
    np.testing.assert_allclose(softmax(floored(logs), axis=1).sum(axis=1), 1)


def test_probabilities_are_about_as_often_right_as_they_say():
    rows, labels = blobs(num_each=150, distance=1.6)
    pool = pool_of(rows, labels, np.arange(24))
    logits = logits_of(fit(training.make("spreading"), pool), pool)[24:]
    chance, said = logits.softmax(1).max(dim=1)
    accuracy = float((said == torch.from_numpy(labels[24:])).float().mean())
    assert 0.6 < accuracy < 0.98
    assert float(chance.mean()) == pytest.approx(accuracy, abs=0.1)


# ----------------------------------------------------------------------------- shares


def test_balanced_beliefs_meet_shares_and_scale_classes_alone():
    draws = np.random.default_rng(0)
    logits, masses = draws.normal(size=(50, 3)), draws.integers(1, 4, size=50) * 1.0
    shares = np.array([0.5, 0.3, 0.2])
    found = balanced(logits, masses, 7 * shares)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)
    np.testing.assert_allclose(masses @ np.exp(found) / masses.sum(), shares, atol=1e-5)
    shift = found - logits
    np.testing.assert_allclose(
        shift - shift[:, :1], (shift - shift[:, :1])[:1] * np.ones((50, 1)), atol=1e-9
    )


@each_head
@pytest.mark.parametrize("shares", ["even", (1.0, 2.0, 1.0)])
def test_shares_that_are_told_are_met(name, shares):
    rows, labels = blobs(distance=1.0)
    pool = pool_of(rows, labels, np.arange(6))
    logits = logits_of(fit(training.make(name, shares=shares), pool), pool)
    told = np.ones(3) if shares == "even" else np.array(shares)
    np.testing.assert_allclose(
        logits.softmax(1).mean(dim=0), told / told.sum(), atol=1e-3
    )


@each_head
def test_wrong_shares_are_explained(name, pool):
    with pytest.raises(UsageError, match=r"shares is 0\.0; it must be above 0"):
        training.make(name, shares=(1.0, 0.0))
    with pytest.raises(UsageError, match="shares has 3 entries; give 2, one per class"):
        training.make(name, shares=(1.0, 1.0, 1.0)).check(pool)
    with pytest.raises(UsageError, match="neighbors is 0; it must be at least 1"):
        training.make(name, neighbors=0)


# --------------------------------------------------------------------- what all keep to


@each_head
def test_what_every_trainer_promises(name):
    findings = list(conformance.check(training.make(name), pool=data.load("digits")))
    assert len(findings) > 8
    assert [one for one in findings if one.outcome == "failed"] == []


@each_head
@pytest.mark.usefixtures("untouched_randomness")
def test_the_seed_has_no_say_and_finished_trainings_are_found(name, tmp_path, pool):
    trainer = training.make(name)
    steps = []
    first = fit(
        trainer, pool, workspace=tmp_path, on_checkpoint=lambda s, _: steps.append(s)
    )
    assert torch.equal(weights(first), weights(fit(trainer, pool, seed=1)))
    found = training.restored(trainer, pool, rng.stream(0, "train", 0), tmp_path)
    assert torch.equal(weights(first), weights(found))
    assert torch.equal(logits_of(first, pool), logits_of(found, pool))
    assert (steps, trainer.num_steps) == ([1], None)


@each_head
def test_the_graph_is_made_once_for_all_labels(name, monkeypatch):
    made = []
    of = NeighborGraph.of
    monkeypatch.setattr(graphs, "_remembered", {})
    monkeypatch.setattr(neighbor_graphs, "_remembered", {})
    monkeypatch.setattr(NeighborGraph, "of", lambda *told: made.append(1) or of(*told))
    rows, labels = blobs()
    pool, more = (pool_of(rows, labels, np.arange(number)) for number in (5, 6))
    trainer = training.make(name)
    fit(trainer, pool)
    later = fit(trainer, replace(more, images=pool.images))
    assert len(made) == 1
    assert torch.equal(weights(later), weights(fit(trainer, more)))  # other images
    assert len(made) == 1
    fit(trainer, pool_of(rows + 1, labels, np.arange(5)))
    assert len(made) == 2


@each_head
def test_it_looks_at_encoded_images_too(name, tmp_path):
    images = torch.randint(90, (40, 1, 8, 8), generator=rng.stream(0, "images"))
    images[::2, :, :4] += 150  # bright above, and the others below
    images[1::2, :, 4:] += 150
    labels = torch.full((40,), UNKNOWN)
    labels[:6] = torch.arange(6) % 2
    pool = Pool.build(ArrayImages(images.to(torch.uint8)), labels, ["above", "below"])
    options = {"encoder": "tests.models.toy:Means", "cache": str(tmp_path)}
    classifier = fit(training.make(f"frozen-{name}", **options), pool)
    assert isinstance(classifier, FrozenClassifier)
    predicted = logits_of(classifier, pool).argmax(dim=1)
    assert torch.equal(predicted, torch.arange(40) % 2)


@each_head
def test_new_images_are_classified_by_their_neighbors(name):
    rows, labels = blobs(distance=5.0)
    pool = pool_of(rows[:40], labels, np.arange(6))
    rest = ArrayImages(torch.from_numpy(rows[40:]))
    for landmarks in (1, 15, 1000):
        classifier = fit(training.make(name, landmarks=landmarks), pool)
        found = classifier.outputs(rest, torch.arange(20)).logits.argmax(dim=1)
        if landmarks > 1:
            assert (found.numpy() == labels[40:]).mean() > 0.9


@each_head
@pytest.mark.parametrize("strategy", ["npc", "badge", "coreset", "entropy"])
def test_strategies_can_ask_it(name, strategy):
    rows, labels = blobs()
    pool = pool_of(rows, labels, np.arange(6))
    classifier = fit(training.make(name), pool)
    query = strategies.resolve(strategy).select(classifier, pool, 4, rng.stream(0, "q"))
    assert len(query.indices) == 4


# ------------------------------------------------------------------------- odd pools


def odd_pools():
    rows, labels = blobs()
    yield "one label", pool_of(rows, labels, [0])
    yield "one class", pool_of(rows, labels, [0, 3, 6])
    yield "a class without labels", pool_of(rows, labels, [0, 1, 3])
    yield "one item", pool_of(rows[:1], labels[:1], [0])
    yield "two items", pool_of(rows[:2], labels[:2], [0, 1])
    yield "all equal", pool_of(np.ones((7, 4), np.float32), labels[:7], [0, 1, 2])
    yield "all black", pool_of(np.zeros((7, 4), np.float32), labels[:7], [0, 1])
    yield "all labeled", pool_of(rows, labels, np.arange(60))
    yield (
        "copies",
        pool_of(np.repeat(rows[:9], 4, axis=0), np.repeat(labels[:9], 4), [0, 4, 8]),
    )
    far = rows.copy()
    far[30:] *= -1
    yield "two parts", pool_of(far, labels, [0, 1, 2])


ODD = dict(odd_pools())


@each_head
@pytest.mark.parametrize("shares", ["unknown", "even"])
@pytest.mark.parametrize("kind", ODD)
def test_odd_pools(name, shares, kind):
    pool = ODD[kind]
    logits = logits_of(fit(training.make(name, shares=shares, neighbors=3), pool), pool)
    assert bool(logits.isfinite().all())
    torch.testing.assert_close(logits.exp().sum(dim=1), torch.ones(len(pool)))
    if kind not in {"all equal", "all black", "all labeled"}:  # there, labels disagree
        labeled = pool.labeled
        assert torch.equal(logits[labeled].argmax(dim=1), pool.labels[labeled])


@pytest.mark.parametrize("name", ["spreading", "poisson", "ot"])
def test_what_cannot_be_reached_may_be_anything(name):
    rows = np.array([[1, 0], [1, 0.1], [1, 0.2], [-1, 0], [-1, 0.1], [-1, 0.2]])
    pool = pool_of(rows.astype(np.float32), [0, 1, 0, 0, 0, 0], [0, 1])
    logits = logits_of(fit(training.make(name, neighbors=2), pool), pool)
    np.testing.assert_allclose(logits.softmax(1)[3:], 0.5, atol=1e-6)
    assert logits[0].argmax() == 0
    assert logits[1].argmax() == 1
