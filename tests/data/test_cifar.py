import io
import pickle
import struct
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fewlabels.data.cifar import CIFAR10, CIFAR100, read_cifar_folder, safe_unpickle
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
        (home / name).write_bytes(pickle.dumps(table))
    names = [f"name{number}" for number in range(10)]
    (home / CIFAR10.meta).write_bytes(pickle.dumps({"label_names": names}))
    return folder


def packed(folder):
    """Turn the unpacked folder into the archive."""
    with tarfile.open(folder / CIFAR10.archive, "w:gz") as tar:
        tar.add(folder / CIFAR10.folder, CIFAR10.folder)
    for path in (folder / CIFAR10.folder).iterdir():
        path.unlink()
    (folder / CIFAR10.folder).rmdir()
    return folder


@pytest.mark.parametrize(
    "prepared", [write_cifar10, lambda f: packed(write_cifar10(f))]
)
def test_folder_and_archive_hold_the_same(tmp_path, prepared):
    arrays = read_cifar_folder(prepared(tmp_path), CIFAR10)
    assert arrays.y_train.tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert arrays.y_test.tolist() == [3, 8]
    assert arrays.classes[9] == "name9"
    expected = rows(2, 1)[1].reshape(3, 32, 32).transpose(1, 2, 0)
    assert np.array_equal(arrays.x_train[3], expected)


def test_nothing_is_unpacked(tmp_path):
    read_cifar_folder(packed(write_cifar10(tmp_path)), CIFAR10)
    assert [path.name for path in tmp_path.iterdir()] == [CIFAR10.archive]


def test_fine_labels_are_read(tmp_path):
    home = tmp_path / CIFAR100.folder
    home.mkdir()
    for name in ("train", "test"):
        table = {"data": rows(2), "fine_labels": [19, 29], "coarse_labels": [1, 2]}
        (home / name).write_bytes(pickle.dumps(table))
    (home / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple"]}))
    arrays = read_cifar_folder(tmp_path, CIFAR100)
    assert arrays.y_train.tolist() == [19, 29]
    assert arrays.classes == ("apple",)


def test_nothing_there_is_none(tmp_path):
    assert read_cifar_folder(tmp_path, CIFAR10) is None


def python2_pickle(array, labels):
    """Write a table as Python 2 did: all texts and bytes are short or long strings."""

    def text(word):
        return b"U" + bytes([len(word)]) + word

    content = array.tobytes()
    numbers = b"".join(b"K" + bytes([label]) for label in labels)
    shape = b"".join(b"M" + struct.pack("<H", side) for side in array.shape)
    return (
        b"\x80\x02}("
        + text(b"labels")
        + b"]("
        + numbers
        + b"e"
        + text(b"data")
        + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + text(b"b")
        + b"\x87R(K\x01"
        + shape
        + b"\x86cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<I", len(content))
        + content
        + b"tbu."
    )


def test_the_official_files_come_from_python_2():
    table = safe_unpickle(python2_pickle(rows(3), [6, 9, 9]), "data_batch_1")
    assert table["labels"] == [6, 9, 9]
    assert np.array_equal(table["data"], rows(3))


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_an_evil_pickle_does_nothing(tmp_path, protocol):
    trace = tmp_path / "trace"
    for evil in (
        Evil(Path.touch, trace),
        Evil(open, str(trace), "w"),
        Evil(subprocess.call, ["touch", str(trace)]),
        Evil(eval, f"open({str(trace)!r}, 'w')"),
        Evil(np.load, str(trace)),
    ):
        table = {"data": rows(1), "labels": [1], "extra": evil}
        with pytest.raises(DataError, match="not a CIFAR file"):
            safe_unpickle(pickle.dumps(table, protocol), "data_batch_1")
    assert not trace.exists()


def test_an_evil_file_in_a_set_is_refused(tmp_path):
    write_cifar10(tmp_path)
    trace = tmp_path / "trace"
    evil = pickle.dumps(Evil(open, str(trace), "w"))
    (tmp_path / CIFAR10.folder / "test_batch").write_bytes(evil)
    with pytest.raises(DataError, match=r"asks for io\.open, which is not allowed"):
        read_cifar_folder(tmp_path, CIFAR10)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"nothing", b"\x80\x02cnumpy\nndarray\n(lb.", pickle.dumps(rows(1))[:-50]],
)
def test_damaged_pickles_are_refused(content):
    with pytest.raises(DataError, match="not a CIFAR file"):
        safe_unpickle(content, "data_batch_1")


@pytest.mark.parametrize(
    "table",
    [
        [1],
        {"data": rows(2)},
        {"data": rows(2), "labels": [1]},
        {"data": rows(2), "labels": ["a", "b"]},
        {"data": rows(2)[:, :5], "labels": [1, 2]},
        {"data": rows(2) / 2, "labels": [1, 2]},
    ],
)
def test_other_tables_are_refused(tmp_path, table):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / "test_batch").write_bytes(pickle.dumps(table))
    with pytest.raises(DataError, match="test_batch does not hold rows of 3072 bytes"):
        read_cifar_folder(tmp_path, CIFAR10)


def test_missing_parts_are_named(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / "data_batch_3").unlink()
    with pytest.raises(DataError, match="data_batch_3 cannot be read"):
        read_cifar_folder(tmp_path, CIFAR10)
    with pytest.raises(DataError, match="has no file data_batch_3"):
        read_cifar_folder(packed(tmp_path), CIFAR10)


def test_names_must_be_there(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / CIFAR10.meta).write_bytes(pickle.dumps({}))
    with pytest.raises(DataError, match="holds no label_names"):
        read_cifar_folder(tmp_path, CIFAR10)


def test_links_in_an_archive_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    with tarfile.open(tmp_path / CIFAR10.archive, "w:gz") as tar:
        member = tarfile.TarInfo(f"{CIFAR10.folder}/data_batch_1")
        member.type, member.linkname = tarfile.SYMTYPE, str(secret)
        tar.addfile(member)
    with pytest.raises(DataError, match="has no file data_batch_1"):
        read_cifar_folder(tmp_path, CIFAR10)


def test_a_cut_archive_is_refused(tmp_path):
    archive = packed(write_cifar10(tmp_path)) / CIFAR10.archive
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(DataError, match="not a whole archive"):
        read_cifar_folder(tmp_path, CIFAR10)
    archive.write_bytes(io.BytesIO(b"nothing").read())
    with pytest.raises(DataError, match="not a whole archive"):
        read_cifar_folder(tmp_path, CIFAR10)
