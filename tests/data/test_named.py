import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.test_cifar import packed, trusted, write_cifar10
from tests.data.test_idx import write_set

from fewlabels.data import named
from fewlabels.data.cifar import read_cifar_folder
from fewlabels.data.download import Source
from fewlabels.data.idx import read_idx_folder
from fewlabels.data.named import (
    StandardSet,
    cache_folder,
    named_pool,
    names,
    places,
    standard_pool,
)
from fewlabels.errors import DataError, DownloadError, UnknownNameError
from fewlabels.pool import ArrayImages, Pool, Split

TINY = StandardSet(
    name="mnist",
    first_labels=(5, 0, 4, 1, 9),
    classes=tuple("0123456789"),
    folders=("mnist", "MNIST/raw"),
    read=read_idx_folder,
    sources=(Source("http://127.0.0.1:9/x", "x", "0"),),
)


def test_the_names_are_sorted():
    assert list(names()) == [
        "cifar10",
        "cifar100",
        "cifar20",
        "digits",
        "fashion-mnist",
        "mnist",
        "repeated-mnist",
    ]
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        named_pool("cifar-10")


@pytest.mark.parametrize("below", ["mnist", "MNIST/raw", "."])
def test_standard_files_are_found(tmp_path, below):
    write_set(tmp_path / below)
    pool = standard_pool(TINY, [tmp_path])
    assert pool.labels.tolist() == [5, 0, 4, 1, 9]
    assert pool.classes == TINY.classes
    assert pool.ids[0].startswith("mnist/train/0@")
    assert len(pool.test) == 2


def test_the_first_place_wins(tmp_path):
    write_set(tmp_path / "second" / "mnist")
    images = np.zeros((6, 4, 4), np.uint8)
    (tmp_path / "first").mkdir()
    np.savez(
        tmp_path / "first" / "mnist.npz", x_train=images, y_train=[5, 0, 4, 1, 9, 9]
    )
    pool = standard_pool(TINY, [tmp_path / "first", tmp_path / "second"])
    assert len(pool) == 6
    assert pool.classes == TINY.classes


def test_a_set_with_the_same_file_names_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    write_set(tmp_path, first_labels=(9, 0, 0, 3, 0))
    # Not taken for MNIST, and not to be had.
    with pytest.raises(DownloadError, match="could not be downloaded"):
        standard_pool(TINY, [tmp_path])
    write_set(tmp_path / "mnist", first_labels=(9, 0, 0, 3, 0))
    with pytest.raises(
        DataError, match="begin with 9 0 0 3 0, those of mnist with 5 0"
    ):
        standard_pool(TINY, [tmp_path])


@pytest.mark.parametrize(
    "prepared", [write_cifar10, lambda f: packed(write_cifar10(f))]
)
def test_cifar_is_found(tmp_path, prepared):
    prepared(tmp_path / "cifar10")
    cifar = replace(
        TINY,
        name="cifar10",
        folders=("cifar10",),
        first_labels=(6, 9, 9, 4, 1),
        read=partial(read_cifar_folder, layout=trusted(tmp_path)),
    )
    pool = standard_pool(cifar, [tmp_path])
    assert pool.images.shape == (3, 32, 32)
    assert pool.classes[0] == "name0"


def test_places_follow_the_environment(monkeypatch):
    monkeypatch.setenv("FEWLABELS_DATA", "/one")
    monkeypatch.setenv("FEWLABELS_CACHE", "/two")
    assert places() == [Path("/one"), Path("/two")]
    monkeypatch.delenv("FEWLABELS_DATA")
    monkeypatch.delenv("FEWLABELS_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/three")
    assert places() == [Path("/three/fewlabels")]
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "fewlabels"


GOLDEN = {
    "mnist": (60_000, [5, 0, 4, 1, 9], [7, 2, 1, 0, 4]),
    "fashion-mnist": (60_000, [9, 0, 0, 3, 0], [9, 2, 1, 1, 6]),
    "cifar10": (50_000, [6, 9, 9, 4, 1], [3, 8, 8, 0, 6]),
    "cifar100": (50_000, [19, 29, 0, 11, 1], [49, 33, 72, 51, 71]),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_real_sets_are_in_official_order(name, monkeypatch, tmp_path):
    folder = Path(os.environ.get("FEWLABELS_DATA", tmp_path))
    if not any((folder / known).exists() for known in (name, f"{name}.npz")):
        pytest.skip(f"{name} is not in the folder that FEWLABELS_DATA names")
    size, train, test = GOLDEN[name]
    pool = named_pool(name)
    assert len(pool) == size
    assert len(pool.test) == 10_000
    assert pool.labels[:5].tolist() == train
    assert pool.test.labels[:5].tolist() == test
    assert len(set(pool.class_counts)) == 1 or name == "mnist"


def test_cifar20_has_the_groups_of_cifar100(monkeypatch):
    images = torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    labels = torch.tensor([0, 54, 99, 97])  # apple, orchid, worm, wolf
    fine = Pool.build(ArrayImages(images), labels, [str(n) for n in range(100)])
    fine = replace(fine, test=Split(ArrayImages(images[:1]), labels[1:2]))
    monkeypatch.setattr(named, "standard_pool", lambda *_: fine)
    pool = named_pool("cifar20")
    groups = [pool.classes[number] for number in pool.labels.tolist()]
    assert groups == [
        "fruit_and_vegetables",
        "flowers",
        "non-insect_invertebrates",
        "large_carnivores",
    ]
    assert pool.classes[int(pool.test.labels[0])] == "flowers"
    assert (pool.num_classes, pool.ids) == (20, fine.ids)
