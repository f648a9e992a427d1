import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fewlabels.data.idx import read_idx, read_idx_folder
from fewlabels.errors import DataError


def idx_bytes(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def write_set(folder, first_labels=(5, 0, 4, 1, 9), *, zipped=True):
    """Write the four files of a tiny set."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.array(first_labels, dtype=np.uint8)
    images = np.arange(len(labels) * 16, dtype=np.uint8).reshape(-1, 4, 4)
    for part, count in (("train", len(labels)), ("t10k", 2)):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx_bytes(array[:count])
            name = f"{part}-{kind}-ubyte" + (".gz" if zipped else "")
            (folder / name).write_bytes(
                gzip.compress(content, mtime=0) if zipped else content
            )
    return folder


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3)), st.booleans())
def test_what_was_written_is_read(tmp_path_factory, array, zipped):
    path = tmp_path_factory.mktemp("idx") / ("a.gz" if zipped else "a")
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)
    assert np.array_equal(read_idx(path, array.ndim), array)


@pytest.mark.parametrize("zipped", [True, False])
def test_four_files_are_a_set(tmp_path, zipped):
    arrays = read_idx_folder(write_set(tmp_path, zipped=zipped))
    assert arrays.y_train.tolist() == [5, 0, 4, 1, 9]
    assert arrays.x_test.shape == (2, 4, 4)


def test_three_files_are_none(tmp_path):
    (write_set(tmp_path) / "t10k-labels-idx1-ubyte.gz").unlink()
    assert read_idx_folder(tmp_path) is None


WHOLE = idx_bytes(np.zeros((3, 2, 2), np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x0d\x03" + WHOLE[4:], "begins with 00000d03.*00000803"),
        (WHOLE[:10], "an idx file of this kind"),
        (WHOLE[:-1], r"announces \(3, 2, 2\) = 12 bytes and holds 11;"),
        (WHOLE + b"x", "holds more than 12"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "its header is damaged"),
        (b"\x00\x00\x08\x03" + struct.pack(">3I", 2**20 + 1, 1, 1), "1,048,576 items"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(tmp_path / "a", 3)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(WHOLE, mtime=0)[:-12]])
def test_damaged_compression_is_refused(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path / "a.gz", 3)
