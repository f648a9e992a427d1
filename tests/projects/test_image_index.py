"""Images are indexed in place: read once, named by content, copies seen."""

import os

import numpy as np
import pytest
from PIL import Image
from tests.data.pictures import save

from fewlabels.data.decode import inspect
from fewlabels.errors import DataError
from fewlabels.progress import reporting
from fewlabels.projects import image_index
from fewlabels.projects.image_index import UNSETTLED, image_file, scan

LONG_AGO = 1_600_000_000


def settle(folder):
    """Make all files old, as they are in life."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))


def groups_of(index):
    """Return the groups of more than one file: copies and near duplicates."""
    members = {}
    for file in index.files:
        members.setdefault(index.representative[file.digest], []).append(file)
    return tuple(tuple(group) for group in members.values() if len(group) > 1)


def known(index):
    return {file.path: file for file in index.files}


@pytest.fixture
def folder(tmp_path):
    for number in range(5):
        save(tmp_path / f"{number}.png", number, height=8 + number, channels=3)
    save(tmp_path / "deep" / "10.jpg", 10, width=40)
    settle(tmp_path)
    return tmp_path


def test_every_image_is_known_by_content(folder):
    index = scan(folder)
    names = [f"{number}.png" for number in range(5)] + ["deep/10.jpg"]
    assert [file.path for file in index.files] == names
    for file in index.files:
        path = folder / file.path
        assert image_file(file, folder) == inspect(file.path, path)
        assert (file.size, file.mtime_ns) == (path.stat().st_size, LONG_AGO * 10**9)
    assert index.num_read == 6
    assert index.unreadable == ()
    assert set(index.representative) == set(index.representative.values())


def test_what_is_known_is_not_read_again(folder, monkeypatch):
    first = scan(folder)
    save(folder / "new.png", 77)
    read = []
    whole = image_index.fingerprint_file
    monkeypatch.setattr(
        image_index,
        "fingerprint_file",
        lambda name, path: read.append(name) or whole(name, path),
    )
    again = scan(folder, known(first))
    assert read == ["new.png"]
    assert again.num_read == 1
    assert known(first).items() <= known(again).items()


@pytest.mark.parametrize("what", ["size", "mtime_ns", "details"])
def test_a_file_is_read_again_if_anything_differs(folder, what):
    from dataclasses import replace

    first = known(scan(folder))
    stale_details = {"fingerprint": "b2YgYW5vdGhlciB2ZXJzaW9u"}  # of another version
    other = {"size": 1, "mtime_ns": 1, "details": stale_details}[what]
    stale = {**first, "0.png": replace(first["0.png"], **{what: other})}
    again = scan(folder, stale)
    assert again.num_read == 1
    assert known(again) == first


def test_a_file_that_just_changed_is_not_trusted(folder):
    save(folder / "0.png", 50)
    first = scan(folder)
    assert known(first)["0.png"].mtime_ns == UNSETTLED
    assert scan(folder, known(first)).num_read == 1


def test_unreadable_files_are_listed_and_not_fatal(folder):
    (folder / "text.png").write_text("no image")
    (folder / "none.jpg").touch()
    (folder / "photo.heic").write_bytes(b"x")
    index = scan(folder)
    assert len(index.files) == 6
    assert [file.name for file in index.unreadable] == [
        "none.jpg",
        "photo.heic",
        "text.png",
    ]
    assert index.unreadable[0].reason == "empty: 0 bytes"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        scan(tmp_path / "nowhere")


def test_a_folder_can_be_passed_over(folder):
    names = [file.path for file in scan(folder, without="deep").files]
    assert names == [f"{number}.png" for number in range(5)]


def test_copies_share_a_group(folder):
    (folder / "copy.png").write_bytes((folder / "3.png").read_bytes())
    groups = groups_of(scan(folder))
    assert [[file.path for file in group] for group in groups] == [
        ["3.png", "copy.png"]
    ]


def test_reading_is_reported_as_it_goes(folder, monkeypatch):
    monkeypatch.setattr(image_index, "_CHUNK", 4)
    seen = []

    class Listener:
        def start(self, task, total, done):
            seen.append((task, total))

        def advance(self, handle, amount):
            seen.append(amount)

        def finish(self, handle):
            pass

    with reporting(Listener()):
        index = scan(folder)
    assert seen == [("Reading images", 6)] + [1] * 6
    assert len(index.files) == 6  # also those of the second chunk


def test_content_changed_within_one_tick_of_the_clock_is_seen(tmp_path):
    pixels = np.zeros((8, 8), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.bmp")
    now = (tmp_path / "a.bmp").stat().st_mtime_ns
    first = scan(tmp_path)
    Image.fromarray(pixels + 1).save(tmp_path / "a.bmp")
    os.utime(tmp_path / "a.bmp", ns=(now, now))
    again = scan(tmp_path, known(first))
    assert again.files[0].digest != first.files[0].digest
