"""A head over a frozen encoder answers about images, and embeds each once."""

import numpy as np
import pytest
import torch
from tests.models import toy

from fewlabels import models, rng
from fewlabels.data.derived import ChosenImages
from fewlabels.experiments.evaluation import accuracy
from fewlabels.gram import exact_ntk_gram
from fewlabels.models.cache import FeatureCache
from fewlabels.models.classifiers import (
    Embedded,
    FrozenClassifier,
    PrecomputedClassifier,
    moments,
)
from fewlabels.models.embedding import embedded
from fewlabels.pool import Pool, Split
from fewlabels.protocols import OwnInputs
from fewlabels.strategies import NeuralPreconditioning
from fewlabels.strategies.inputs import Request
from fewlabels.strategies.maxdet import MaxDet

INDICES = torch.tensor([3, 599, 0, 7, 7, 300])


def head(name="mlp-16", dropout=0.0):
    return models.build(name, (8,), 4, rng.stream(0, "weights"), dropout=dropout)


def classifier(network=None, encoder=None, **options):
    encoder = toy.Means() if encoder is None else encoder
    network = head() if network is None else network
    return FrozenClassifier(module=network, num_classes=4, encoder=encoder, **options)


def known(images, encoder=None):
    rows = embedded(images, toy.Means() if encoder is None else encoder)
    return (Embedded(images, rows),)


def rows_of(images, indices):
    return toy.Means().embed(images.items[indices]).half().float()


@pytest.mark.parametrize("name", ["linear", "mlp-16"])
@pytest.mark.usefixtures("untouched_randomness")
def test_outputs_are_those_of_the_head_over_the_rows(name):
    images, network = toy.images(), head(name, dropout=0.5)
    found = classifier(network).outputs(images, INDICES)
    rows = rows_of(images, INDICES)
    assert network.training
    network.eval()
    torch.testing.assert_close(found.features, network.embed(rows))
    torch.testing.assert_close(found.logits, network(rows))
    assert found.features.shape == (6, network.feature_size)
    assert not found.logits.requires_grad


def test_known_images_are_neither_read_nor_embedded():
    images, encoder = toy.images(), toy.Means()
    frozen = classifier(encoder=encoder, known=known(images))
    expected = classifier().outputs(images, INDICES)
    images.reads.clear()
    found = frozen.outputs(images, INDICES)
    part = ChosenImages(images, torch.tensor([5, 599, 7]))
    of_part = frozen.outputs(part, torch.tensor([1, 2]))
    assert images.reads == []
    assert encoder.num_embedded == 0
    assert torch.equal(found.features, expected.features)
    torch.testing.assert_close(of_part.logits, found.logits[[1, 3]])


def test_equal_images_that_are_other_objects_are_embedded():
    encoder = toy.Means()
    frozen = classifier(encoder=encoder, known=known(toy.images()))
    frozen.outputs(toy.images(), INDICES)
    assert encoder.num_embedded == len(INDICES)


def test_a_test_split_is_embedded_once_for_all_rounds(tmp_path):
    test = toy.images(seed=9)
    split = Split(test, torch.arange(600) % 4)
    encoder, shares = toy.Means(), []
    for _ in range(3):  # each round has its own classifier
        frozen = classifier(encoder=encoder, cache=FeatureCache(tmp_path))
        shares.append(accuracy(frozen, split))
    assert encoder.num_embedded == 600
    plain = classifier()
    assert shares == [accuracy(plain, split)] * 3


def test_a_part_of_unknown_images_is_embedded_once(tmp_path):
    images, encoder = toy.images(), toy.Means()
    frozen = classifier(encoder=encoder, cache=FeatureCache(tmp_path))
    for _ in range(2):
        found = frozen.outputs(images, INDICES)
        assert encoder.num_embedded == len(INDICES.unique())
    assert torch.equal(found.logits, classifier().outputs(images, INDICES).logits)


@pytest.mark.usefixtures("untouched_randomness")
def test_heads_are_sampled_through_dropout():
    images = toy.images()
    frozen = classifier(head(dropout=0.3), known=known(images), chunk_size=4)
    samples = frozen.sample_logits(images, INDICES, 5, rng.stream(0, "s"))
    assert samples.shape == (5, 6, 4)
    torch.testing.assert_close(samples[:, 3], samples[:, 4])  # the same item twice
    assert not torch.allclose(samples[0], samples[1])
    more = frozen.sample_logits(images, INDICES, 7, rng.stream(0, "s"))
    assert torch.equal(more[:5], samples)


# ----------------------------------------------------------------- what strategies see


def test_the_head_says_what_it_looks_at():
    images = toy.images()
    frozen = classifier()
    assert isinstance(frozen, OwnInputs)
    assert torch.equal(frozen.inputs(images, INDICES), rows_of(images, INDICES))
    rows = PrecomputedClassifier(torch.zeros(1, 1), torch.zeros(1, 1))
    assert not isinstance(rows, OwnInputs)


def test_the_tangent_kernel_is_that_of_the_head():
    """The encoder is not trained, so its gradients have no say."""
    images = toy.images(24)
    pool = Pool.build(images, torch.full((24,), -1), list("abcd"))
    network = head().eval()
    mean, deviation = moments(embedded(images, toy.Means()))
    network.standardize_by(mean, deviation)
    frozen = classifier(network, known=known(images))
    everything = torch.arange(24)
    outputs = frozen.outputs(images, everything)
    request = Request(frozen, pool, 3, rng.stream(0, "sketch"))
    _, kernel = MaxDet(kernel="ntk").kernel_for(request, outputs)
    exact = exact_ntk_gram(network, rows_of(images, everything), num_classes=4)
    sketched = kernel.block(everything, everything)
    assert float((sketched - exact).norm() / exact.norm()) < 0.15


@pytest.mark.parametrize("kernel", ["auto", "ntk"])
def test_a_strategy_chooses_by_it(kernel):
    images = toy.images(40)
    pool = Pool.build(images, torch.full((40,), -1), list("abcd"))
    frozen = classifier(known=known(images))
    strategy = NeuralPreconditioning(kernel=kernel, draws=20)
    query = strategy.select(frozen, pool, 3, rng.stream(0, "query"))
    assert len(set(query.indices.tolist())) == 3


# ------------------------------------------------------------------- standardization


def test_moments_are_mean_and_deviation():
    rows = embedded(toy.images(), toy.Means())
    mean, deviation = moments(rows)
    wide = rows.astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), wide.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(deviation.numpy(), wide.std(axis=0), rtol=1e-6)


def test_a_large_mean_costs_nothing():
    draws = torch.rand(700, 2, generator=rng.stream(0, "rows")).numpy()
    rows = (draws + 4000).astype(np.float32)
    stored = rows.astype(np.float64)
    np.testing.assert_allclose(moments(rows)[1], stored.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_feature_that_hardly_moves_is_not_blown_up(scale):
    rows = torch.randn(300, 16, generator=rng.stream(0, "rows")).numpy() * scale
    rows[:, 3] *= 1e-5
    rows[:, 5] = 7.0 * scale
    mean, deviation = moments(rows)
    alive = rows.std(axis=0) > 0.5 * scale
    np.testing.assert_allclose(deviation[alive], rows.std(axis=0)[alive], rtol=1e-4)
    typical = float(np.sqrt(rows.var(axis=0).mean()))
    assert deviation[[3, 5]].tolist() == pytest.approx([typical / 10] * 2, rel=1e-4)
    assert float(mean[5]) == pytest.approx(7.0 * scale)


def test_where_all_features_are_constant_deviations_are_one():
    assert moments(np.full((5, 2), 7.0, dtype=np.float32))[1].tolist() == [1.0, 1.0]
