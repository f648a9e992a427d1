"""What can go wrong around a store is said in a sentence, and nothing is lost."""

import os
import sqlite3
import sys
import threading
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.projects.store.toy import current, fill, label

from fewlabels.errors import (
    DamagedStoreError,
    FewlabelsError,
    NetworkDriveError,
    StorageError,
    StoreBusyError,
    StoreError,
    UsageError,
)
from fewlabels.projects.store import Store, database
from fewlabels.projects.store.database import check_drive, store_url, system_mounts
from fewlabels.projects.store.schema import renew_checksums

MOUNTS = [
    (Path("/"), "ext4"),
    (Path("/far"), "nfs4"),
    (Path("/far/near"), "ext4"),
    (Path("/ssh"), "fuse.sshfs"),
    (Path("/over"), "ext4"),
    (Path("/over"), "cifs"),
]


@pytest.fixture
def filled(tmp_path):
    """A file with a label in it, nobody working there."""
    path = tmp_path / "labels.sqlite"
    with Store.open(path) as store:
        item = fill(store)[0]
        store.append([label(item, 1)])
    return path


@pytest.fixture
def mounts(monkeypatch):
    """The list of mounted file systems, for tests to fill."""
    listed = []
    monkeypatch.setattr(database, "system_mounts", lambda: listed)
    return listed


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM schema_version",
        "INSERT INTO schema_version VALUES (1)",
        "UPDATE schema_version SET version = NULL",
        "UPDATE schema_version SET version = 'one'",
        "UPDATE schema_version SET version = -1",
    ],
)
def test_a_store_of_no_version_is_damaged(filled, statement):
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute(statement)
    content = filled.read_bytes()
    with pytest.raises(DamagedStoreError, match="its table schema_version holds"):
        Store.open(filled)
    assert filled.read_bytes() == content


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE items SET details = '{'", "a value is not JSON: '{'"),
        (f"UPDATE items SET details = '{'[' * 9999}'", "a value is not JSON"),
        ("UPDATE items SET details = x'00ff'", "a value is not JSON"),
    ],
)
def test_a_value_that_nobody_wrote_is_damage(filled, statement, message):
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(DamagedStoreError, match="checksum of 'items' does not fit"):
        Store.open(filled)
    engine = create_engine(f"sqlite:///{filled}")
    with engine.begin() as connection:
        renew_checksums(connection)  # as if it had been damaged before it had any
    engine.dispose()
    with Store.open(filled) as store, pytest.raises(DamagedStoreError, match=message):
        list(store.items())


# ------------------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/far/labels.sqlite", "nfs4"),
        ("/far/deep/labels.sqlite", "nfs4"),
        ("/ssh/x", "fuse.sshfs"),
        ("/over/x", "cifs"),
        ("/far/near/labels.sqlite", None),
        ("/farther/labels.sqlite", None),
        ("/labels.sqlite", None),
    ],
)
def test_a_network_drive_is_told_by_its_mount(path, kind, mounts):
    mounts[:] = MOUNTS
    if kind is None:
        check_drive(Path(path))
    else:
        with pytest.raises(NetworkDriveError, match=rf"network drive \({kind}\)"):
            check_drive(Path(path))


def test_a_network_drive_is_refused_before_anything_is_written(tmp_path, mounts):
    mounts.append((tmp_path.resolve(), "cifs"))
    with pytest.raises(NetworkDriveError, match="PostgreSQL"):
        Store.open(tmp_path / "labels.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_network_drive_is_seen_through(tmp_path, mounts):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mounts.append(((tmp_path / "far").resolve(), "nfs"))
    with pytest.raises(NetworkDriveError):
        check_drive(tmp_path / "link" / "labels.sqlite")


def test_the_system_lists_its_mounts(monkeypatch, tmp_path):
    lines = "host:/x /with\\040blank nfs4 rw 0 0\n/dev/sda / ext4 rw 0 0\n"
    (tmp_path / "mounts").write_text(lines)
    monkeypatch.setattr(
        "fewlabels.projects.store.database._MOUNTS", tmp_path / "mounts"
    )
    assert system_mounts() == [
        (Path("/with blank"), "nfs4"),
        (Path("/"), "ext4"),
    ]
    monkeypatch.setattr("fewlabels.projects.store.database._MOUNTS", tmp_path / "none")
    assert system_mounts() == []


def test_addresses():
    assert store_url("x.sqlite").database == str(Path("x.sqlite").absolute())
    assert store_url("sqlite:////a/b").database == "/a/b"
    assert store_url("postgresql://u@h/d").drivername == "postgresql+psycopg"
    for wrong in ("mysql://u@h/d", "sqlite://", "http://[", "sqlite:///:memory:"):
        with pytest.raises(UsageError, match="is not a place for a label store"):
            store_url(wrong)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://ann:sesame@127.0.0.1:9/labels", "could not be reached"),
        ("postgresql://127.0.0.1:9/l?user=ann&password=sesame", "could not be reached"),
        ("postgresql://127.0.0.1:9/l?passwort=sesame", "refused the work"),
        (
            "mysql://127.0.0.1:9/labels?password=sesame",
            "is not a place for a label store",
        ),
        (
            "postgresql://ann:sesame@127.0.0.1:port/labels",
            "'postgresql' is not a place",
        ),
    ],
)
def test_no_message_tells_the_password(address, message):
    with pytest.raises(FewlabelsError, match=message) as caught:
        Store.open(address)
    assert "sesame" not in str(caught.value)


def test_without_the_driver_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"fewlabels\[postgres\]"):
        Store.open("postgresql://127.0.0.1/labels")


def test_a_store_that_should_be_there_and_is_not(place, tmp_path):
    with pytest.raises(StoreError, match="There is no label store"):
        Store.open(place, create=False)
    with pytest.raises(StoreError, match="There is no folder"):
        Store.open(tmp_path / "nowhere" / "labels.sqlite")


# -------------------------------------------------------------------------- busy


def test_a_writer_that_does_not_end_makes_others_give_up(store, place):
    item = fill(store)[0]
    with Store.open(place, busy_seconds=0.2) as other:
        with (
            store.write_connection(),
            pytest.raises(
                StoreBusyError, match=r"try again\. Nothing of this call was"
            ),
        ):
            other.append([label(item)])
        assert other.labels() == ()
        other.append([label(item)])
    assert current(store) == {(item, "ann"): 0}


def test_readers_do_not_wait_for_the_writer(store, place):
    item = fill(store)[0]
    with Store.open(place, busy_seconds=0.2) as other, store.write_connection() as own:
        own.execute(text("DELETE FROM leases"))
        assert other.labels() == ()
        assert item not in {stored.item for stored in other.events()}


def test_many_processes_may_open_a_new_store_at_once(place):
    fork = get_context("fork")
    opening = [fork.Process(target=Store.open, args=(place,)) for _ in range(4)]
    for one in opening:
        one.start()
    for one in opening:
        one.join(120)
    assert [one.exitcode for one in opening] == [0] * 4


def test_opening_waits_for_somebody_who_is_making_the_file(tmp_path):
    """SQLite alone gives up at once when the way of writing is to be changed."""
    path = tmp_path / "labels.sqlite"
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN EXCLUSIVE")
    maker.execute("CREATE TABLE something (at_all)")
    release = threading.Timer(0.5, lambda: maker.execute("COMMIT"))
    release.start()
    with Store.open(path) as store:
        assert store.labels() == ()
    release.join()
    maker.close()


def test_opening_does_not_wait_for_ever(tmp_path):
    path = tmp_path / "labels.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as maker:
        maker.execute("BEGIN EXCLUSIVE")
        maker.execute("CREATE TABLE something (at_all)")
        with pytest.raises(StoreBusyError):
            Store.open(path, busy_seconds=0.1)


# ----------------------------------------------------------------------- damage


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "labels.sqlite"
    path.write_text("my shopping list, " * 100)
    with pytest.raises(DamagedStoreError, match="newest backup"):
        Store.open(path)
    assert path.read_text() == "my shopping list, " * 100


@pytest.mark.parametrize("page", range(1, 12))
def test_a_damaged_file_is_noticed_before_anything_is_written(filled, page):
    content = bytearray(filled.read_bytes())
    begin = page * 4096
    content[begin : begin + 2048] = b"\x5a" * 2048
    filled.write_bytes(content)
    with pytest.raises(DamagedStoreError, match="Nothing was changed"):
        Store.open(filled)
    assert filled.read_bytes() == content


def test_a_file_that_was_cut_off_is_noticed(filled):
    content = filled.read_bytes()
    filled.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedStoreError):
        Store.open(filled)
    filled.write_bytes(b"")
    with pytest.raises(StoreError, match="There is no label store"):
        Store.open(filled, create=False)


def test_somebody_elses_database_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE events (what)")
    with pytest.raises(DamagedStoreError, match="'events' that fewlabels did not make"):
        Store.open(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [
            ("events",)
        ]


NOBODY = 65534


def heard(path):
    """Read a store, and write, as somebody who may not; return what comes of it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            with Store.open(path) as store:
                (known,) = store.labels()
                os.write(theirs, b"One label. ")
                store.append([label(known.item, 0)])
        except StorageError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        os.waitpid(child, 0)
        return said.read()


@pytest.mark.parametrize(("mode", "reads"), [(0o555, True), (0o000, False)])
def test_a_folder_that_cannot_be_written_to_can_be_read(filled, mode, reads):
    folder = filled.parent
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.getuid() and above.name.startswith(
            ("pytest", "popen")
        ):
            above.chmod(0o755)
    before = filled.read_bytes()
    folder.chmod(mode)
    try:
        assert heard(filled).startswith("One label. ") == reads
        for path in (filled, folder / "new.sqlite"):
            assert "could not be written" in heard(path)
    finally:
        folder.chmod(0o755)
    assert filled.read_bytes() == before
    with Store.open(filled) as store:
        assert len(store.labels()) == 1


def test_a_full_disk_is_said_and_loses_nothing(filled):
    with Store.open(filled) as store:
        items = [item.id for item in store.items()]
        with store.read_connection() as connection:
            pages = connection.execute(text("PRAGMA page_count")).scalar()
            connection.execute(text(f"PRAGMA max_page_count={pages}"))
        big = {"note": "x" * 100_000}
        with pytest.raises(StorageError, match="acknowledged before is safe"):
            store.append([label(items[1], payload=big)])
        assert current(store) == {(items[0], "ann"): 1}
