"""Heads over rows of features: standardized inside, drawn from their generator."""

import pytest
import torch

from fewlabels import models, rng
from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.models import as_input, checkpoint
from fewlabels.models.network import sampled

ROWS = torch.rand(9, 12, generator=rng.stream(0, "rows")) * 6


def head(name="linear", seed=0, **options):
    return models.build(name, (12,), 4, rng.stream(seed, "weights"), **options)


@pytest.mark.usefixtures("untouched_randomness")
def test_linear_is_a_linear_layer_over_the_rows():
    network = head()
    assert network.feature_size == 12
    assert torch.equal(network.embed(ROWS), ROWS)
    expected = ROWS @ network.head.weight.T
    torch.testing.assert_close(network(ROWS), expected)


@pytest.mark.usefixtures("untouched_randomness")
def test_a_hidden_layer_is_rectified():
    network = head("mlp-30")
    assert network.feature_size == 30
    hidden = (ROWS @ network.hidden.weight.T).clamp(min=0)
    torch.testing.assert_close(network.embed(ROWS), hidden)
    torch.testing.assert_close(network(ROWS), hidden @ network.head.weight.T)


@pytest.mark.parametrize("name", ["linear", "mlp-30"])
def test_weights_come_from_the_generator(name):
    one, same, other = head(name, 0), head(name, 0), head(name, 1)
    assert torch.equal(one(ROWS), same(ROWS))
    assert not torch.equal(one(ROWS), other(ROWS))


@pytest.mark.parametrize("name", ["linear", "mlp-30"])
def test_standardizing_inside_is_standardizing_before(name):
    mean, deviation = ROWS.mean(dim=0), ROWS.std(dim=0)
    inside, before = head(name), head(name)
    inside.standardize_by(mean, deviation)
    torch.testing.assert_close(inside(ROWS), before((ROWS - mean) / deviation))


def test_the_standardization_is_saved_and_not_trained(tmp_path):
    network = head()
    network.standardize_by(ROWS.mean(dim=0), ROWS.std(dim=0))
    assert {name for name, _ in network.named_parameters()} == {
        "head.weight",
        "head.bias",
    }
    checkpoint.write(network.state_dict(), tmp_path / "head.safetensors", {})
    other = head(seed=1)
    checkpoint.read_into(other.state_dict(), tmp_path / "head.safetensors")
    assert torch.equal(network(ROWS), other(ROWS))


def test_a_wrong_standardization_is_explained():
    network = head()
    with pytest.raises(ShapeError, match=r"\(11,\) .* 12 features"):
        network.standardize_by(torch.zeros(11), torch.ones(12))
    with pytest.raises(UsageError, match=r"smallest deviation is 0.0"):
        network.standardize_by(torch.zeros(12), torch.zeros(12))


@pytest.mark.parametrize("name", ["linear", "mlp-30"])
def test_dropout_comes_before_the_last_layer(name):
    network = head(name, dropout=0.5)
    with sampled(network.eval(), rng.stream(0, "masks")):
        features = network.embed(ROWS)
    dropped = (features == 0).all(dim=0)
    assert 0 < dropped.sum() < len(dropped)
    kept = network.embed(ROWS)[:, ~dropped]
    torch.testing.assert_close(features[:, ~dropped], 2 * kept)


def test_a_head_refuses_images_and_says_what_takes_them():
    generator = rng.stream(0, "weights")
    with pytest.raises(UsageError, match=r"\(1, 8, 8\).*'wrn-10-1' for images"):
        models.build("linear", (1, 8, 8), 4, generator)


@pytest.mark.parametrize("name", ["linear", "mlp-1", "mlp-256", "wrn-10-1"])
def test_known_names(name):
    models.check_name(name)


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="Did you mean 'mlp-256'"):
        models.check_name("mlp256")
    with pytest.raises(UnknownNameError):
        models.build("mlp-", (12,), 4, rng.stream(0, "weights"))
    with pytest.raises(UsageError, match="The width of a hidden layer is 0"):
        models.check_name("mlp-0")


def test_vectors_keep_their_values_as_input():
    rows = torch.tensor([[0.0, 300.0]], dtype=torch.float64)
    assert as_input(rows).dtype == torch.float32
    assert as_input(rows).tolist() == [[0.0, 300.0]]
