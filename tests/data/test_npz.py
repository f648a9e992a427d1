import zipfile

import numpy as np
import pytest
import torch
from tests.data.pictures import pixels

from fewlabels.data.arrays import pool_from_arrays
from fewlabels.data.untrusted import read_npz
from fewlabels.errors import DataError, FewlabelsError, LabelError

IMAGES = np.stack([pixels(number) for number in range(4)])


def npz_pool(path, name):
    return pool_from_arrays(read_npz(path), name, path)


def test_arrays_come_from_a_file(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(
        path,
        x_train=IMAGES,
        y_train=[0, 1, 0, 1],
        x_test=IMAGES[:1],
        y_test=[1],
        classes=["no", "yes"],
    )
    pool = npz_pool(path, "mine")
    assert pool.classes == ("no", "yes")
    assert pool.class_counts == (2, 2)
    assert pool.test.labels.tolist() == [1]
    assert pool.ids[3].startswith("mine/train/3@")


def test_labels_may_be_missing(tmp_path):
    np.savez(tmp_path / "bare.npz", x_train=IMAGES)
    assert npz_pool(tmp_path / "bare.npz", "bare").labels.tolist() == [-1] * 4


def test_missing_arrays_are_named(tmp_path):
    np.savez(tmp_path / "odd.npz", images=IMAGES)
    with pytest.raises(DataError, match="holds the arrays images; it needs x_train"):
        npz_pool(tmp_path / "odd.npz", "odd")


def test_pickled_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "evil.npz", x_train=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="not a whole array without objects") as caught:
        npz_pool(tmp_path / "evil.npz", "evil")
    assert "allow_pickle" not in str(caught.value)


def test_absurd_class_numbers_are_refused(tmp_path):
    np.savez(tmp_path / "odd.npz", x_train=IMAGES, y_train=[0, 1, 0, 10**7])
    with pytest.raises(LabelError, match="4 labels is 10,000,000"):
        npz_pool(tmp_path / "odd.npz", "odd")


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 cut off"])
def test_damaged_files_are_refused(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"cannot be read: .* Save plain arrays"
    ) as caught:
        npz_pool(path, "bad")
    assert "allow_pickle" not in str(caught.value)


def test_an_unknown_compression_is_refused(tmp_path):
    path = tmp_path / "odd.npz"
    np.savez(path, x_train=IMAGES)
    content = path.read_bytes()
    directory = content.index(b"PK\x01\x02")
    method = directory + 10
    path.write_bytes(content[:method] + b"\x63\x00" + content[method + 2 :])
    with pytest.raises(DataError, match="compression method is not supported"):
        read_npz(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y_train": np.array("dog")}, r"Labels have the shape \(\)"),
        ({"y_train": np.array([2**21] * 4, np.uint32).view("U1")}, "not valid text"),
        ({"classes": np.array([b"cat"])}, r"Labels have the type \|S3"),
        ({"x_train": np.zeros((4, 3), complex)}, "Images have the type complex128"),
        ({"x_train": np.zeros((0, 3))}, "there is nothing to label"),
    ],
)
def test_arrays_of_no_use_are_refused(tmp_path, arrays, message):
    path = tmp_path / "odd.npz"
    np.savez(path, **{"x_train": IMAGES, **arrays})
    with pytest.raises(FewlabelsError, match=message):
        npz_pool(path, "odd")


def test_vectors_of_every_type_are_taken(tmp_path):
    for dtype in ("<f2", "<f4", ">f4", ">f8", np.longdouble):
        path = tmp_path / "vectors.npz"
        np.savez(path, x_train=np.eye(3, dtype=dtype))
        assert npz_pool(path, "mine").images.read(torch.arange(3)).trace() == 3


def announce(file, kind, shape):
    described = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x_train.npy", "w", force_zip64=True) as file,
    ):
        announce(file, "|u1", (300, 2**20))
        for _ in range(300):
            file.write(bytes(2**20))
    assert path.stat().st_size < 10**6
    with pytest.raises(DataError, match="would unpack to 314,572,928 bytes; at most"):
        read_npz(path)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("|u1", (10**18, 0)),
        ("|u1", (10**18,)),
        ("|u1", (3, 10**15)),
        ("<U0", (100,) * 9),
        ("|V0", (100,) * 9),
    ],
)
def test_a_header_that_announces_more_than_there_is_is_refused(tmp_path, kind, shape):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("x.npy", "w") as file:
        announce(file, kind, shape)
    with pytest.raises(DataError, match=r"cannot be read: .* Save plain arrays"):
        read_npz(path)


def test_a_long_header_is_not_parsed(tmp_path):
    path, header = tmp_path / "odd.npz", b"[" * 3000 + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        size = len(header).to_bytes(2, "little")
        archive.writestr("x_train.npy", b"\x93NUMPY\x01\x00" + size + header)
    with pytest.raises(DataError, match="not a whole array"):
        read_npz(path)
