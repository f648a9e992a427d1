import numpy as np
import pytest
import torch
from tests.strategies import contract

from fewlabels import rng, training
from fewlabels.gram.diffusion import Diffusion, diffusion_rows, joint_rows
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Nodes
from fewlabels.pool import ArrayImages, Pool
from fewlabels.strategies import (
    Outward,
    SigmaOptimal,
    VarianceReduction,
    VOptimal,
)

NOISE = 0.01
EXACT = 10**6


def doubts(classifier, pool, power):
    """Roots of the weights, item by item."""
    if not power or not len(pool.labeled):
        return np.ones(len(pool))
    found = []
    for row in classifier.logits.double().tolist():
        shares = np.exp(np.array(row) - max(row))
        *_, second, first = sorted(shares / shares.sum())
        found.append((1 - (first - second) + 0.02) ** (power / 2))
    return np.array(found)


def left_by(kernel, members):
    """The covariance once labels are known, by a dense inverse."""
    if not members:
        return kernel
    known = kernel[np.ix_(members, members)] + NOISE * np.eye(len(members))
    return kernel - kernel[:, members] @ np.linalg.inv(known) @ kernel[members]


def leading_share(kernel, members, item, v):
    """How much of the leading eigenvector of what is left an item explains."""
    left = left_by(kernel, members)
    leading = np.linalg.eigh(v[:, None] * left * v)[1][:, -1]
    return (left[item] @ (v * leading)) ** 2 / (left[item, item] + NOISE)


def trace_gain(kernel, members, item, v):
    def trace(some):
        return (v**2 * np.diag(left_by(kernel, some))).sum()

    return trace(members) - trace([*members, item])


def sum_gain(kernel, members, item, v):
    def total(some):
        return v @ left_by(kernel, some) @ v

    return total(members) - total([*members, item])


@pytest.mark.parametrize(
    ("kind", "gain"),
    [(Outward, leading_share), (VOptimal, trace_gain), (SigmaOptimal, sum_gain)],
)
@pytest.mark.parametrize("power", [0.0, 2.0])
@pytest.mark.parametrize("problems", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_agrees_with_trying_every_candidate(kind, gain, power, problems):
    for seed in range(problems):
        pool, classifier = contract.problem(seed, num_labeled=seed % 4)
        strategy = kind(power=power, num_neighbors=4, rank=EXACT)
        query = contract.chosen_by(strategy, pool, classifier, size=2)
        settings = Diffusion(num_neighbors=4, rank=EXACT)
        rows = diffusion_rows(classifier.features, settings).rows.numpy()
        kernel, v = rows @ rows.T, doubts(classifier, pool, power)
        members = pool.labeled.tolist()
        for item in query.indices.tolist():
            free = [one for one in pool.candidates.tolist() if one not in members]
            gains = {one: gain(kernel, members, one, v) for one in free}
            assert gains[item] == pytest.approx(max(gains.values()), rel=1e-6)
            members.append(item)


@pytest.mark.parametrize("kind", [Outward, VOptimal, VarianceReduction, SigmaOptimal])
def test_what_is_left_is_told_and_shrinks(kind):
    pool, classifier = contract.problem(2)
    query = contract.chosen_by(kind(), pool, classifier)
    assert query.record["left_after"] < query.record["left_before"]
    assert query.value == -query.record["left_after"]


def test_few_eigenvectors_choose_nearly_as_well():
    pool, classifier = contract.problem(5)
    exact = contract.chosen_by(SigmaOptimal(rank=EXACT), pool, classifier, 10)
    few = contract.chosen_by(SigmaOptimal(rank=20), pool, classifier, 10)
    left = [
        contract.chosen_by(
            SigmaOptimal(rank=EXACT), with_labels(pool, query), classifier, 1
        ).record["left_before"]
        for query in (exact, few)
    ]
    assert left[1] < 1.1 * left[0]


def with_labels(pool, query):
    labels = pool.labels.clone()
    labels[query.indices] = 0
    return type(pool).build(pool.images, labels, pool.classes)


def test_doubt_decides_between_equal_groups():
    # Two equal groups of rows; the model is unsure about the second alone.
    generator = torch.Generator().manual_seed(0)
    group = torch.randn(12, 3, generator=generator)
    rows = torch.cat([group @ torch.eye(3, 6), group @ torch.eye(3, 6).roll(3, 1)])
    logits = torch.zeros(24, 2)
    logits[:12, 0] = 20
    pool, _ = contract.problem(0)
    labels = torch.full((24,), -1)
    labels[0] = labels[12] = 0
    some = type(pool).build(type(pool.images)(rows), labels, ("a", "b"))
    from fewlabels.models.classifiers import PrecomputedClassifier

    known = PrecomputedClassifier(rows, logits)
    for kind in (Outward, VOptimal, SigmaOptimal):
        query = contract.chosen_by(kind(power=2, num_neighbors=3), some, known, 3)
        assert int(query.indices.min()) >= 12


@pytest.mark.parametrize("power", [0.0, 2.0])
def test_a_joint_kernel_agrees_with_trying_every_candidate(power):
    for seed in range(12):
        pool, classifier = contract.problem(seed, num_labeled=seed % 4)
        strategy = VOptimal(
            kernel="joint", power=power, num_neighbors=4, rank=30, noise=NOISE
        )
        query = contract.chosen_by(strategy, pool, classifier, size=2)
        nodes = Nodes.of(classifier.features.numpy(), 0.0)
        joint = joint_rows(NeighborGraph.of(nodes, 4), 0.99, 30)
        rows = joint.joined(0.5, nodes.node_of).astype(np.float64)
        kernel, v = rows @ rows.T, doubts(classifier, pool, power)
        members = pool.labeled.tolist()
        for item in query.indices.tolist():
            free = [one for one in pool.candidates.tolist() if one not in members]
            gains = {one: trace_gain(kernel, members, one, v) for one in free}
            assert gains[item] == pytest.approx(max(gains.values()), rel=1e-3)
            members.append(item)


def test_a_joint_kernel_has_the_graph_of_a_graph_learner():
    draws = np.random.default_rng(0)
    rows = torch.from_numpy(draws.normal(size=(60, 6)).astype(np.float32))
    labels = torch.full((60,), -1)
    labels[:8] = torch.arange(8) % 2
    pool = Pool.build(ArrayImages(rows), labels, ("a", "b"))
    classifier = training.make("blend").fit(pool, rng.stream(0, "fit"))
    made = []
    of = NeighborGraph.of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NeighborGraph, "of", lambda *told: made.append(1) or of(*told))
        contract.chosen_by(VOptimal(kernel="joint"), pool, classifier, 3)
    assert not made  # the one that was learned over
