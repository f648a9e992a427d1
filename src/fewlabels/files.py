"""Files that are never half written, and files of strangers that are safe to read.

A file is replaced as a whole: written beside its place, flushed to the disk, renamed. A
process that is killed leaves the old file or the new one, and perhaps a leftover that
the next one sweeps away. A file that somebody else wrote is read up to a bound, and
only if it is a regular one: a pipe keeps its reader waiting, a device may never end.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from filelock import FileLock, Timeout

from fewlabels.errors import FewlabelsError, StorageError

LEFTOVER = ".partial"
"""How the name of a file ends while it is written."""


@contextmanager
def open_regular(path: Path, most_bytes: int) -> Iterator[BufferedReader]:
    """Open a regular file of bearable size for reading.

    Args:
        path: The file, or a link to one.
        most_bytes: How many bytes it may have.

    Yields:
        The open file.

    Raises:
        OSError: If it cannot be opened, is larger, or is a pipe, a device or the like;
            its ``strerror`` says so in a few words.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if state.st_size > most_bytes:
            fault = f"{state.st_size:,} bytes; at most {most_bytes:,}"
            raise OSError(errno.EFBIG, fault, str(path))
        yield file


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a regular file of bearable size.

    Args:
        path: The file, or a link to one.
        most_bytes: How many bytes it may have.

    Returns:
        All of them.

    Raises:
        OSError: As in :func:`open_regular`, or if more comes than announced.
    """
    with open_regular(path, most_bytes) as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        fault = f"more bytes than announced; at most {most_bytes:,}"
        raise OSError(errno.EFBIG, fault, str(path))
    return found


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to, or a terminal, too, at once."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Hand out a place to write to; what stands there moves to ``path`` at the end.

    Args:
        path: Where the file shall stand.

    Yields:
        Where to write it.

    Raises:
        StorageError: If the disk is full or the folder cannot be written to.
    """
    partial = path.with_name(path.name + LEFTOVER)
    try:
        yield partial
        _flush(partial)
        partial.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise StorageError(explanation(path, error)) from error
    finally:
        partial.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` into the file at ``path``, wholly or not at all."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, and flush it to the disk.

    A process that is killed, or a full disk, may leave a part of ``content`` there; who
    reads the file later has to notice.

    Args:
        path: The file; made if there is none.
        content: What to add.
    """
    with explained(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def move(source: Path, target: Path) -> None:
    """Give a whole file its final name, durably; what stood there is gone.

    Args:
        source: The file, flushed already.
        target: Its new name, in the same folder.
    """
    with explained(target):
        source.replace(target)
        _flush_folder(target.parent)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of finished files, durably, whole or not at all.

    Args:
        source: The folder; where there is none, nothing happens.
        target: Its copy; what is there already stays as it is.
    """
    if target.exists() or not source.exists():
        return
    unfinished = target.with_name(target.name + LEFTOVER)
    with explained(target):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for file in sorted(source.rglob("*")):  # a folder before what is in it
            place = unfinished / file.relative_to(source)
            if file.is_dir():
                place.mkdir()
            else:
                shutil.copy2(file, place)
                _flush(place)
    move(unfinished, target)


def sweep(paths: Iterable[Path]) -> None:
    """Remove what a killed process left half written of these files."""
    for path in paths:
        path.with_name(path.name + LEFTOVER).unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder where there is none; a :class:`StorageError`, if impossible."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of the system about ``path`` into a sentence.

    Args:
        path: What is written to inside the block.

    Yields:
        Nothing.

    Raises:
        StorageError: If the disk is full or the file cannot be written to.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(explanation(path, error)) from error


@contextmanager
def alone(lock: Path, in_use: FewlabelsError, *, patience: float = 0) -> Iterator[None]:
    """Keep other processes out while the block runs.

    The system lets go of the lock when a process ends, however it ends.

    Args:
        lock: A file that all of them lock, in the folder that they share.
        in_use: Raised if another process is inside.
        patience: How many seconds to wait for it before.

    Yields:
        Nothing.
    """
    held = FileLock(lock)
    with explained(lock.parent):
        try:
            held.acquire(timeout=patience)
        except Timeout as error:
            raise in_use from error
    try:
        yield
    finally:
        held.release()


def explanation(path: Path, error: OSError) -> str:
    """Say in a sentence why ``path`` could not be written and what to do about it."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return (
            f"The disk is full: '{path}' could not be written. Everything written "
            "before is safe; free some space and run the same command again."
        )
    return (
        f"'{path}' could not be written: {error.strerror or error}. Everything written "
        "before is safe; choose another folder or mend this one, and try again."
    )


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make a rename durable; a folder cannot be opened for that on Windows."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
