import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.gram.toy import normal, whole
from torch import nn

from fewlabels.errors import ShapeError, UsageError
from fewlabels.gram import (
    exact_ntk_gram,
    last_layer_kernel,
    ntk_kernel,
    smallest_eigenvalue,
)
from fewlabels.rng import stream

NUM_CLASSES = 4
NUM_SEEDS = 150


def dense_network(seed=0, width=6):
    """A small network; normalisation and dropout show whether its mode is right."""
    with torch.random.fork_rng():  # torch's first weights are of no interest
        network = nn.Sequential(
            nn.Linear(3, width),
            nn.BatchNorm1d(width),
            nn.Tanh(),
            nn.Dropout(0.5),
            nn.Linear(width, NUM_CLASSES),
        ).double()
    for number, parameter in enumerate(network.parameters()):
        drawn = normal(seed + 1000 * number, *parameter.shape)
        parameter.data.copy_(drawn / math.sqrt(parameter.shape[-1]))
    return network


def convolution_network():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, NUM_CLASSES)
    ).double()


def sketched(network, inputs, seed, **options):
    return ntk_kernel(
        network,
        lambda items: inputs[items],
        len(inputs),
        num_classes=NUM_CLASSES,
        generator=stream(seed, "sketch"),
        **options,
    )


@pytest.mark.parametrize(
    ("network", "inputs"),
    [
        (dense_network(), normal(1, 5, 3)),
        (convolution_network(), normal(2, 5, 1, 4, 4)),
    ],
    ids=["dense", "convolution"],
)
def test_exact_kernel_agrees_with_automatic_differentiation(network, inputs):
    fast = exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES, chunk_size=2)
    slow = reference.network_gram(network.eval(), inputs, NUM_CLASSES)
    torch.testing.assert_close(fast, slow)


def test_layers_count_modules_with_parameters_from_the_end():
    network, inputs = dense_network().eval(), normal(3, 4, 3)
    for layers, parameters in [(1, network[4:]), (2, network[1:]), (3, network)]:
        fast = exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES, layers=layers)
        chosen = list(parameters.parameters())
        slow = reference.network_gram(network, inputs, NUM_CLASSES, chosen)
        torch.testing.assert_close(fast, slow)


def test_the_last_layer_alone_is_the_closed_form():
    network, inputs = dense_network().eval(), normal(4, 6, 3)
    with torch.no_grad():
        features = network[:-1](inputs)
    fast = exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES, layers=1)
    torch.testing.assert_close(fast, whole(last_layer_kernel(features, NUM_CLASSES)))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31 - 1), size=st.integers(1, 6))
def test_all_layers_are_never_below_the_last(seed, size):  # paper, Sec. 3.4, turned
    network, inputs = dense_network(seed), normal(seed + 7, size, 3)
    grams = [
        exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES, layers=layers)
        for layers in (1, 2, "all")
    ]
    last, more, every = (float(smallest_eigenvalue(gram)) for gram in grams)
    assert last <= more + 1e-12
    assert more <= every + 1e-12


def predicted_variance(network, inputs, sketch_width, num_sketches):
    """The two parts of the docstring, with the class gradients written out."""
    x_CP, y_CP = reference.jacobian(
        lambda row: network(row[None])[0], network.eval(), inputs[:2]
    )
    products = (x_CP @ y_CP.T + y_CP @ x_CP.T) / 2
    spread = products.square().sum() - products.trace() ** 2 / NUM_CLASSES
    C, S = NUM_CLASSES, num_sketches
    classes = 2 * C * (C - S) / (S * (C - 1) * (C + 2)) * spread
    directions = normal(99, 4000, C)
    directions *= math.sqrt(C) / directions.norm(dim=1, keepdim=True)
    g, h = directions @ x_CP, directions @ y_CP
    lengths = g.square().sum(1) * h.square().sum(1)
    buckets = (lengths + (g * h).sum(1).square()).mean() / sketch_width
    return float(classes + buckets)


def estimates(network, inputs, **options):
    pair = torch.tensor([0]), torch.tensor([1])
    kernels = (sketched(network, inputs, s, **options) for s in range(NUM_SEEDS))
    return torch.stack([kernel.block(*pair)[0, 0] for kernel in kernels])


@pytest.mark.parametrize(
    ("sketch_width", "num_sketches"),
    [
        (16, 1),
        (64, 2),
        *(pytest.param(n, 4, marks=pytest.mark.slow) for n in (64, 1024)),
    ],
)
def test_a_sketch_errs_as_its_width_predicts(sketch_width, num_sketches):
    network, inputs = dense_network(), normal(5, 2, 3)
    options = {"sketch_width": sketch_width, "num_sketches": num_sketches}
    drawn = estimates(network, inputs, **options)
    exact = exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES)[0, 1]
    predicted = math.sqrt(predicted_variance(network, inputs, **options))
    assert abs(drawn.mean() - exact) <= 4 * predicted / math.sqrt(NUM_SEEDS)
    assert predicted / 1.5 <= float(drawn.std()) <= 1.5 * predicted


def test_a_wide_sketch_is_near_the_exact_kernel():
    network, inputs = dense_network(), normal(6, 8, 3)
    exact = exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES)
    kernel = sketched(network, inputs, 0, sketch_width=2**16, num_sketches=4)
    lengths = exact.diagonal().sqrt()
    error = (whole(kernel) - exact) / (lengths[:, None] * lengths)
    assert kernel.rank_bound == 2**16
    assert float(error.abs().max()) <= 5 * math.sqrt(2 / 2**16)


def test_chunks_change_nothing_and_the_mode_is_restored(untouched_randomness):
    network, inputs = dense_network(), normal(7, 9, 3)
    network.train()
    network[1].eval()
    options = {"sketch_width": 32, "num_sketches": 2}
    at_once = whole(sketched(network, inputs, 0, **options))
    in_parts = whole(sketched(network, inputs, 0, chunk_size=2, **options))
    torch.testing.assert_close(in_parts, at_once, rtol=1e-5, atol=1e-6)
    assert network.training
    assert not network[1].training
    assert all(parameter.grad is None for parameter in network.parameters())


def test_frozen_parameters_take_part_and_shared_ones_count_once():
    network, inputs = dense_network(width=3), normal(8, 3, 3)
    before = exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES)
    after = exact_ntk_gram(
        network.requires_grad_(False), inputs, num_classes=NUM_CLASSES
    )
    assert torch.equal(before, after)
    shared = nn.Linear(3, 3, dtype=torch.float64)
    twice = nn.Sequential(shared, nn.Tanh(), shared)
    slow = reference.network_gram(twice, inputs, 3)
    torch.testing.assert_close(exact_ntk_gram(twice, inputs, num_classes=3), slow)


def test_wrong_sizes_are_explained():
    network, inputs = dense_network(), normal(9, 2, 3)
    with pytest.raises(UsageError, match="sketch_width 10 is no multiple of 4"):
        sketched(network, inputs, 0, sketch_width=10, num_sketches=4)
    with pytest.raises(UsageError, match="layers is 4, and 3 modules"):
        exact_ntk_gram(network, inputs, num_classes=NUM_CLASSES, layers=4)
    with pytest.raises(ShapeError, match=r"logits are \(1, 4\), not"):
        exact_ntk_gram(network, inputs, num_classes=7)
    with pytest.raises(UsageError, match="0 modules own parameters"):
        exact_ntk_gram(nn.Tanh(), inputs, num_classes=3)
