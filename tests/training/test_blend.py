"""The mixture of label spreading and regression."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from tests.training.test_spreading import blobs, logits_of, pool_of, problem
from tests.training.test_trainers import fit

from fewlabels import training
from fewlabels.gram.diffusion import NUM_COMPONENTS, joint_rows
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Nodes
from fewlabels.models import BlendNetwork
from fewlabels.pool import ArrayImages
from fewlabels.training.blend import (
    Blend,
    equal_weights,
    least_squares,
)
from fewlabels.training.spreading import Spreading


def regression_problem(seed=0, num_rows=12, width=5, num_targets=3):
    draws = np.random.default_rng(seed)
    rows = draws.normal(size=(num_rows, width)).astype(np.float32)
    targets = draws.normal(size=(num_rows, num_targets))
    return rows, targets, draws.uniform(0.5, 2.0, num_rows)


# ---------------------------------------------------------------------- mathematics


@pytest.mark.parametrize("num_rows", [4, 12])  # fewer rows than columns, and more
def test_least_squares_are_those_of_scikit_learn(num_rows):
    rows, targets, weights = regression_problem(num_rows=num_rows)
    penalties = (0.1, 3.0)
    fits = least_squares(rows, targets, weights, penalties)
    for penalty, (coefficients, _) in zip(penalties, fits, strict=True):
        peer = Ridge(alpha=penalty, fit_intercept=False)
        peer.fit(rows.astype(np.float64), targets, sample_weight=weights)
        np.testing.assert_allclose(coefficients.T, peer.coef_, atol=1e-5)


@pytest.mark.parametrize("num_rows", [4, 12])
def test_a_left_out_target_is_what_a_fit_without_its_row_predicts(num_rows):
    rows, targets, weights = regression_problem(num_rows=num_rows)
    ((_, left_out),) = least_squares(rows, targets, weights, [0.3])
    for number in range(num_rows):
        others = np.arange(num_rows) != number
        fewer = rows[others], targets[others], weights[others]
        ((coefficients, _),) = least_squares(*fewer, [0.3])
        np.testing.assert_allclose(
            left_out[number], rows[number] @ coefficients, atol=1e-5
        )


def test_classes_count_equally_and_weights_have_a_mean_of_one():
    labels = np.array([0, 0, 0, 2])
    weights = equal_weights(labels)
    assert weights.mean() == pytest.approx(1)
    assert weights[:3].sum() == pytest.approx(weights[3])
    assert len(equal_weights(labels[:0])) == 0


def test_joint_rows_have_the_kernel_of_centered_directions_and_of_the_graph():
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(60, 8)).astype(np.float32)
    graph = NeighborGraph.of(Nodes.of(rows, 0.0), 6)
    joint = joint_rows(graph, 0.9)
    unit = graph.nodes.read(np.arange(60)).numpy() - graph.nodes.center.numpy()
    expected = unit @ unit.T / np.square(unit).sum(axis=1).mean()
    np.testing.assert_allclose(joint.features @ joint.features.T, expected, atol=1e-5)
    inverse = np.linalg.inv(np.eye(60) - 0.9 * graph.normalized.toarray())
    expected = inverse / np.trace(inverse) * 60  # the rank is that of the graph
    np.testing.assert_allclose(joint.diffusion @ joint.diffusion.T, expected, atol=1e-4)
    some = np.array([3, 5])
    joined = joint.joined(0.25, some)
    halves = 0.75 * joint.features @ joint.features.T, joint.diffusion
    expected = halves[0][3, 5] + 0.25 * halves[1][3] @ halves[1][5]
    assert joined[0] @ joined[1] == pytest.approx(expected, abs=1e-5)


def test_wide_rows_are_brought_to_their_principal_components():
    draws = np.random.default_rng(0)
    low = draws.normal(size=(80, 5)) @ draws.normal(size=(5, NUM_COMPONENTS + 40))
    graph = NeighborGraph.of(Nodes.of(low.astype(np.float32), 0.0), 6)
    joint = joint_rows(graph)
    assert joint.basis.shape == (NUM_COMPONENTS + 40, 80)  # no more than rows
    unit = graph.nodes.read(np.arange(80)).numpy() - graph.nodes.center.numpy()
    expected = unit @ unit.T / np.square(unit).sum(axis=1).mean()
    np.testing.assert_allclose(joint.features @ joint.features.T, expected, atol=1e-4)


# ------------------------------------------------------------------------ the mixture


def test_spreading_counts_less_the_more_labels_there_are_per_class():
    for num_labels in (3, 12, 36):
        graph, sources, _ = problem(num_labels=num_labels)
        mixture = Blend().mixture(graph, joint_rows(graph), sources)
        assert mixture.weight == pytest.approx(12 / (12 + num_labels / 3))


def test_with_nearly_all_weight_it_is_label_spreading():
    graph, sources, _ = problem(num_labels=30)
    mixture = Blend(balance=1e12).mixture(graph, joint_rows(graph), sources)
    expected = Spreading().beliefs(graph, sources)
    np.testing.assert_allclose(np.exp(mixture.beliefs), np.exp(expected), atol=1e-6)


def test_where_neighbors_mislead_the_regression_takes_over():
    # One column tells the class; the others, which tell who is near, are noise.
    draws = np.random.default_rng(0)
    labels = np.arange(400) % 2
    rows = draws.normal(size=(400, 30)).astype(np.float32)
    rows[:, 0] = np.where(labels, 0.8, -0.8) + 0.2 * draws.normal(size=400)
    pool = pool_of(rows, labels, np.arange(120))
    accuracy = {}
    for name in ("spreading", "blend"):
        predicted = logits_of(fit(training.make(name), pool), pool).argmax(dim=1)
        accuracy[name] = float((predicted.numpy() == labels)[120:].mean())
    assert accuracy["blend"] > accuracy["spreading"] + 0.03


def test_a_class_without_labels_is_never_expected():
    rows, labels = blobs()
    known = np.flatnonzero(labels < 2)[:12]
    pool = pool_of(rows, labels, known)
    probabilities = logits_of(fit(training.make("blend"), pool), pool).softmax(dim=1)
    assert float(probabilities[:, 2].max()) < 1e-3


@pytest.mark.parametrize("num_labels", [1, 2, 3])
def test_one_or_two_labels_are_enough_to_begin(num_labels):
    rows, labels = blobs()
    pool = pool_of(rows, labels, np.arange(num_labels))
    assert bool(logits_of(fit(training.make("blend"), pool), pool).isfinite().all())


def test_a_rotation_changes_nothing():
    rows, labels = blobs(num_each=30, distance=1.5)
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))
    logits = []
    for seen in (rows, (rows @ rotation).astype(np.float32)):
        pool = pool_of(seen, labels, np.arange(24))
        logits.append(logits_of(fit(training.make("blend"), pool), pool).softmax(dim=1))
    torch.testing.assert_close(*logits, rtol=0, atol=1e-3)


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_it_is_as_sure_as_it_is_right_on_nodes_without_labels(distance):
    sure, right = [], []
    for seed in range(8):
        options = {"num_each": 100, "distance": distance, "seed": seed}
        graph, sources, labels = problem(num_labels=50, **options)
        mixture = Blend().mixture(graph, joint_rows(graph), sources)
        others = np.setdiff1d(np.arange(len(graph)), sources.nodes)
        beliefs = mixture.beliefs[others]
        sure.append(np.exp(beliefs.max(axis=1)).mean())
        right.append((beliefs.argmax(axis=1) == labels[others]).mean())
    assert np.mean(sure) == pytest.approx(np.mean(right), abs=0.05)


# ----------------------------------------------------------------------- other images


def test_rows_beside_those_of_the_pool_get_nearly_the_same():
    rows, labels = blobs(num_each=40, distance=2.0)
    pool = pool_of(rows, labels, np.arange(60))
    classifier = fit(training.make("blend"), pool)
    assert isinstance(classifier.module, BlendNetwork)
    beside = ArrayImages(torch.from_numpy(rows * np.float32(1.00001)))
    own = logits_of(classifier, pool).softmax(dim=1)
    other = classifier.outputs(beside, torch.arange(len(rows))).logits.softmax(dim=1)
    torch.testing.assert_close(own, other, rtol=0, atol=0.02)


def test_shares_that_are_given_are_met_in_the_pool_and_move_other_images():
    rows, labels = blobs(num_each=40, distance=1.0)
    pool = pool_of(rows, labels, np.arange(30))
    shares = [0.6, 0.3, 0.1]
    classifier = fit(training.make("blend", shares=shares), pool)
    found = logits_of(classifier, pool).softmax(dim=1).mean(dim=0)
    torch.testing.assert_close(found, torch.tensor(shares), rtol=0, atol=0.01)
    beside = ArrayImages(torch.from_numpy(rows * np.float32(1.00001)))
    other = classifier.outputs(beside, torch.arange(len(rows))).logits.softmax(dim=1)
    torch.testing.assert_close(other.mean(dim=0), found, rtol=0, atol=0.05)
