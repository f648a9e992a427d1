"""Files that are never half written, and untrusted files that are safe to read.

A file is replaced as a whole: written beside its place, flushed to the disk, renamed. A
process that is killed leaves the old file or the new one, and perhaps a leftover. Its
name, ``.NAME.0123456789abcdef.partial``, is drawn by chance and made where there is
nothing, so that it is never somebody else's file and never a link to one. Who writes
the same file a day later, or owns the folder, sweeps it away.

A file that somebody else wrote is read up to a bound, and only if it is a regular one:
a pipe keeps its reader waiting, a device may never end.
"""

import ctypes
import errno
import json
import math
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BufferedReader
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

from fewlabels.errors import FewlabelsError, ForeignFolderError, StorageError

_OURS = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial", re.DOTALL)
_DAY = 24 * 3600.0
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def open_regular(path: Path, most_bytes: int) -> Iterator[BufferedReader]:
    """Hand out a regular file, or what a link leads to, open for reading.

    One that is larger, a pipe, a device or the like raises an :class:`OSError` whose
    ``strerror`` says so in a few words.

    Yields:
        The open file.
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
    """Return the bytes of a regular file, which :func:`open_regular` opens."""
    with open_regular(path, most_bytes) as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        fault = f"more bytes than announced; at most {most_bytes:,}"
        raise OSError(errno.EFBIG, fault, str(path))
    return found


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says; a ValueError where it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to, or a terminal, too, at once."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Hand out an empty file to write to, which moves to ``path`` at the end.

    Yields:
        Where it is. A full disk or a folder that cannot be written to is a
        :class:`StorageError`.
    """
    partial = _beside(path)
    with wrap_os_errors(path):
        remove_leftovers([path], idle=_DAY)
        partial.touch(exist_ok=False)
        try:
            yield partial
            _flush(partial)
            partial.replace(path)
            _flush_folder(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Put ``text`` into the file at ``path``, wholly or not at all."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, made if there is none, and flush it to the disk.

    A process that is killed, or a full disk, may leave a part of ``content`` there; who
    reads the file later has to notice.
    """
    with wrap_os_errors(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def move(source: Path, target: Path) -> None:
    """Give a flushed file its final name, durably; what stood there is gone."""
    with wrap_os_errors(target):
        source.replace(target)
        _flush_folder(target.parent)


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Hand out a new folder beside ``folder``, which it may become at the end.

    By :func:`move` or :func:`exchange`; what then stands there is removed.

    Yields:
        The new folder.
    """
    partial = _beside(folder)
    with wrap_os_errors(folder):
        remove_leftovers([folder], idle=_DAY)
        partial.mkdir(parents=True)
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def exchange(folder: Path, target: Path) -> None:
    """Put a finished folder, flushed already, in the place of another one beside it.

    The other one, which may be missing or empty, gets its name in return. Linux does so
    in one step. Elsewhere there is nothing in the place for a moment, never a mixture
    of both.
    """
    with wrap_os_errors(target):
        if not target.exists() or not any(target.iterdir()):
            folder.replace(target)
        elif not _exchanged(folder, target):
            aside = _beside(target)
            target.replace(aside)
            folder.replace(target)
            aside.replace(folder)
        _flush_folder(target.parent)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of finished files, if there is one, durably, whole or not at all.

    What is there already stays as it is.
    """
    if target.exists() or not source.exists():
        return
    with staging_folder(target) as unfinished:
        for file in sorted(source.rglob("*")):  # a folder before what is in it
            place = unfinished / file.relative_to(source)
            if file.is_dir():
                place.mkdir()
            else:
                shutil.copy2(file, place)
                _flush(place)
        move(unfinished, target)


def unknown_entries(folder: Path, *known: str) -> list[str]:
    """Return what else a folder holds, but for what killed processes left, sorted."""
    names = {path.name for path in folder.glob("*")}.difference(known)
    return sorted(name for name in names if not _OURS.fullmatch(name))


def check_empty_folder(folder: Path, kind: str, *known: str) -> None:
    """Raise a :class:`ForeignFolderError` unless a folder is new or empty.

    What is known there, and what killed processes left, does not count.
    """
    if folder.exists() and not folder.is_dir():
        raise ForeignFolderError(
            f"'{folder}' is a file; a {kind} needs a folder. Choose another name."
        )
    found = unknown_entries(folder, *known)
    if found:
        shown = ", ".join(f"'{name}'" for name in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise ForeignFolderError(
            f"'{folder}' is not empty and does not contain a {kind} (it contains "
            f"{shown}{more}); nothing was touched. Choose an empty or new folder."
        )


def remove_leftovers(paths: Iterable[Path], *, idle: float = 0) -> None:
    """Remove what killed processes left half written of these files and folders.

    What was changed within so many idle seconds stays: its process may be alive.
    """
    names: dict[Path, set[str]] = {}
    for path in paths:
        names.setdefault(path.parent, set()).add(path.name)
    for folder, wanted in names.items():
        for left in folder.glob(".*.partial"):
            ours = _OURS.fullmatch(left.name)
            if ours and ours[1] in wanted:
                with suppress(OSError):  # gone by now, or another user's
                    _remove(left, idle)


def make_folder(folder: Path) -> None:
    """Create a folder where there is none; a :class:`StorageError`, if impossible."""
    with wrap_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def wrap_os_errors(path: Path) -> Iterator[None]:
    """Turn an error of the system about ``path`` into a :class:`StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(storage_message(path, error)) from error


@contextmanager
def hold_lock(
    lock: Path, in_use: FewlabelsError, *, timeout: float = 0
) -> Iterator[None]:
    """Keep others out of a folder, by a file that all of them lock, during the block.

    The system lets go of the lock when a process ends, however it ends. If another one
    is still inside after ``timeout`` seconds, ``in_use`` is raised; -1 waits
    forever.

    Yields:
        Nothing.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock)
    with wrap_os_errors(lock.parent):
        try:
            held.acquire(timeout=timeout)
        except Timeout as error:
            raise in_use from error
    try:
        yield
    finally:
        held.release()


def storage_message(path: Path, error: OSError) -> str:
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


def _beside(path: Path) -> Path:
    """Return a name beside ``path`` that nobody else has."""
    return path.with_name(f".{path.name}.{token_hex(8)}.partial")


def _remove(left: Path, idle: float) -> None:
    """Remove a leftover that is not a link and has been idle for so long."""
    if left.is_symlink() or (idle and time.time() - left.stat().st_mtime < idle):
        return
    if left.is_dir():
        shutil.rmtree(left)
    else:
        left.unlink()


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step; whether the system could."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    return bool(rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)


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


FIELD = "checksum"
"""The last field of an object with a checksum."""

_LENGTH = 16
_LONGEST = 80  # characters that a seal takes, with some blanks
_END = re.compile(rf',\s*"{FIELD}": "([0-9a-f]{{{_LENGTH}}})"\s*}}\s*$', re.ASCII)


def add_checksum(text: str) -> str:
    """Return the text of a JSON object, indented or not, with a checksum at its end.

    Example:
        >>> add_checksum('{"step": 0}')
        '{"step": 0, "checksum": "566b58ce7230c2ca"}'
    """
    inner = text.rstrip()[:-1].rstrip()
    is_indented = "\n" in inner
    before, after = (",\n  ", "\n}") if is_indented else (", ", "}")
    ending = text[len(text.rstrip()) :]
    return f'{inner}{before}"{FIELD}": "{_hash(inner)}"{after}{ending}'


def verify_checksum(content: str | bytes) -> str:
    """Return a JSON object without its checksum, if it has one.

    One that is not the object that was sealed raises :class:`ValueError`.
    """
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    end = _END.search(text, max(0, len(text) - _LONGEST))
    if end is None:
        if f'"{FIELD}"' in text[-_LONGEST:]:
            raise ValueError("its checksum cannot be read")
        return text
    if _hash(text[: end.start()]) != end[1]:
        raise ValueError("its checksum does not fit what it says")
    return text[: end.start()] + "}"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_LENGTH]


def append_entry(
    path: Path, entry: Mapping[str, Any], *, durable: bool = False
) -> None:
    """Add a line of strict JSON to a file; a number that is not finite becomes null.

    Args:
        path: The file; made with its folder where there is none.
        entry: What the line says.
        durable: The line decides something. Wait until it is on the disk, so that it
            outlives a machine that loses power, and not only a process that is killed;
            and give it a checksum.

    Raises:
        StorageError: If the disk is full or the file cannot be written to.
    """
    line = json.dumps({name: _strict(value) for name, value in entry.items()})
    make_folder(path.parent)
    try:
        with path.open("ab+") as file:
            _cut_torn_end(file)
            file.write((add_checksum(line) if durable else line).encode() + b"\n")
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(storage_message(path, error)) from error


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, without a torn one at its end.

    Args:
        path: The file; where there is none, there are no lines.

    Returns:
        What each line says. One whose checksum does not fit is a :class:`ValueError`.
    """
    if not path.exists():
        return []
    *whole, _ = path.read_bytes().split(b"\n")
    return [parse_json(verify_checksum(line)) for line in whole]


def _strict(value: Any) -> Any:
    """Return None for NaN and infinity, which JSON does not know."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut_torn_end(file: BinaryIO) -> None:
    """Cut off what follows the last end of a line."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return
    file.seek(size - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
