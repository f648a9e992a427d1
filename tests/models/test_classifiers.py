"""Classifiers give rows per item, whatever the chunks, and disturb nothing."""

from dataclasses import dataclass, replace

import pytest
import torch

from fewlabels import models, rng
from fewlabels.errors import ShapeError, UsageError
from fewlabels.models.classifiers import NetworkClassifier, PrecomputedClassifier
from fewlabels.pool import ArrayImages

NUM_ITEMS, NUM_CLASSES = 23, 4
IMAGES = ArrayImages(
    torch.randint(
        256, (NUM_ITEMS, 1, 8, 8), generator=rng.stream(0, "x"), dtype=torch.uint8
    )
)
INDICES = torch.tensor([3, 22, 0, 7, 7, 15, 1])


def classifier(dropout=0.0, chunk_size=512):
    network = models.build(
        "wrn-10-1", (1, 8, 8), NUM_CLASSES, rng.stream(0, "weights"), dropout=dropout
    )
    return NetworkClassifier(network, NUM_CLASSES, chunk_size)


@pytest.mark.usefixtures("untouched_randomness")
def test_outputs_are_those_of_the_network_in_evaluation_mode():
    known = classifier()
    outputs = known.outputs(IMAGES, INDICES)
    network = known.module.eval()
    inputs = models.as_input(IMAGES.items[INDICES])
    torch.testing.assert_close(outputs.features, network.embed(inputs))
    torch.testing.assert_close(outputs.logits, network(inputs))
    assert outputs.features.shape == (7, 64)
    assert not outputs.logits.requires_grad


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 100])
def test_outputs_do_not_depend_on_the_chunks(chunk_size):
    whole = classifier().outputs(IMAGES, INDICES)
    chunked = classifier(chunk_size=chunk_size).outputs(IMAGES, INDICES)
    torch.testing.assert_close(chunked.features, whole.features)
    torch.testing.assert_close(chunked.logits, whole.logits)


@dataclass(frozen=True)
class CountedImages(ArrayImages):
    largest: list[int]

    def read(self, indices):
        self.largest.append(len(indices))
        return super().read(indices)


def test_no_more_than_a_chunk_is_read_at_a_time():
    images = CountedImages(IMAGES.items, [])
    classifier(chunk_size=5).outputs(images, torch.arange(NUM_ITEMS))
    assert images.largest == [5, 5, 5, 5, 3]


def test_no_items_give_no_rows():
    outputs = classifier().outputs(IMAGES, INDICES[:0])
    assert outputs.features.shape == (0, 64)
    assert outputs.logits.shape == (0, NUM_CLASSES)


@pytest.mark.parametrize("was_training", [True, False])
def test_the_network_is_left_as_it_was(was_training):
    known = classifier(dropout=0.2)
    known.module.train(was_training)
    known.module.norm.eval()  # a mixture survives too
    before = {n: v.clone() for n, v in known.module.state_dict().items()}
    known.outputs(IMAGES, INDICES)
    known.sample_logits(IMAGES, INDICES, 2, rng.stream(0, "s"))
    assert known.module.training is was_training
    assert known.module.blocks.training is was_training
    assert not known.module.norm.training
    for name, values in known.module.state_dict().items():
        assert torch.equal(values, before[name])


@pytest.mark.parametrize("chunk_size", [1, 4])
@pytest.mark.usefixtures("untouched_randomness")
def test_sampled_networks_do_not_depend_on_the_chunks(chunk_size):
    whole = classifier(0.3).sample_logits(IMAGES, INDICES, 5, rng.stream(1, "s"))
    chunked = classifier(0.3, chunk_size).sample_logits(
        IMAGES, INDICES, 5, rng.stream(1, "s")
    )
    torch.testing.assert_close(chunked, whole)
    assert whole.shape == (5, 7, NUM_CLASSES)
    assert torch.equal(whole[:, 3], whole[:, 4])  # the same item twice
    assert not torch.allclose(whole[0], whole[1])


def test_more_samples_begin_with_the_fewer():
    known = classifier(0.3)
    few = known.sample_logits(IMAGES, INDICES, 2, rng.stream(1, "s"))
    many = known.sample_logits(IMAGES, INDICES, 4, rng.stream(1, "s"))
    assert torch.equal(many[:2], few)


def test_sampling_without_dropout_is_explained():
    with pytest.raises(UsageError, match=r"no dropout.*train with dropout above 0"):
        classifier().sample_logits(IMAGES, INDICES, 2, rng.stream(0, "s"))


FEATURES = torch.rand(NUM_ITEMS, 6, generator=rng.stream(0, "f"))
SAMPLES = torch.rand(3, NUM_ITEMS, NUM_CLASSES, generator=rng.stream(0, "z"))


def test_precomputed_rows_come_back():
    known = PrecomputedClassifier(FEATURES, SAMPLES[0], SAMPLES)
    outputs = known.outputs(IMAGES, INDICES)
    assert torch.equal(outputs.features, FEATURES[INDICES])
    assert torch.equal(outputs.logits, SAMPLES[0][INDICES])
    sampled = known.sample_logits(IMAGES, INDICES, 2, rng.stream(0, "s"))
    assert torch.equal(sampled, SAMPLES[:2][:, INDICES])
    assert known.module is None
    assert known.num_classes == NUM_CLASSES


@pytest.mark.parametrize(("samples", "given"), [(None, 0), (SAMPLES, 3)])
def test_too_few_precomputed_samples_are_explained(samples, given):
    known = PrecomputedClassifier(FEATURES, SAMPLES[0], samples)
    with pytest.raises(UsageError, match=f"4 samples .* {given} were given"):
        known.sample_logits(IMAGES, INDICES, 4, rng.stream(0, "s"))


def test_precomputed_arrays_must_belong_together():
    known = PrecomputedClassifier(FEATURES, SAMPLES[0])
    with pytest.raises(ShapeError, match=r"give \(N, F\)"):
        replace(known, features=FEATURES[1:])
    with pytest.raises(ShapeError, match=r"give \(N, F\)"):
        replace(known, logits=SAMPLES)
    with pytest.raises(ShapeError, match=r"\(3, 22, 4\); give"):
        replace(known, samples=SAMPLES[:, 1:])
