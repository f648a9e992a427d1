"""What databases raise, turned into sentences."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from fewlabels.errors import (
    DamagedStoreError,
    FewlabelsError,
    StorageError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
)

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
}
_LOCK_NOT_AVAILABLE = "55P03"
_READ_ONLY_OR_FORBIDDEN = {"25006", "42501"}
_OUT_OF_SPACE = {"53100", "53200"}
_PRIMARY = 0xFF


class UnreadableValueError(Exception):
    """A database gave a value that nobody here wrote."""


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Turn an error of the database inside the block into a sentence about a place."""
    try:
        yield
    # The latter in the names of tables, or in a message of SQLite.
    except (UnreadableValueError, UnicodeDecodeError) as error:
        raise damaged(place, str(error)) from error
    except sqlite3.Error as error:
        raise _of_sqlite(place, error) from error
    except NoConnectionError as error:  # others of this process have them all
        raise _busy(place) from error
    except DBAPIError as error:
        cause = error.orig
        if isinstance(cause, sqlite3.Error):
            raise _of_sqlite(place, cause) from error
        raise _of_server(place, error) from error


def damaged(place: str, what: str) -> DamagedStoreError:
    """Return the error that says a store cannot be read; nothing was written."""
    return DamagedStoreError(
        f"The label store '{place}' cannot be read: {what}. Nothing was changed. Move "
        "the file aside together with its -wal and -shm (do not delete them), put the "
        "newest backup in its place, and try again."
    )


def _of_sqlite(place: str, error: sqlite3.Error) -> FewlabelsError:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if code in _BUSY:
        return _busy(place)
    if code in _DAMAGED:
        return damaged(place, str(error))
    if code in _UNWRITABLE:
        return StorageError(
            f"The label store '{place}' could not be written: {error}. Everything "
            "acknowledged before is safe; make the folder writable or free some "
            "space, and try again."
        )
    return _other(place, str(error))


def _of_server(place: str, error: DBAPIError) -> FewlabelsError:
    state = getattr(error.orig, "sqlstate", None)
    said = " ".join(str(error.orig).split())
    if state == _LOCK_NOT_AVAILABLE:
        return _busy(place)
    if state in _READ_ONLY_OR_FORBIDDEN | _OUT_OF_SPACE:
        return StorageError(
            f"The label store '{place}' could not be written: {said}. Everything "
            "acknowledged before is safe; fix this on the server and try again."
        )
    # Such a fault is never that of what was sent: it went away, or has no room.
    if isinstance(error, OperationalError | InterfaceError):
        return StoreAwayError(
            f"The label store '{place}' could not be reached: {said}. Everything "
            "acknowledged before is safe; check that the server is running and the "
            "address is right, and try again."
        )
    return _other(place, said)


def _busy(place: str) -> StoreBusyError:
    return StoreBusyError(
        f"Another writer held the label store '{place}' beyond the waiting time, so "
        "nothing was written. Try again; if this persists, look for a process that "
        "hangs, or wait longer with busy_seconds."
    )


def _other(place: str, said: str) -> StoreError:
    return StoreError(
        f"The label store '{place}' refused the work: {said}. Nothing of it was "
        "written, and everything acknowledged before is safe."
    )
