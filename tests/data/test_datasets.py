"""Data sets that are objects: torch's, Hugging Face's, pairs, and import paths."""

import sys
import types

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from fewlabels.data import load
from fewlabels.errors import DataError, ShapeError, UsageError

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
LABELS = [0, 1, 2, 0, 1, 2]


class Torchvision:
    """As torchvision's: pairs of a picture and a class number."""

    classes = ["cat", "dog", "owl"]  # noqa: RUF012 - as they have it

    def __init__(self, transform=Image.fromarray):
        self.transform = transform

    def __len__(self):
        return len(PIXELS)

    def __getitem__(self, index):
        return self.transform(PIXELS[index]), LABELS[index]


class HuggingFace:
    """As a Dataset of Hugging Face: rows by number, features with names."""

    features = {"img": None, "label": types.SimpleNamespace(names=["x", "y", "z"])}  # noqa: RUF012

    def __len__(self):
        return len(PIXELS)

    def __getitem__(self, index):
        return {"img": Image.fromarray(PIXELS[index]), "label": LABELS[index]}


def as_tensor(pixels):
    """What torchvision's ToTensor does."""
    return torch.from_numpy(pixels).permute(2, 0, 1) / 255


def pixels_of(pool):
    return pool.images.read(torch.arange(len(pool))).numpy().transpose(0, 2, 3, 1)


@pytest.mark.parametrize(
    ("source", "classes"),
    [
        (Torchvision(), ("cat", "dog", "owl")),
        (Torchvision(as_tensor), ("cat", "dog", "owl")),
        (HuggingFace(), ("x", "y", "z")),
        (
            TensorDataset(torch.from_numpy(PIXELS), torch.tensor(LABELS)),
            ("0", "1", "2"),
        ),
    ],
)
def test_images_and_labels_are_those_of_the_object(source, classes):
    pool = load(source, test=source)
    assert np.array_equal(pixels_of(pool), PIXELS)
    assert pool.labels.tolist() == pool.test.labels.tolist() == LABELS
    assert pool.classes == classes


def test_a_data_set_of_hugging_face_itself(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"image": [Image.fromarray(p) for p in PIXELS], "label": LABELS}
    names = datasets.ClassLabel(names=["x", "y", "z"])
    features = datasets.Features(image=datasets.Image(), label=names)
    pool = load(datasets.Dataset.from_dict(rows, features))
    assert np.array_equal(pixels_of(pool), PIXELS)
    assert pool.classes == ("x", "y", "z")


def test_vectors_and_items_without_labels():
    pool = load(TensorDataset(torch.randn(5, 3)))
    assert pool.images.shape == (3,)
    assert len(pool.labeled) == 0


def test_what_cannot_be_an_image_is_explained():
    shifted = Torchvision(lambda pixels: as_tensor(pixels) - 0.5)
    with pytest.raises(UsageError, match=r"Item 0 .* from -0.5 to .*without Normalize"):
        load(shifted)
    with pytest.raises(DataError, match="columns picture; rename"):
        load([{"picture": PIXELS[0]}])
    with pytest.raises(UsageError, match=r"Item 0 .* uneven rows"):
        load([([[1, 2], [3]], 0)])
    mixed = [(PIXELS[0], 0), (PIXELS[1][:4], 1)]
    with pytest.raises(DataError, match=r"2 shapes.*give size"):
        load(mixed)
    with pytest.raises(UsageError, match="A int cannot be loaded"):
        load(3)
    with pytest.raises(UsageError, match="has its own"):
        load(Torchvision(), [0] * 6)


def test_size_brings_pictures_to_one_shape():
    mixed = [(Image.fromarray(PIXELS[0]), 0), (Image.fromarray(PIXELS[1][:4]), 1)]
    assert load(mixed, size=5).images.shape == (3, 5, 5)


@pytest.mark.parametrize(
    "made",
    [
        Torchvision,
        lambda: (Torchvision(), Torchvision()),
        lambda: [Torchvision(), Torchvision()],
    ],
)
def test_an_import_path_names_a_data_set_or_what_makes_it(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "my_data", types.SimpleNamespace(birds=made))
    pool = load("my_data:birds", size=4)
    assert pool.images.shape == (3, 4, 4)
    assert (pool.test is None) == (made is Torchvision)


def test_channels_first_where_that_is_clear():
    first = PIXELS.transpose(0, 3, 1, 2)
    assert np.array_equal(pixels_of(load(first)), PIXELS)
    assert load(PIXELS[:, :3]).images.shape == (3, 3, 8)  # the last axis wins
    with pytest.raises(ShapeError, match="1 or 3 channels"):
        load(np.zeros((2, 4, 8, 8), np.uint8))
