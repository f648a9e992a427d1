"""Dropout draws from the generator it is given; a sampled network has one mask."""

import pytest
import torch

from fewlabels import models, rng
from fewlabels.errors import UsageError
from fewlabels.models.network import Dropout, draw_from, dropout_layers, sampled


def network(dropout=0.3):
    return models.build("wrn-10-1", (1, 8, 8), 4, rng.stream(0, "w"), dropout=dropout)


INPUTS = torch.rand(10, 1, 8, 8, generator=rng.stream(0, "images")) * 2 - 1


@pytest.mark.usefixtures("untouched_randomness")
def test_keeps_the_mean_and_drops_the_share():
    layer = Dropout(0.25).train()
    layer.use(rng.stream(0, "masks"))
    dropped = layer(torch.ones(200, 500))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert (dropped == 0).float().mean() == pytest.approx(0.25, abs=0.01)


def test_training_repeats_from_the_same_generator():
    net = network().train()
    logits = []
    for _ in range(2):
        draw_from(net, rng.stream(5, "masks"))
        logits.append(net(INPUTS))
    assert torch.equal(*logits)
    assert not torch.equal(net(INPUTS), logits[0])  # the generator moved on


def test_evaluation_does_nothing():
    layer = Dropout(0.5).eval()
    assert torch.equal(layer(INPUTS), INPUTS)


def test_training_without_generator_is_explained():
    with pytest.raises(UsageError, match="draw_from"):
        network().train()(INPUTS)


@pytest.mark.usefixtures("untouched_randomness")
def test_sampled_network_treats_items_alike_and_is_restored():
    net = network().eval()
    plain = net(INPUTS)
    with sampled(net, rng.stream(1, "masks")):
        together = net(INPUTS)
        apart = torch.cat([net(INPUTS[:3]), net(INPUTS[3:])])
        twice = net(INPUTS[[0, 0]])
    torch.testing.assert_close(together, apart)
    assert torch.equal(twice[0], twice[1])
    assert not torch.allclose(together, plain)
    assert torch.equal(net(INPUTS), plain)


def test_without_dropout_there_are_no_layers():
    assert dropout_layers(network(dropout=0.0)) == []
    assert len(dropout_layers(network())) == 3


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_wrong_share(share):
    with pytest.raises(UsageError, match=f"dropout is {share}"):
        Dropout(share)
