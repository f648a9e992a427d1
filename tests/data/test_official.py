"""The official files of MNIST and CIFAR: read, or refused."""

import gzip
import pickle
import struct
import subprocess
import tarfile
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.harness.python2 import dumps

from fewlabels.data.official import (
    STANDARD_SETS,
    read_idx,
    read_idx_folder,
)
from fewlabels.errors import DataError

CIFAR10, CIFAR100 = STANDARD_SETS["cifar10"], STANDARD_SETS["cifar100"]


def words(text):
    return text.split()


TEN = words("airplane automobile bird cat deer dog frog horse ship truck")
TWENTY = words("""
aquatic_mammals fish flowers food_containers fruit_and_vegetables
household_electrical_devices household_furniture insects large_carnivores
large_man-made_outdoor_things large_natural_outdoor_scenes
large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people
reptiles small_mammals trees vehicles_1 vehicles_2
""")
HUNDRED = words("""
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach
couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster
house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road
rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip
turtle wardrobe whale willow_tree wolf woman worm
""")


def rows(count, start=0):
    random = np.random.default_rng(start)
    return random.integers(0, 256, (count, 3072), dtype=np.uint8)


def write_cifar10(folder):
    """Write CIFAR-10 with two images a file."""
    home = folder / CIFAR10.folder
    home.mkdir(parents=True)
    first = iter([6, 9, 9, 4, 1, 1, 2, 7, 8, 3, 3, 8])
    for number, name in enumerate([*CIFAR10.md5][:-1]):
        table = {"data": rows(2, number), "labels": [next(first), next(first)]}
        (home / name).write_bytes(dumps(table))
    names = [f"name{number}" for number in range(10)]
    (home / "batches.meta").write_bytes(dumps({"label_names": names}))
    return folder


def packed(folder):
    """Turn the unpacked folder into the archive."""
    with tarfile.open(folder / CIFAR10.archive[0], "w:gz") as tar:
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
    for archive in folder.rglob(layout.archive[0]):
        with tarfile.open(archive) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                content = tar.extractfile(member).read()
                hashes[Path(member.name).name] = md5(content).hexdigest()
    return replace(
        layout,
        md5={name: hashes.get(name, known) for name, known in layout.md5.items()},
    )


def read(folder):
    return trusted(folder).read(folder)


@pytest.mark.parametrize(
    "prepared", [write_cifar10, lambda f: packed(write_cifar10(f))]
)
def test_folder_and_archive_hold_the_same(tmp_path, prepared):
    arrays = read(prepared(tmp_path))
    assert arrays["y_train"].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert arrays["y_test"].tolist() == [3, 8]
    assert arrays["classes"][9] == "name9"
    expected = rows(2, 1)[1].reshape(3, 32, 32).transpose(1, 2, 0)
    assert np.array_equal(arrays["x_train"][3], expected)


def test_fine_labels_are_read(tmp_path):
    home = tmp_path / CIFAR100.folder
    home.mkdir()
    for name in ("train", "test"):
        table = {"data": rows(2), "fine_labels": [19, 29], "coarse_labels": [1, 2]}
        (home / name).write_bytes(dumps(table))
    (home / "meta").write_bytes(dumps({"fine_label_names": ["apple"]}))
    arrays = trusted(tmp_path, CIFAR100).read(tmp_path)
    assert arrays["y_train"].tolist() == [19, 29]
    assert arrays["classes"].tolist() == ["apple"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_files_that_are_not_the_published_ones_are_refused(tmp_path, is_packed):
    write_cifar10(tmp_path)
    layout = trusted(tmp_path)
    if is_packed:
        layout = CIFAR10
        packed(tmp_path)
        message = r"gz/[\w.]+ is not the published file: its MD5 is \w+, not \w+"
    else:
        file = tmp_path / CIFAR10.folder / "data_batch_4"
        content = bytearray(file.read_bytes())
        content[-100] ^= 1
        file.write_bytes(content)
        message = "data_batch_4 is not the published file"
    with pytest.raises(DataError, match=message):
        layout.read(tmp_path)


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def refused(folder, content, message):
    """Put a file in the place of one of CIFAR, and have it taken for published."""
    (folder / CIFAR10.folder / "test_batch").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(folder)


@pytest.mark.parametrize("protocol", range(6))
def test_an_evil_file_does_nothing(tmp_path, protocol):
    write_cifar10(tmp_path)
    trace, layout = tmp_path / "trace", trusted(tmp_path)
    for evil in (
        Evil(Path.touch, trace),
        Evil(open, str(trace), "w"),
        Evil(subprocess.call, ["touch", str(trace)]),
        Evil(eval, f"open({str(trace)!r}, 'w')"),
        Evil(np.load, str(trace)),
    ):
        content = pickle.dumps({"extra": evil}, protocol)
        (tmp_path / CIFAR10.folder / "test_batch").write_bytes(content)
        with pytest.raises(DataError, match="test_batch is not the published file"):
            layout.read(tmp_path)
        refused(tmp_path, content, r"asks for '[\w.]+'; do not trust it")
    assert not trace.exists()


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"


def test_pointers_from_a_file_are_not_followed(tmp_path):
    """NumPy took the bytes of this array for the addresses of objects."""
    objects = b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R"
    void = b"cnumpy\ndtype\nU\x02V8K\x00K\x01\x87R(K\x03U\x01|NU\x01f\x85}U\x01f"
    kind = void + objects + b"K\x00\x86sK\x08K\x01K\x00tb"
    array = ARRAY + b"(K\x01K\x01K\x08\x86" + kind + b"\x89U\x08AAAAAAAAtb"
    table = b"\x80\x02}(U\x06labels]U\x04data" + array + b"u."
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / "test_batch").write_bytes(table)
    with pytest.raises(ValueError, match="cannot reshape array of size 8"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("published", "table"),
    [
        (
            CIFAR10.md5["batches.meta"],
            {"num_cases_per_batch": 10_000, "label_names": TEN, "num_vis": 3072},
        ),
        (
            CIFAR100.md5["meta"],
            {"fine_label_names": HUNDRED, "coarse_label_names": TWENTY},
        ),
    ],
)
def test_the_writer_of_these_tests_writes_the_published_files(published, table):
    """Two of them can be made anew to the last byte; their hashes say so."""
    assert md5(dumps(table)).hexdigest() == published


def test_columns_may_lie_together(tmp_path):
    home = write_cifar10(tmp_path) / CIFAR10.folder
    table = {"data": np.asfortranarray(rows(2, 5)), "labels": [3, 8]}
    (home / "test_batch").write_bytes(dumps(table))
    expected = rows(2, 5).reshape(2, 3, 32, 32).transpose(0, 2, 3, 1)
    assert np.array_equal(read(tmp_path)["x_test"], expected)


def test_missing_parts_are_named(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / CIFAR10.folder / "data_batch_3").unlink()
    with pytest.raises(DataError, match="data_batch_3' does not exist"):
        trusted(tmp_path).read(tmp_path)


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
    assert arrays["y_train"].tolist() == [5, 0, 4, 1, 9]
    assert arrays["x_test"].shape == (2, 4, 4)


def test_three_files_are_none(tmp_path):
    (write_set(tmp_path) / "t10k-labels-idx1-ubyte.gz").unlink()
    assert read_idx_folder(tmp_path) is None


WHOLE = idx_bytes(np.zeros((3, 2, 2), np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with "),
        (b"\x00\x00\x0d\x03" + WHOLE[4:], "begins with 00000d03.*00000803"),
        (WHOLE[:10], "begins with 0000080300"),
        (WHOLE[:-1], r"announces 12 bytes and has"),
        (WHOLE + b"x", r"12 bytes and has more or fewer"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "at most .* bytes are read"),
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
