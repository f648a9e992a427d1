import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.pictures import pixels, tree
from tests.data.test_official import write_set

import fewlabels.data as data
from fewlabels.errors import DataError, UnknownNameError, UsageError

IMAGES = np.stack([pixels(number) for number in range(6)])


def test_every_door_leads_to_a_pool(tmp_path):
    tree(tmp_path / "tree")
    (tmp_path / "tree" / "table.csv").write_text("file_name\ncat/0.png\n")
    np.savez(tmp_path / "a.npz", x_train=IMAGES)
    assert len(data.load("digits")) == 1297
    assert len(data.load(str(tmp_path / "tree"), test_share=0)) == 20
    assert len(data.load(tmp_path / "tree", "none")) == 20
    assert len(data.load(tmp_path / "tree" / "table.csv")) == 1
    assert data.load(tmp_path / "a.npz").ids[0].startswith("a/train/0@")
    assert data.load(IMAGES, [0, 1] * 3, classes=["a", "b"]).class_counts == (3, 3)
    assert len(data.load(torch.from_numpy(IMAGES))) == 6


def test_repeated_mnist_is_repeated_three_times_with_noise(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWLABELS_DATA", str(tmp_path))
    write_set(tmp_path / "mnist")
    pool = data.load("repeated-mnist")
    assert len(pool) == 15
    assert (pool.images.times, pool.images.noise) == (3, 0.1)
    exact = data.load("repeated-mnist", times=2, noise=0.0)
    copies = exact.images.read(torch.tensor([0, 5]))
    assert torch.equal(copies[0], copies[1])


def test_counts_size_and_times_work_together():
    pool = data.load("digits", counts={"1": 3, "2": 2}, times=2, size=16)
    assert pool.class_counts == (0, 6, 4, 0, 0, 0, 0, 0, 0, 0)
    assert pool.images.read(torch.arange(10)).shape == (10, 1, 16, 16)


def test_a_name_wins_over_a_folder_and_a_path_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree(tmp_path / "digits")
    assert len(data.load("digits")) == 1297
    assert data.load("./digits", test_share=0).classes == ("cat", "dog")
    assert data.load(Path("digits"), "none").classes == ()


@pytest.mark.parametrize(
    "name", ["dgits", "/no/such/folder", "~nobody-at-all/x", "x" * 5000]
)
def test_a_name_that_stands_for_nothing(name):
    with pytest.raises(UnknownNameError, match=r"no .*data set called.*Known: cifar10"):
        data.load(name)


def test_a_path_that_cannot_be_written_down(tmp_path):
    with pytest.raises(DataError, match=r"odd\\xff is not UTF-8.*Rename it"):
        data.load(tmp_path / os.fsdecode(b"odd\xff"))


def test_a_path_that_leads_nowhere(tmp_path):
    for path in ("nosuchfolder/", tmp_path / "nothing"):
        with pytest.raises(UnknownNameError, match="no file, folder or data set"):
            data.load(path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"a\.txt is not a file that can be loaded"):
        data.load(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ({1, 2}, {}, "A set cannot be loaded"),
        ("digits", {"size": 0}, "size is 0"),
        ("digits", {"test_share": 1}, "test_share is 1"),
        ("digits", {"noise": 0.1}, "give times as well"),
        ("digits", {"times": 0}, "times is 0"),
        ("digits", {"labels": [1]}, "are for arrays"),
        ("digits", {"labels": "folders"}, "are for arrays"),
        ("digits", {"classes": ["a"]}, "are for arrays"),
        ("digits", {"labels": "none"}, "is for folders and manifests"),
    ],
)
def test_calls_that_cannot_be_right(source, options, message):
    with pytest.raises(UsageError, match=message):
        data.load(source, **options)
