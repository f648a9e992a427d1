import hashlib
import os
import shutil
import socket
import tarfile
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat
from sklearn.datasets import load_digits
from tests.data.test_official import packed, trusted, write_cifar10, write_set

from fewlabels.data import official
from fewlabels.data.loading import digits_pool, load, names
from fewlabels.data.official import (
    STANDARD_SETS,
    StandardSet,
    fetch,
    named_pool,
    places,
    standard_pool,
)
from fewlabels.errors import DataError, DownloadError, UnknownNameError
from fewlabels.files import cache_folder
from fewlabels.pool import ArrayImages, Pool, Split

TINY = StandardSet(
    name="mnist",
    first_labels=(5, 0, 4, 1, 9),
    classes=tuple("0123456789"),
    folder="MNIST/raw",
    url="http://127.0.0.1:9/",
    md5={"x": "0"},
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
        "stl10",
        "svhn",
    ]
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        load("cifar-10")


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
    with pytest.raises(DataError, match="begin with \\(9, 0, 0, 3, 0\\), not \\(5, 0"):
        standard_pool(TINY, [tmp_path])


@pytest.mark.parametrize(
    "prepared", [write_cifar10, lambda f: packed(write_cifar10(f))]
)
def test_cifar_is_found(tmp_path, prepared):
    prepared(tmp_path / "cifar10")
    pool = standard_pool(trusted(tmp_path), [tmp_path])
    assert pool.images.shape == (3, 32, 32)
    assert pool.classes[0] == "name0"


def checked_by_its_own_hashes(standard, folder):
    """Return the set with the hashes of tiny files in the same format."""
    files = {name: folder / standard.folder / name for name in standard.md5}
    hashes = {
        n: hashlib.md5(path.read_bytes()).hexdigest() for n, path in files.items()
    }
    return replace(standard, md5=hashes)


def test_svhn_is_read_from_files_of_matlab(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), np.uint8)
    for part in ("train", "test"):
        labels = np.array([[1], [10], [2], [9]], np.uint8)
        savemat(tmp_path / f"{part}_32x32.mat", {"X": images, "y": labels})
    pool = standard_pool(
        checked_by_its_own_hashes(STANDARD_SETS["svhn"], tmp_path), [tmp_path]
    )
    assert pool.labels.tolist() == [1, 0, 2, 9]  # ten stands for zero
    assert pool.images.shape == (3, 32, 32)
    assert len(pool.test) == 4
    one = pool.images.read(torch.tensor([2]))[0].numpy()
    assert np.array_equal(one.transpose(1, 2, 0), images[..., 2])
    with pytest.raises(DataError, match=r"train_32x32.mat is not the published file"):
        standard_pool(STANDARD_SETS["svhn"], [tmp_path])


@pytest.mark.parametrize("is_packed", [False, True])
def test_stl10_is_read_column_by_column(tmp_path, is_packed):
    home = tmp_path / "stl10_binary"
    home.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (2, 96, 96, 3), np.uint8)
    for part, labels in (("train", [1, 10]), ("test", [2, 3])):
        images.transpose(0, 3, 2, 1).tofile(home / f"{part}_X.bin")
        np.array(labels, np.uint8).tofile(home / f"{part}_y.bin")
    stl10 = checked_by_its_own_hashes(STANDARD_SETS["stl10"], tmp_path)
    if is_packed:
        with tarfile.open(tmp_path / "stl10_binary.tar.gz", "w:gz") as tar:
            tar.add(home, home.name)
        shutil.rmtree(home)
    pool = standard_pool(stl10, [tmp_path])
    assert pool.labels.tolist() == [0, 9]
    assert pool.test.labels.tolist() == [1, 2]
    assert (pool.classes[0], pool.classes[9]) == ("airplane", "truck")
    read = pool.images.read(torch.arange(2)).numpy().transpose(0, 2, 3, 1)
    assert np.array_equal(read, images)


def test_an_archive_that_lacks_a_file_is_refused(tmp_path):
    (tmp_path / "readme").write_text("x")
    with tarfile.open(tmp_path / "stl10_binary.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "readme", "stl10_binary/readme")
    with pytest.raises(DataError, match=r"lacks train_X.bin, .*fetch it again"):
        standard_pool(STANDARD_SETS["stl10"], [tmp_path])


def test_places_follow_the_environment(monkeypatch):
    monkeypatch.setenv("FEWLABELS_DATA", "/one")
    monkeypatch.setenv("FEWLABELS_CACHE", "/two")
    assert places() == [Path("/one"), Path("/two")]
    monkeypatch.delenv("FEWLABELS_DATA")
    monkeypatch.delenv("FEWLABELS_CACHE")
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
    monkeypatch.setattr(official, "standard_pool", lambda *_: fine)
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


CONTENT = bytes(range(256)) * 2000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Answer(BaseHTTPRequestHandler):
    """Serves good and bad files."""

    asked: list[str] = []  # noqa: RUF012 - one list for all

    def do_GET(self):
        self.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/file")
            self.end_headers()
            return
        if self.path == "/slow":
            time.sleep(0.6)
        self.send_response(200)
        if self.path != "/unannounced":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100_000] if self.path == "/cut" else CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def address(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    Answer.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def refused(url, folder, message, md5=MD5, **options):
    with pytest.raises(DownloadError, match=message) as caught:
        fetch(url, folder, "file.gz", md5, **options)
    assert not list(folder.iterdir()), "something was left behind"
    return str(caught.value)


@pytest.mark.parametrize("path", ["/file", "/unannounced"])
def test_a_file_comes_whole_and_once(tmp_path, address, path):
    for _ in range(2):
        goal = fetch(address + path, tmp_path / "new" / "folder", "file.gz", MD5)
        assert goal.read_bytes() == CONTENT
    assert Answer.asked == [path]
    assert [file.name for file in goal.parent.iterdir()] == ["file.gz"]


def test_a_wrong_hash_is_refused(tmp_path, address):
    message = refused(address + "/file", tmp_path, f"abc but got {MD5}", "abc")
    assert "put file.gz into the folder that FEWLABELS_DATA names" in message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/cut", "100000 bytes read, 412000 more expected"),
        ("/missing", "404 Client Error: Not Found"),
        ("/slow", "Read timed out"),
        ("/moved", "No connection adapters were found for 'ftp:"),
    ],
)
def test_half_files_silence_and_other_protocols_are_refused(
    tmp_path, address, path, message
):
    refused(address + path, tmp_path, message, timeout=0.3)


def test_only_the_web_is_asked(tmp_path):
    refused("file:///etc/hostname", tmp_path, "No connection adapters were found")


def test_an_endless_file_is_not_kept(tmp_path, address, monkeypatch):
    monkeypatch.setattr(official, "_MOST_BYTES", 1000)
    refused(address + "/file", tmp_path, "it has more than 1,000 bytes")


def test_no_network_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        refused(f"http://127.0.0.1:{port}/x", tmp_path, "Connection refused")


def test_a_closed_cache_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"cannot be written.*FEWLABELS_CACHE"):
        fetch("http://127.0.0.1/x", tmp_path / "file" / "below", "x", MD5)


def test_the_split_is_1297_and_500_and_stratified(untouched_randomness):
    pool = digits_pool()
    assert len(pool) == 1297
    assert len(pool.test) == 500
    whole = np.bincount(load_digits().target)
    measured = np.bincount(pool.test.labels.numpy())
    assert (abs(measured - whole * 500 / 1797) < 1).all()
    assert (measured + pool.class_counts == whole).all()


def test_pixels_are_those_of_the_source():
    pool = digits_pool()
    positions = [int(name.split("/")[1].partition("@")[0]) for name in pool.ids]
    assert positions == sorted(positions)
    source = load_digits()
    read = pool.images.read(torch.arange(len(pool))).numpy()[:, 0]
    assert np.array_equal(np.round(read / 255 * 16), source.images[positions])
    assert pool.labels.tolist() == source.target[positions].tolist()
    assert read.max() == 255


def test_the_split_never_moves():
    pool = digits_pool()
    assert pool.ids[0] == "digits/0@c4912d6aa165cfbc"
    assert pool.test.labels[:10].tolist() == [6, 2, 3, 7, 9, 5, 0, 9, 7, 7]
