"""A linear head that is fitted to labels and to what they say of their neighbors."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.models.toy import Means
from tests.training.conftest import NUM_ITEMS, tiny_pool
from tests.training.test_trainers import fit, weights

from fewlabels import strategies, training
from fewlabels.errors import UsageError
from fewlabels.models.classifiers import FrozenClassifier
from fewlabels.rng import stream
from fewlabels.training import linear as frozen_linear
from fewlabels.training.linear import (
    Linear,
    LinearProblem,
    fit_logistic,
    neighbor_graph,
    spread_labels,
)

EVERY = torch.arange(NUM_ITEMS)
POOL = tiny_pool(shape=(1, 8, 8))


@pytest.fixture
def trained(tmp_path):
    """Make a trainer whose encoder takes a moment."""

    def make(**options):
        place = str(tmp_path / "cache")
        given = {"encoder": "tests.models.toy:Means", "cache": place} | options
        return training.resolve("frozen-linear", given)

    return make


def blobs(sizes, distance=4.0, num_features=6, seed=0):
    """Return rows around one center per class, and the classes."""
    draws = stream(seed, "blobs")
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    rows = torch.randn(len(labels), num_features, generator=draws)
    rows[torch.arange(len(labels)), labels] += distance
    return (rows - rows.mean(dim=0)) / rows.std(dim=0) / num_features**0.5, labels


def some_of_each(labels, number):
    return torch.cat(
        [torch.nonzero(labels == c).flatten()[:number] for c in labels.unique()]
    )


def accuracy(layer, rows, labels):
    predicted = torch.nn.functional.linear(rows, *layer).argmax(dim=1)
    return float((predicted == labels).float().mean())


# ------------------------------------------------------------------------- the parts


@pytest.mark.parametrize("penalty", [0.05, 1.0, 20.0])
def test_logistic_is_that_of_scikit_learn(penalty):
    rows, labels = blobs((30, 20, 10), distance=1.5)
    counts = torch.rand(len(labels), generator=stream(0, "weights")) + 0.5
    one_hot = torch.nn.functional.one_hot(labels).double()
    weight, bias = fit_logistic(rows, one_hot, counts, penalty)
    peer = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=1000)
    peer.fit(rows.double().numpy(), labels.numpy(), sample_weight=counts.numpy())
    np.testing.assert_allclose(weight, peer.coef_, atol=2e-3)
    np.testing.assert_allclose(bias - bias.mean(), peer.intercept_, atol=5e-3)


def test_half_a_label_counts_as_two_halves_of_items():
    rows, labels = blobs((8, 8), distance=1.0)
    shares = torch.stack([labels * 0.3 + 0.2, 0.8 - labels * 0.3], dim=1).double()
    soft = fit_logistic(rows, shares, torch.ones(16), 0.5)
    one_hot = torch.eye(2).double().repeat_interleave(16, dim=0)
    hard = fit_logistic(rows.repeat(2, 1), one_hot, shares.T.flatten(), 0.5)
    np.testing.assert_allclose(soft[0], hard[0], atol=1e-3)


def test_spreading_solves_its_equation():
    rows, labels = blobs((12, 9, 7))
    known = some_of_each(labels, 2)
    graph = neighbor_graph(rows, 4)
    unit = (rows / rows.norm(dim=1, keepdim=True)).double().numpy()
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    adjacency = np.zeros_like(cosines)
    for number, row in enumerate(cosines):
        near = np.argsort(-row)[:4]
        adjacency[number, near] = np.maximum(row[near], 0) ** 3
    adjacency += adjacency.T
    root = 1 / np.sqrt(adjacency.sum(axis=1))
    normalized = root[:, None] * adjacency * root
    of = graph.nodes.node_of
    found = graph.normalized.toarray()[np.ix_(of, of)]
    np.testing.assert_allclose(found, normalized, atol=1e-5)
    one_hot = np.zeros((28, 3))
    one_hot[known, labels[known]] = 1
    flow = np.linalg.solve(np.eye(28) - 0.99 * normalized, one_hot)
    flow /= flow.sum(axis=0)
    expected = flow / flow.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        spread_labels(graph, known, labels[known]), expected, atol=1e-5
    )


def test_what_no_label_reaches_is_anything():
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, -1.0], [-0.1, -1.0]])
    graph = neighbor_graph(rows, 1)
    found = spread_labels(graph, torch.tensor([0, 1]), torch.tensor([0, 1]))
    np.testing.assert_allclose(found[2:], 0.5)


# -------------------------------------------------------------------------- the choice


def solved(rows, labels, known, **options):
    settings = Linear(**options)
    shares = torch.ones(int(labels.max()) + 1).double()
    if not isinstance(settings.shares, str):
        shares = torch.tensor(settings.shares).double()
    problem = LinearProblem(settings, rows, shares)
    return problem.solve(known, labels[known], stream(0, "folds"))


def test_the_pool_helps_where_neighbors_are_alike():
    rows, labels = blobs((150, 60, 30), distance=5.0, num_features=20)
    known = some_of_each(labels, 2)
    alone = solved(rows, labels, known, unlabeled="ignore")
    chosen = solved(rows, labels, known)
    assert torch.equal(chosen[0], solved(rows, labels, known, unlabeled="use")[0])
    assert accuracy(chosen, rows, labels) > accuracy(alone, rows, labels) + 0.2


def test_the_pool_is_left_out_where_neighbors_mislead():
    draws = stream(0, "misleading")
    labels = torch.arange(300) % 2
    rows = torch.randn(300, 12, generator=draws)
    rows[:, 0] = 2.0 * labels - 1 + 0.3 * rows[:, 0]  # one feature tells
    cluster = torch.randint(6, (300,), generator=draws)
    rows[torch.arange(300), 1 + cluster] += 12.0  # and neighbors are of no class
    rows = (rows - rows.mean(dim=0)) / rows.std(dim=0) / 12**0.5
    known = some_of_each(labels, 30)
    chosen = solved(rows, labels, known)
    alone = solved(rows, labels, known, unlabeled="ignore")
    assert torch.equal(chosen[0], alone[0])
    misled = solved(rows, labels, known, unlabeled="use")
    assert accuracy(alone, rows, labels) > accuracy(misled, rows, labels)


def test_shares_that_are_known_are_met_and_unknown_ones_not_made_even():
    sizes = (240, 90, 30)
    rows, labels = blobs(sizes, distance=4.0)
    known = some_of_each(labels, 3)
    found = {}
    for shares in ("unknown", "even", sizes):
        layer = solved(rows, labels, known, shares=shares, pool_weight=1e4)
        predicted = torch.nn.functional.linear(rows, *layer).softmax(dim=1)
        found[shares] = predicted.mean(dim=0)
    told = torch.tensor(sizes) / sum(sizes)
    torch.testing.assert_close(
        found["even"], torch.full((3,), 1 / 3), atol=0.03, rtol=0
    )
    torch.testing.assert_close(found[sizes], told, atol=0.03, rtol=0)
    assert found["even"][0] + 0.1 < found["unknown"][0] < told[0]


# ------------------------------------------------------------------------- the trainer


def test_pixels_share_one_scale():
    pool = tiny_pool(shape=(1, 8, 8))
    trainer = training.resolve(
        "frozen-linear", {"encoder": "pixels", "scale": "common"}
    )
    deviation = fit(trainer, pool).module.deviation
    assert len(deviation) == 16 * 16
    assert deviation.unique().tolist() == [pytest.approx(0.55, abs=0.1)]


@pytest.mark.parametrize("unlabeled", ["auto", "use", "ignore"])
def test_it_learns_what_is_easy(trained, unlabeled):
    classifier = fit(trained(unlabeled=unlabeled), POOL)
    assert isinstance(classifier, FrozenClassifier)
    for seed in (0, 1):
        images = tiny_pool(shape=(1, 8, 8), seed=seed).images
        seen = classifier.outputs(images, EVERY).logits.argmax(dim=1)
        assert (seen == EVERY % 2).float().mean() > 0.9


def test_it_is_kept_and_found_again(trained, tmp_path, monkeypatch):
    trainer, work = trained(), tmp_path / "work"
    generator = stream(0, "train", 0)
    assert training.restored(trainer, POOL, generator, work) is None
    first = fit(trainer, POOL, workspace=work)
    found = training.restored(trainer, POOL, stream(0, "train", 0), work)
    assert torch.equal(weights(first), weights(found))
    monkeypatch.setattr(frozen_linear, "fit_logistic", None)
    again = fit(trainer, POOL, workspace=work)
    assert torch.equal(weights(first), weights(again))
    with pytest.raises(TypeError):
        fit(trained(penalty=2.0), POOL, workspace=work)


def test_only_images_themselves_are_embedded(trained, monkeypatch):
    counted = []
    embed = Means.embed
    monkeypatch.setattr(
        Means,
        "embed",
        lambda self, some: counted.append(len(some)) or embed(self, some),
    )
    for seed in (0, 1):
        fit(trained(), POOL, seed=seed)
    assert sum(counted) == NUM_ITEMS


def test_of_a_large_pool_some_images_are_looked_at(trained, monkeypatch):
    monkeypatch.setattr(frozen_linear, "_MOST_ITEMS", 20)
    sizes = []

    def noted(rows, *others):
        sizes.append(len(rows))
        return fit_logistic(rows, *others)

    monkeypatch.setattr(frozen_linear, "fit_logistic", noted)
    classifier = fit(trained(unlabeled="use"), POOL)
    assert sizes == [20]
    found = classifier.outputs(POOL.images, EVERY).logits.argmax(dim=1)
    assert (found == EVERY % 2).float().mean() > 0.9


def test_without_labels_the_head_is_untrained_and_strategies_can_ask(trained):
    unlabeled = tiny_pool(labeled=0, shape=(1, 8, 8))
    steps = []
    classifier = fit(
        trained(), unlabeled, on_checkpoint=lambda step, _: steps.append(step)
    )
    asked = strategies.resolve("npc").select(
        classifier, unlabeled, 5, stream(0, "query")
    )
    assert len(asked.indices) == 5
    assert steps == [0]


@pytest.mark.parametrize("labeled", [1, 2, 3])
@pytest.mark.parametrize("shares", ["unknown", "even", (0.5, 0.3, 0.2)])
def test_classes_without_labels_are_never_predicted(trained, labeled, shares):
    pool = tiny_pool(labeled=labeled, num_classes=3, shape=(1, 8, 8))
    outputs = fit(trained(shares=shares), pool).outputs(pool.images, EVERY)
    assert int(outputs.logits.argmax(dim=1).max()) < labeled
    assert bool(outputs.logits.isfinite().all())


def test_everything_labeled(trained):
    pool = tiny_pool(labeled=NUM_ITEMS, shape=(1, 8, 8))
    assert bool(weights(fit(trained(), pool)).isfinite().all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unlabeled": "some"}, "'unlabeled' of 'frozen-linear' is 'some'"),
        ({"shares": "uneven"}, "is 'uneven': [Ii]nput should be 'unknown' or 'even'"),
        ({"shares": (0.5, 0.3, 0.2)}, "shares has 3 entries; give 2, one per class"),
        ({"steps": 5}, "option of 'frozen-linear' called 'steps'"),
    ],
)
def test_wrong_options_are_explained(trained, options, message):
    with pytest.raises(UsageError, match=message):
        fit(trained(**options), POOL)
