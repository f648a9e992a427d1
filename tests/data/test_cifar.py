import io
import os
import pickle
import tarfile
from dataclasses import replace
from hashlib import md5

import numpy as np
import pytest
from benchmarks.python2 import dumps

from fewlabels.data.cifar import CIFAR10, CIFAR100, read_cifar_folder
from fewlabels.errors import DataError


def rows(count, start=0):
    random = np.random.default_rng(start)
    return random.integers(0, 256, (count, 3072), dtype=np.uint8)


def write_cifar10(folder):
    """Write CIFAR-10 with two images a file."""
    home = folder / CIFAR10.folder
    home.mkdir(parents=True)
    first = iter([6, 9, 9, 4, 1, 1, 2, 7, 8, 3, 3, 8])
    for number, name in enumerate((*CIFAR10.train, CIFAR10.test)):
        table = {"data": rows(2, number), "labels": [next(first), next(first)]}
        (home / name).write_bytes(dumps(table))
    names = [f"name{number}" for number in range(10)]
    (home / CIFAR10.meta).write_bytes(dumps({"label_names": names}))
    return folder


def packed(folder):
    """Turn the unpacked folder into the archive."""
    with tarfile.open(folder / CIFAR10.archive, "w:gz") as tar:
        tar.add(folder / CIFAR10.folder, CIFAR10.folder)
    for path in (folder / CIFAR10.folder).iterdir():
        path.unlink()
    (folder / CIFAR10.folder).rmdir()
    return folder


def trusted(folder, layout=CIFAR10):
    """Return the layout, with whatever the folder holds for the published files."""
    hashes = {
        path.name: md5(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return replace(layout, md5={**layout.md5, **hashes})


def read(folder):
    return read_cifar_folder(folder, trusted(folder))


@pytest.mark.parametrize(
    "prepared", [write_cifar10, lambda f: packed(write_cifar10(f))]
)
def test_folder_and_archive_hold_the_same(tmp_path, prepared):
    arrays = read(prepared(tmp_path))
    assert arrays.y_train.tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert arrays.y_test.tolist() == [3, 8]
    assert arrays.classes[9] == "name9"
    expected = rows(2, 1)[1].reshape(3, 32, 32).transpose(1, 2, 0)
    assert np.array_equal(arrays.x_train[3], expected)


def test_nothing_is_unpacked(tmp_path):
    read(packed(write_cifar10(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == [CIFAR10.archive]


def test_fine_labels_are_read(tmp_path):
    home = tmp_path / CIFAR100.folder
    home.mkdir()
    for name in ("train", "test"):
        table = {"data": rows(2), "fine_labels": [19, 29], "coarse_labels": [1, 2]}
        (home / name).write_bytes(dumps(table))
    (home / "meta").write_bytes(dumps({"fine_label_names": ["apple"]}))
    arrays = read_cifar_folder(tmp_path, trusted(tmp_path, CIFAR100))
    assert arrays.y_train.tolist() == [19, 29]
    assert arrays.classes == ("apple",)


def test_nothing_there_is_none(tmp_path):
    assert read_cifar_folder(tmp_path, CIFAR10) is None


@pytest.mark.parametrize("is_packed", [False, True])
def test_files_that_are_not_the_published_ones_are_refused(tmp_path, is_packed):
    write_cifar10(tmp_path)
    layout = trusted(tmp_path)
    if is_packed:
        packed(tmp_path)
        told = r"gz is not the published file: its MD5 is .*, not c58f30108f718f92721af"
    else:
        file = tmp_path / CIFAR10.folder / "data_batch_4"
        content = bytearray(file.read_bytes())
        content[-100] ^= 1
        file.write_bytes(content)
        told = "data_batch_4 is not the published file.*save your arrays as cifar10.npz"
    with pytest.raises(DataError, match=told):
        read_cifar_folder(tmp_path, layout)


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_an_evil_file_does_nothing(tmp_path):
    write_cifar10(tmp_path)
    trace = tmp_path / "trace"
    evil = pickle.dumps(Evil(open, str(trace), "w"), protocol=2)
    layout = trusted(tmp_path)
    (tmp_path / CIFAR10.folder / "test_batch").write_bytes(evil)
    with pytest.raises(DataError, match="test_batch is not the published file"):
        read_cifar_folder(tmp_path, layout)
    with pytest.raises(DataError, match=r"it asks for '\w+\.open'"):
        read(tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "table",
    [
        [1],
        {"data": rows(2)},
        {"data": [1, 2], "labels": [1, 2]},
        {"data": rows(2), "labels": [1]},
        {"data": rows(2), "labels": ["a", "b"]},
        {"data": rows(2)[:, :5].copy(), "labels": [1, 2]},
    ],
)
def test_other_tables_are_refused(tmp_path, table):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / "test_batch").write_bytes(dumps(table))
    with pytest.raises(DataError, match="test_batch does not hold rows of 3072 bytes"):
        read(tmp_path)


def test_missing_parts_are_named(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / "data_batch_3").unlink()
    with pytest.raises(DataError, match="data_batch_3 cannot be read"):
        read(tmp_path)
    with pytest.raises(DataError, match="has no file data_batch_3"):
        read(packed(tmp_path))


def test_names_must_be_there(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / CIFAR10.meta).write_bytes(dumps({}))
    with pytest.raises(DataError, match="holds no label_names"):
        read(tmp_path)


def test_links_in_an_archive_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    with tarfile.open(tmp_path / CIFAR10.archive, "w:gz") as tar:
        member = tarfile.TarInfo(f"{CIFAR10.folder}/data_batch_1")
        member.type, member.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(member)
    with pytest.raises(DataError, match="has no file data_batch_1"):
        read(tmp_path)


def test_a_cut_archive_is_refused(tmp_path):
    archive = packed(write_cifar10(tmp_path)) / CIFAR10.archive
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(DataError, match="not a whole archive"):
        read(tmp_path)
    archive.write_bytes(io.BytesIO(b"nothing").read())
    with pytest.raises(DataError, match="not a whole archive"):
        read(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are files on POSIX")
@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_what_never_ends_is_not_read(tmp_path, target):
    file = write_cifar10(tmp_path) / CIFAR10.folder / "data_batch_1"
    os.mkfifo(tmp_path / "pipe")
    file.unlink()
    file.symlink_to(tmp_path / target)
    with pytest.raises(DataError, match="data_batch_1 cannot be read: not a regular"):
        read_cifar_folder(tmp_path, CIFAR10)
