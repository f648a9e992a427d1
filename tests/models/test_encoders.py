"""Names, paths and modules become encoders, each with a name that tells it apart."""

import sys
import types

import pytest
import torch
from tests.models import toy
from torch import nn

from fewlabels import models, rng
from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.models import encoders
from fewlabels.models.module_encoder import ModuleEncoder

IMAGES = toy.images(70).items
SCALED = models.as_input(IMAGES)


class Maps(nn.Module):
    """A convolution without a mean at the end."""

    def __init__(self, width=5, seed=0):
        super().__init__()
        weights = torch.randn(width, 1, 3, 3, generator=rng.stream(seed, "weights"))
        self.weights = nn.Parameter(weights)

    def forward(self, images):
        return nn.functional.conv2d(images, self.weights)


@pytest.fixture
def module(monkeypatch):
    """A module that can be imported by path."""
    found = types.ModuleType("my_encoders")
    found.flat, found.Maps, found.means = nn.Flatten(), Maps, toy.Means("own")
    found.wrong, found.Means = 3, toy.Means
    monkeypatch.setitem(sys.modules, "my_encoders", found)
    return found


@pytest.mark.usefixtures("untouched_randomness")
def test_a_module_sees_floats_and_gives_rows():
    flat = encoders.resolve(nn.Flatten())
    assert torch.equal(flat.embed(IMAGES), SCALED.flatten(1))
    assert flat.feature_size == 64


def test_of_maps_the_mean_is_taken():
    network = Maps()
    rows = encoders.resolve(network).embed(IMAGES)
    torch.testing.assert_close(rows, network(SCALED).mean(dim=(2, 3)))
    assert not rows.requires_grad


def test_of_our_own_networks_the_input_of_the_last_layer_is_taken():
    network = models.build("wrn-10-1", (1, 8, 8), 3, rng.stream(0, "weights")).train()
    encoder = encoders.resolve(network)
    assert encoder.feature_size == 64
    rows = encoder.embed(IMAGES)
    assert network.training
    torch.testing.assert_close(rows, network.eval().embed(SCALED))


def test_later_training_does_not_reach_the_encoder():
    network = Maps()
    encoder = encoders.resolve(network)
    before = encoder.embed(IMAGES)
    network.weights.data.zero_()
    assert torch.equal(encoder.embed(IMAGES), before)
    assert encoders.resolve(network).name != encoder.name


def test_names_tell_weights_structures_and_sizes_apart():
    names = {
        encoders.resolve(Maps()).name,
        encoders.resolve(Maps(seed=1)).name,
        encoders.resolve(Maps(width=6)).name,
        encoders.resolve(nn.Sequential(Maps(), nn.ReLU())).name,
        encoders.resolve(nn.Sequential(Maps(), nn.Tanh())).name,
        ModuleEncoder(Maps(), size=16).name,
        ModuleEncoder(Maps(), size=32).name,
    }
    assert len(names) == 7
    assert encoders.resolve(Maps()).name == encoders.resolve(Maps()).name


NET = """
from torch import nn

class Net(nn.Module):
    def forward(self, images):
        return images.flatten(1)WORDS
"""


@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("is_console", [False, True])
def test_networks_of_equal_looks_and_other_code_have_other_names(
    tmp_path, monkeypatch, is_console, is_wrapped
):
    def made(words):
        source, file = NET.replace("WORDS", words), tmp_path / "own_net.py"
        module = types.ModuleType("own_net")
        module.__file__ = str(file)
        if not is_console:
            file.write_text(source)
        exec(compile(source, str(file), "exec"), vars(module))
        monkeypatch.setitem(sys.modules, "own_net", module)
        net = module.Net()
        return encoders.resolve(nn.Sequential(net) if is_wrapped else net).name

    assert len({made(""), made(" * 2"), made(".sin()")}) == 3
    assert made("") == made("")


def test_a_network_typed_again_further_down_has_the_same_name(monkeypatch):
    def typed(number):
        module = types.ModuleType("own_net")
        source = "\n" * number + NET.replace("WORDS", " + (lambda: 1)()")
        exec(compile(source, f"<python-input-{number}>", "exec"), vars(module))
        monkeypatch.setitem(sys.modules, "own_net", module)
        return encoders.resolve(module.Net()).name

    assert typed(1) == typed(7)


def test_plain_numbers_that_a_network_holds_are_part_of_the_name():
    class Scaled(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, images):
            return images.flatten(1) * self.scale

    one, two = Scaled(1.0), Scaled(2.0)
    assert encoders.resolve(one).name != encoders.resolve(two).name
    assert encoders.resolve(one.eval()).name == encoders.resolve(one.train()).name


def test_names_of_what_is_built_in_stay():
    """Rows that were kept under them are found again."""
    assert encoders.resolve("pixels").name == "pixels-7dcef0b77476beec-16px"
    assert encoders.resolve(nn.Flatten()).name == "Flatten-4a0261254375b2c1"


def test_images_are_brought_to_a_size_and_to_three_channels():
    flat = ModuleEncoder(nn.Flatten(), size=16, repeats_grey=True)
    rows = flat.embed(IMAGES).view(70, 3, 16, 16)
    assert torch.equal(rows[:, 0], rows[:, 2])
    expected = nn.functional.interpolate(SCALED, (16, 16), mode="bilinear")
    torch.testing.assert_close(rows[:, :1], expected)


def test_paths_name_modules_classes_and_encoders(module):
    assert encoders.resolve("my_encoders:means") is module.means
    flat = encoders.resolve("my_encoders:flat")
    assert flat.name.startswith("my_encoders:flat-")
    wide = encoders.resolve("my_encoders:Maps", width=9)
    assert wide.embed(IMAGES).shape == (70, 9)
    assert wide.name != encoders.resolve("my_encoders:Maps", width=8).name
    assert encoders.resolve("my_encoders:Means", name="mine").name == "mine"


def test_an_encoder_comes_back_as_it_is():
    means = toy.Means()
    assert encoders.resolve(means) is means


def test_wrong_names_and_things_are_explained(module):
    with pytest.raises(UnknownNameError, match="Did you mean 'efficientnet-lite0'"):
        encoders.resolve("efficientnet-lit0")
    with pytest.raises(UnknownNameError, match="option of 'efficientnet-lite0'"):
        encoders.resolve("efficientnet-lite0", width=3)
    with pytest.raises(UsageError, match="could not be imported"):
        encoders.resolve("no_such_module:thing")
    for thing in ("my_encoders:wrong", object(), toy.Means):
        with pytest.raises(UsageError, match=r"is not an encoder\. Give a torch\.nn"):
            encoders.resolve(thing)
    for thing in ("os:system", "fewlabels.names:resolve"):
        with pytest.raises(UsageError, match=f"'{thing}' cannot be made: "):
            encoders.resolve(thing)
    with pytest.raises(UsageError, match="takes no options"):
        encoders.resolve(nn.Flatten(), size=3)


def test_a_size_that_nobody_said_is_known_after_the_first_image():
    maps = encoders.resolve(Maps())
    with pytest.raises(UsageError, match="not known; embed an image"):
        assert maps.feature_size
    with pytest.raises(UsageError, match="not known; embed"):
        maps.embed(IMAGES[:0])
    maps.embed(IMAGES[:1])
    assert maps.feature_size == 5
    assert maps.embed(IMAGES[:0]).shape == (0, 5)
    assert ModuleEncoder(Maps(), feature_size=5).feature_size == 5
    assert encoders.resolve(nn.BatchNorm2d(1)).feature_size == 1  # num_features


def test_vectors_and_floats_are_no_images():
    flat = encoders.resolve(nn.Flatten())
    with pytest.raises(ShapeError, match=r"float32 of shape \(70, 1, 8, 8\)"):
        flat.embed(SCALED)
    with pytest.raises(ShapeError, match=r"shape \(70, 64\)"):
        flat.embed(IMAGES.flatten(1))


class Several(nn.Module):
    """A module that gives something else than rows."""

    def __init__(self, give):
        super().__init__()
        self.give = give

    def forward(self, images):
        return self.give(images)


@pytest.mark.parametrize(
    ("give", "seen"),
    [
        (lambda images: (images, images), "an object of type tuple"),
        (lambda images: images[0].flatten(1), "for 32 images"),
        (lambda images: images.flatten(2), r"\(32, 1, 64\) for 32 images"),
        (lambda images: images.sum(), r"shape \(\) for 32 images"),
    ],
)
def test_a_module_that_gives_no_rows_is_explained(give, seen):
    with pytest.raises(ShapeError, match=rf"{seen}.*\(n, F\)"):
        encoders.resolve(Several(give)).embed(IMAGES)


def test_the_formula_of_an_encoder_agrees_with_what_it_embeds():
    encoder = ModuleEncoder(Maps(), size=6)  # maps to average, images to shrink
    found = encoder.rows(SCALED[:5])
    assert found.shape == (5, 5)
    assert torch.allclose(found, encoder.embed(IMAGES[:5]), atol=1e-6)
