"""Schedule, weight decay and averaging follow their definitions."""

import copy
from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric
from tests.training.conftest import changed, tiny_pool
from torch import nn

from fewlabels import models, rng
from fewlabels.errors import TrainingError
from fewlabels.pool import ArrayImages
from fewlabels.training import loop, make
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.loop import (
    averaged,
    cosine_factor,
    rate_bound,
    sgd,
)
from fewlabels.training.training import TrainingTask


@pytest.mark.parametrize(
    ("step", "factor"),
    [(0, 1.0), (25, 0.941544), (50, 0.773010), (75, 0.514103), (100, 0.195090)],
)
def test_the_cosine_has_the_published_values(step, factor):
    assert cosine_factor(step, 100) == pytest.approx(factor, abs=5e-7)


def network():
    return models.build("wrn-10-1", (1, 4, 4), 3, rng.stream(0, "weights"))


def test_only_kernels_decay():
    net = network()
    optimizer = sgd(net, 0.1, 0.0, 0.5)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in net.named_parameters():
        is_kernel = "conv" in name or "stem" in name or "shortcut" in name
        decays = is_kernel or name == "head.weight"
        expected = before[name] * (1 - 0.1 * 0.5) if decays else before[name]
        torch.testing.assert_close(parameter.detach(), expected)


def test_a_step_is_nesterovs():
    """g + m·v with v = m·v + g (Sutskever et al., 2013, as PyTorch writes it)."""
    net = network()
    optimizer = sgd(net, 0.1, 0.9, 0.0)
    weight = net.head.weight
    expected, velocity = weight.detach().clone(), torch.zeros_like(weight)
    for step in range(3):
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, 1.0 + step)
        velocity = 0.9 * velocity + weight.grad
        expected -= 0.1 * (weight.grad + 0.9 * velocity)
        optimizer.step()
    torch.testing.assert_close(weight.detach(), expected)


def test_the_average_agrees_with_its_definition():
    net = network()
    average = averaged(net, 0.7)
    expected = {name: p.detach().clone() for name, p in net.named_parameters()}
    draws = rng.stream(1, "moves")
    for _ in range(4):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=draws))
        net.train()(torch.rand(5, 1, 4, 4, generator=draws))  # moves the statistics
        average.update_parameters(net)
        for name, parameter in net.named_parameters():
            expected[name] = 0.7 * expected[name] + 0.3 * parameter.detach()
    for name, parameter in average.module.named_parameters():
        torch.testing.assert_close(parameter, expected[name])


def test_running_statistics_are_copied_not_averaged():
    net = network()
    average = averaged(net, 0.999)
    net.train()(torch.rand(5, 1, 4, 4, generator=rng.stream(0, "x")))
    average.update_parameters(net)
    buffers = dict(net.named_buffers())
    assert buffers["norm.num_batches_tracked"] == 1
    for name, values in average.module.named_buffers():
        assert torch.equal(values, buffers[name])
        assert values is not buffers[name]


def test_the_average_leaves_the_network_alone():
    net = network()
    before = copy.deepcopy(net.state_dict())
    average = averaged(net, 0.5)
    average.update_parameters(net)
    assert all(torch.equal(v, before[n]) for n, v in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters())
    assert not any(p.requires_grad for p in average.module.parameters())
    assert isinstance(average.module, nn.Module)
    assert not average.module.training


def test_the_bound_of_the_rate():
    """Two orthogonal rows of length 1 and 2 over a bias, by hand."""
    features = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    # (h.h' + 1) / n = [[2, 1], [1, 5]] / 2, with the eigenvalues (7 ± √13) / 4.
    largest, smallest = (7 + 13**0.5) / 4, (7 - 13**0.5) / 4
    assert rate_bound(features, 3, "linearized") == pytest.approx(1 / largest)
    assert rate_bound(features, 3, "theorem") == pytest.approx(smallest)


@pytest.mark.parametrize("limit", ["linearized", "theorem"])
def test_a_bounded_training_starts_at_the_bound(limit):
    pool = tiny_pool()
    trainer = make("supervised", learning_rate=1e3, rate_limit=limit)
    task = TrainingTask(trainer, pool, trainer.inputs.of(pool, None), 0, None)
    network = task.build_network()
    outputs = task.views.classifier(network).outputs(pool.images, pool.labeled)
    bound = rate_bound(outputs.features, 2, limit)
    begun = loop.Stepper(task, ProcessGroup(Fabric(accelerator="cpu")), network)
    assert begun.rate_at(0) == bound < 1e3
    modest = changed(trainer, learning_rate=1e-9)
    begun = loop.Stepper(
        replace(task, training=modest), begun.group, task.build_network()
    )
    assert begun.rate_at(0) == 1e-9


def test_a_bound_of_zero_is_explained():
    pool = tiny_pool()
    same = replace(pool, images=ArrayImages(torch.zeros_like(pool.images.items)))
    trainer = make("supervised", rate_limit="theorem")
    with pytest.raises(TrainingError, match=r"6 labeled items is singular.*linearized"):
        trainer.fit(same, rng.stream(0, "train"))
