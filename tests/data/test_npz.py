from contextlib import suppress

import numpy as np
import pytest
from tests.data.pictures import pixels

from fewlabels.data.npz import npz_pool, read_npz
from fewlabels.errors import DataError, LabelError

IMAGES = np.stack([pixels(number) for number in range(4)])


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
    with pytest.raises(
        DataError, match="holds the arrays images; a pool needs x_train"
    ):
        npz_pool(tmp_path / "odd.npz", "odd")


def test_pickled_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "evil.npz", x_train=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="it holds Python objects") as caught:
        npz_pool(tmp_path / "evil.npz", "evil")
    assert "allow_pickle" not in str(caught.value)


def test_absurd_class_numbers_are_refused(tmp_path):
    np.savez(tmp_path / "odd.npz", x_train=IMAGES, y_train=[0, 1, 0, 10**7])
    with pytest.raises(LabelError, match="10,000,001 classes for 4 labels"):
        npz_pool(tmp_path / "odd.npz", "odd")


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 cut off"])
def test_damaged_files_are_refused(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"not a whole \.npz file") as caught:
        npz_pool(path, "bad")
    assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("seed", range(40))
def test_changed_bytes_are_read_or_refused(tmp_path, seed):
    path, chance = tmp_path / "bad.npz", np.random.default_rng(seed)
    save = (np.savez, np.savez_compressed)[seed % 2]
    save(path, x_train=IMAGES, y_train=[0, 1, 0, 1])
    content = np.frombuffer(path.read_bytes(), np.uint8).copy()
    content[chance.integers(len(content), size=40)] = chance.integers(256, size=40)
    path.write_bytes(content.tobytes())
    with suppress(DataError):
        read_npz(path)


def test_an_unknown_compression_is_refused(tmp_path):
    path = tmp_path / "odd.npz"
    np.savez(path, x_train=IMAGES)
    content = path.read_bytes()
    directory = content.index(b"PK\x01\x02")
    method = directory + 10
    path.write_bytes(content[:method] + b"\x63\x00" + content[method + 2 :])
    with pytest.raises(DataError, match="compression method is not supported"):
        read_npz(path)


def test_a_single_array_is_refused(tmp_path):
    with (tmp_path / "one.npz").open("wb") as file:
        np.save(file, IMAGES)
    with pytest.raises(DataError, match="it is no archive at all"):
        npz_pool(tmp_path / "one.npz", "one")
