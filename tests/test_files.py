"""Files are replaced whole, read within bounds, and damage to records is noticed."""

import errno
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from fewlabels import files
from fewlabels.errors import ProjectError, StorageError
from fewlabels.files import (
    add_checksum,
    hold_lock,
    make_folder,
    remove_leftovers,
    replace_file,
    replace_text,
    verify_checksum,
)

MAPS = Path("/proc/self/maps")
ENTRY = {"schema_version": 3, "ids": ["a.png@0f", 'ü"}\u2028'], "value": 0.1}
FORMS = {
    "a line": json.dumps(ENTRY, ensure_ascii=False),
    "a line with its end": json.dumps(ENTRY) + "\n",
    "a file": json.dumps(ENTRY, indent=2) + "\n",
}


def test_a_file_is_replaced_as_a_whole(tmp_path):
    file = tmp_path / "a.txt"
    replace_text(file, "old\n")
    replace_text(file, "new – ü\n")
    assert file.read_bytes() == "new – ü\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "The disk is full: .*a.txt' could not be written. Everything"),
        (errno.EROFS, "^Read-only file system: .* could not be written"),
    ],
)
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, code, message):
    file = tmp_path / "a.txt"
    replace_text(file, "old\n")

    def fail(handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=message):
        replace_text(file, "new\n")
    assert file.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_inside_the_block_leaves_the_old_file(tmp_path):
    file = tmp_path / "a.txt"
    replace_text(file, "old\n")

    def fail_halfway():
        with replace_file(file) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert file.read_text() == "old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_only_leftovers_of_the_named_files_are_removed(tmp_path):
    ours, other = files._beside(tmp_path / "a.txt"), files._beside(tmp_path / "c.txt")
    kept = ["a.txt", "a.txt.partial", ".a.txt.partial", ".a.txt.0123.partial"]
    for name in (ours.name, other.name, *kept):
        (tmp_path / name).write_text("x")
    link = files._beside(tmp_path / "a.txt")
    link.symlink_to(tmp_path / "a.txt")
    folder = files._beside(tmp_path / "b")
    (folder / "inner").mkdir(parents=True)
    remove_leftovers(
        [tmp_path / "a.txt", tmp_path / "b", tmp_path / "nowhere" / "a.txt"]
    )
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*kept, other.name, link.name}


def test_what_may_still_be_written_is_not_removed(tmp_path):
    alive, killed = (files._beside(tmp_path / "a.txt") for _ in range(2))
    alive.touch()
    killed.touch()
    os.utime(killed, (0, 0))
    replace_text(tmp_path / "a.txt", "new\n")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", alive.name}


def test_no_name_of_somebody_else_is_written_to(tmp_path):
    file, theirs = tmp_path / "a.txt", tmp_path / "a.txt.partial"
    theirs.write_text("theirs")
    replace_text(file, "ours\n")
    theirs.unlink()
    (tmp_path / "precious").write_text("precious")
    theirs.symlink_to(tmp_path / "precious")
    replace_text(file, "ours again\n")
    assert theirs.is_symlink()
    assert (tmp_path / "precious").read_text() == "precious"
    assert file.read_text() == "ours again\n"


def test_a_name_that_is_taken_by_a_link_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("precious")
    monkeypatch.setattr(files, "token_hex", lambda size: "0" * 2 * size)
    files._beside(tmp_path / "a.txt").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match=r"^File exists: .* could not be written"):
        replace_text(tmp_path / "a.txt", "ours\n")
    assert (tmp_path / "precious").read_text() == "precious"
    assert files._beside(tmp_path / "a.txt").is_symlink()


@pytest.mark.parametrize("knows_how", [True, False])
@pytest.mark.parametrize("before", ["nothing", "an empty folder", "a folder"])
def test_a_folder_takes_the_place_of_another(tmp_path, monkeypatch, before, knows_how):
    if not knows_how:
        monkeypatch.setattr(files, "_swap", lambda one, other: False)
    target = tmp_path / "target"
    if before != "nothing":
        target.mkdir()
    if before == "a folder":
        (target / "old").touch()
    with files.staging_folder(target) as partial:
        (partial / "new").touch()
        files.exchange(partial, target)
        assert partial.exists() == (before == "a folder")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_linux_exchanges_folders_in_one_step(tmp_path):
    if sys.platform != "linux":
        pytest.skip("elsewhere it takes two")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert files._swap(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one" / "other").exists()
    assert (tmp_path / "other" / "one").exists()
    assert not files._swap(tmp_path / "one", tmp_path / "nothing")


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=r"^Not a directory: .* could not"):
        make_folder(tmp_path / "file" / "below")


def test_only_one_holds_the_lock(tmp_path):
    in_use = ProjectError("in use")
    lock = tmp_path / ".lock"
    with hold_lock(lock, in_use):
        with (
            pytest.raises(ProjectError, match="in use") as raised,
            hold_lock(lock, in_use),
        ):
            pass
        assert raised.value is in_use
    with hold_lock(lock, in_use):  # the first has let go
        assert lock.exists()


def test_a_lock_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(StorageError, match="file' could not be written"),
        hold_lock(tmp_path / "file" / ".lock", ProjectError("in use")),
    ):
        pass


def test_a_folder_is_copied_whole_and_flushed_before_it_has_its_name(
    tmp_path, monkeypatch
):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    (source / "model").write_text("weights")
    (source / "inner" / "state").write_text("7")
    flushed, flush = [], files._flush

    def noted(path):
        if path.is_file():
            assert not target.exists()
            flushed.append(path.name)
        flush(path)

    monkeypatch.setattr(files, "_flush", noted)
    files.copy_folder(source, target)
    assert sorted(flushed) == ["model", "state"]
    assert sorted(path.name for path in target.rglob("*")) == [
        "inner",
        "model",
        "state",
    ]
    assert (target / "inner" / "state").read_text() == "7"
    assert len(list(tmp_path.iterdir())) == 2
    (source / "model").write_text("others")
    files.copy_folder(source, target)
    files.copy_folder(tmp_path / "nothing", tmp_path / "copy")
    assert (target / "model").read_text() == "weights"  # what is there stays
    assert not (tmp_path / "copy").exists()


def test_a_disk_that_fills_while_a_folder_is_copied_is_reported_as_such(
    tmp_path, monkeypatch
):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")

    def fail(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copy2", fail)
    with pytest.raises(StorageError, match=r"^The disk is full: '[^']*b' could not"):
        files.copy_folder(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_regular_files_are_read_up_to_a_bound(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(file)
    assert files.read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="5 bytes; at most 4"):
        files.read_regular(file, 4)


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are files on POSIX")
def test_what_never_ends_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(OSError, match="not a regular file"):
            files.read_regular(tmp_path / name, 2**20)
    with pytest.raises(IsADirectoryError):
        files.read_regular(tmp_path, 2**20)


@pytest.mark.skipif(not MAPS.exists(), reason="needs a file of the kernel")
def test_files_that_announce_nothing_are_bounded_too():
    assert MAPS.stat().st_size == 0
    with pytest.raises(OSError, match="more bytes than announced; at most 10"):
        files.read_regular(MAPS, 10)


@pytest.mark.parametrize("form", FORMS)
def test_what_has_a_checksum_is_read_and_stays_json(form):
    text = FORMS[form]
    whole = add_checksum(text)
    assert json.loads(whole).keys() == {*ENTRY, "checksum"}
    assert next(iter(json.loads(whole))) == "schema_version"
    assert whole[-1:] == text[-1:]
    for content in (whole, whole.encode()):
        assert json.loads(verify_checksum(content)) == ENTRY


def test_what_has_no_checksum_is_read_as_it_is():
    text = json.dumps(ENTRY)
    assert verify_checksum(text) == text


@pytest.mark.parametrize("form", FORMS)
def test_no_single_byte_can_change_what_is_read(form):
    """Each bit of each byte, and each byte left out."""
    whole = add_checksum(FORMS[form]).encode()
    for position in range(len(whole)):
        mutants = [whole[:position] + whole[position + 1 :]]
        for bit in range(8):
            flipped = bytes([whole[position] ^ 1 << bit])
            mutants.append(whole[:position] + flipped + whole[position + 1 :])
        for mutant in mutants:
            try:
                entry = json.loads(verify_checksum(mutant))
            except ValueError:
                continue
            entry.pop("checksum", None)
            assert {name: entry.get(name) for name in ENTRY} == ENTRY
