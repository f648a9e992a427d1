"""The Wide ResNet has the details of the papers and draws from its generator."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fewlabels import models, rng
from fewlabels.errors import UnknownNameError, UsageError


def network(name="wrn-10-1", shape=(1, 8, 8), num_classes=10, seed=0, **options):
    return models.build(
        name, shape, num_classes, rng.stream(seed, "weights"), **options
    )


def images(num=6, shape=(1, 8, 8), seed=0):
    return torch.rand(num, *shape, generator=rng.stream(seed, "images")) * 2 - 1


def normalized_naive(maps, norm, *, by_running_statistics):
    """Batch normalization by its definition, epsilon .001."""
    if by_running_statistics:
        mean, variance = norm.running_mean, norm.running_var
    else:
        mean = maps.mean(dim=(0, 2, 3))
        variance = ((maps - mean[:, None, None]) ** 2).mean(dim=(0, 2, 3))
    scaled = (maps - mean[:, None, None]) / (variance[:, None, None] + 1e-3).sqrt()
    return scaled * norm.weight[:, None, None] + norm.bias[:, None, None]


def activated_naive(maps):
    return torch.where(maps > 0, maps, 0.1 * maps)


def features_naive(net, inputs, widths, blocks_per_stage, *, by_running_statistics):
    """The forward pass of the official code, one block after the other."""

    def norm(maps, layer):
        return normalized_naive(
            maps, layer, by_running_statistics=by_running_statistics
        )

    blocks = iter(net.blocks)
    maps = F.conv2d(inputs, net.stem.weight, padding=1)
    for stage, width in enumerate(widths):
        for number in range(blocks_per_stage):
            block = next(blocks)
            stride = 2 if stage > 0 and number == 0 else 1
            inner = activated_naive(norm(maps, block.norm1))
            if stage == 0 and number == 0:  # activate before the residual
                maps = inner
            inner = F.conv2d(inner, block.conv1.weight, stride=stride, padding=1)
            inner = activated_naive(norm(inner, block.norm2))
            inner = F.conv2d(inner, block.conv2.weight, padding=1)
            if maps.shape[1] != width:
                maps = F.conv2d(maps, block.shortcut.weight, stride=stride)
            maps = maps + inner
    return activated_naive(norm(maps, net.norm)).mean(dim=(2, 3))


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize(
    ("name", "shape", "widths", "blocks_per_stage"),
    [
        ("wrn-10-1", (1, 8, 8), (16, 32, 64), 1),
        ("wrn-16-2", (3, 8, 8), (32, 64, 128), 2),
    ],
)
def test_agrees_with_the_block_by_block_twin(
    name, shape, widths, blocks_per_stage, is_training
):
    net = network(name, shape).double()
    draws = rng.stream(1, "norms")
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values in (layer.weight.data, layer.running_var):
                values.uniform_(0.5, 2.0, generator=draws)
            for values in (layer.bias.data, layer.running_mean):
                values.uniform_(-1.0, 1.0, generator=draws)
    inputs = images(5, shape).double()
    expected = features_naive(
        net, inputs, widths, blocks_per_stage, by_running_statistics=not is_training
    )
    net.train(is_training)
    torch.testing.assert_close(net.embed(inputs), expected)


def test_wrn_28_2_has_the_published_number_of_parameters():
    net = network("wrn-28-2", (3, 32, 32))
    assert sum(p.numel() for p in net.parameters()) == 1_467_610
    assert net.feature_size == 128
    convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    assert all(m.bias is None for m in convolutions)
    assert sum(m.out_channels for m in convolutions) == 2_032  # biases in TensorFlow


def test_stage_openers_feed_normalized_input_to_their_first_convolution():
    """The bug of popular ports: conv1 sees raw maps and norm1 is dead there."""
    net = network("wrn-16-1", (1, 8, 8)).train()
    openers = [
        block for block in net.blocks if not isinstance(block.shortcut, nn.Identity)
    ]
    assert len(openers) == 2
    seen = {}
    for block in openers:
        block.conv1.register_forward_pre_hook(
            lambda layer, args: seen.update({layer: args[0]})
        )
        block.shortcut.register_forward_pre_hook(
            lambda layer, args: seen.update({layer: args[0]})
        )
        block.register_forward_pre_hook(
            lambda layer, args: seen.update({layer: args[0]})
        )
    net(images(32) * 50 + 20).sum().backward()
    for block in openers:
        raw = seen[block]
        twin = activated_naive(
            normalized_naive(raw, block.norm1, by_running_statistics=False)
        )
        torch.testing.assert_close(seen[block.conv1], twin, rtol=1e-4, atol=1e-4)
        assert seen[block.shortcut] is raw
        assert block.norm1.weight.grad.abs().sum() > 0


def test_logits_are_the_head_over_the_features():
    net = network().eval()
    inputs = images()
    expected = net.embed(inputs) @ net.head.weight.T + net.head.bias
    torch.testing.assert_close(net(inputs), expected)
    assert net.embed(inputs).shape == (6, net.feature_size) == (6, 64)


def test_initial_weights_have_the_published_spread():
    net = network("wrn-10-4", (3, 32, 32))
    opener = net.blocks[1].conv1  # 64 to 128 channels, 3 x 3: fan-out 9 * 128
    assert opener.weight.detach().std() == pytest.approx(
        (2 / (9 * 128)) ** 0.5, rel=0.02
    )
    glorot = (2 / (256 + 10)) ** 0.5
    assert net.head.weight.detach().std() == pytest.approx(glorot, rel=0.05)
    assert not net.head.bias.any()


@pytest.mark.usefixtures("untouched_randomness")
def test_weights_come_from_the_generator_alone():
    one, same, other = network(seed=1), network(seed=1), network(seed=2)
    for name, values in one.state_dict().items():
        assert torch.equal(values, same.state_dict()[name])
    assert not torch.equal(one.stem.weight, other.stem.weight)


def test_running_statistics_follow_the_momentum():
    assert network("wrn-28-2").norm.momentum == 0.001
    assert network("wrn-10-1").norm.momentum == 0.01
    assert network("wrn-10-1", bn_momentum=0.1).norm.momentum == 0.1
    assert network().norm.eps == 1e-3


@pytest.mark.parametrize("depth", [3, 4, 11, 27])
def test_a_wrong_depth_is_explained(depth):
    with pytest.raises(UsageError, match=f"depth is {depth}; "):
        network(f"wrn-{depth}-1")


def test_an_unknown_name_is_explained():
    with pytest.raises(
        UnknownNameError, match=r"network called 'wrm-28-2'.*'wrn-28-2'"
    ):
        network("wrm-28-2")


def test_vectors_are_refused():
    with pytest.raises(UsageError, match=r"shape \(64,\).*'linear'"):
        network(shape=(64,))


def test_bytes_become_input():
    every_byte = torch.arange(256, dtype=torch.uint8)
    inputs = models.as_input(every_byte)
    assert inputs.dtype == torch.float32
    assert inputs[0] == -1
    assert inputs[-1] == 1
    torch.testing.assert_close(inputs, torch.arange(256) * 2 / 255 - 1)
    assert every_byte[1] == 1  # the argument is left alone
