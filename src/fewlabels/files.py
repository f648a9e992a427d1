"""Files on the disk: untrusted ones read safely, own ones never half written.

*Reading.* A file that somebody else wrote is read up to a limit, and only if it is a
regular file: a pipe keeps its reader waiting, a device may never end.

*Writing.* A file is replaced as a whole: written beside its place, flushed to the disk,
renamed. A process that is killed leaves the old file or the new one, and perhaps a
leftover. The name of a leftover, ``.NAME.0123456789abcdef.partial``, is random and
created exclusively, so that it is never somebody else's file or a link to one. A day
later the next writer of the same file removes it, the owner of the folder at any time.

*Records.* JSON objects may end with a checksum, and files of JSON lines may end with a
line that was cut off while it was written.
"""

import ctypes
import errno
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b, sha256
from io import BufferedReader
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any

from fewlabels.errors import FewlabelsError, ForeignFolderError, StorageError

FIELD = "checksum"
"""Name of the last field of an object with a checksum."""

_LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial", re.DOTALL)
_DAY = 24 * 3600.0
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux
_CHECKSUM = re.compile(rf',\s*"{FIELD}": "([0-9a-f]{{16}})"\s*}}\s*$', re.ASCII)
_CHECKSUM_CHARACTERS = 80  # at most, with some blanks


@contextmanager
def open_regular(path: Path, most_bytes: int) -> Iterator[BufferedReader]:
    """Open a regular file, or what a link leads to, for reading.

    A larger file, a pipe, a device and the like raise an :class:`OSError` whose
    ``strerror`` says so in a few words.

    Yields:
        The open file.
    """

    def without_waiting(path: str, flags: int) -> int:  # for the writer of a pipe
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    with open(path, "rb", opener=without_waiting) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if state.st_size > most_bytes:
            fault = f"{state.st_size:,} bytes; at most {most_bytes:,}"
            raise OSError(errno.EFBIG, fault, str(path))
        yield file


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a regular file; see :func:`open_regular`."""
    with open_regular(path, most_bytes) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        fault = f"more bytes than announced; at most {most_bytes:,}"
        raise OSError(errno.EFBIG, fault, str(path))
    return content


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError if it is invalid or too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@contextmanager
def wrap_os_errors(path: Path) -> Iterator[None]:
    """Turn an :class:`OSError` while ``path`` is written into a StorageError."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        reason = "The disk is full" if is_full else error.strerror or error
        raise StorageError(
            f"{reason}: '{path}' could not be written. Everything written before is "
            "safe; free some space or choose another folder, and run it again."
        ) from error


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Create an empty file to write to, which moves to ``path`` at the end.

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
            _flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write ``text`` to the file at ``path``, wholly or not at all."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, which is created if missing, and flush it to the disk.

    A process that is killed, or a full disk, may leave a part of ``content`` there;
    later readers have to notice.
    """
    with wrap_os_errors(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Create a folder where there is none; a :class:`StorageError`, if impossible."""
    with wrap_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)


def move(source: Path, target: Path) -> None:
    """Rename a flushed file or folder durably; it replaces a file at ``target``."""
    with wrap_os_errors(target):
        source.replace(target)
        _flush(target.parent)


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Create a new folder beside ``folder``, and remove what is in its place later.

    To keep it, call :func:`move` or :func:`exchange` inside the block.

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
    """Swap a finished, flushed folder with another beside it, possibly none or empty.

    Linux does so in one step. Elsewhere there is nothing at ``target`` for a moment,
    never a mixture of both.
    """
    with wrap_os_errors(target):
        if not target.exists() or not any(target.iterdir()):
            folder.replace(target)
        elif not _swap(folder, target):
            aside = _beside(target)
            target.replace(aside)
            folder.replace(target)
            aside.replace(folder)
        _flush(target.parent)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of finished files, if there is one, durably, whole or not at all.

    An existing ``target`` stays as it is.
    """
    if target.exists() or not source.exists():
        return
    with staging_folder(target) as partial:
        for file in sorted(source.rglob("*")):  # a folder before what is in it
            copy = partial / file.relative_to(source)
            if file.is_dir():
                copy.mkdir()
            else:
                shutil.copy2(file, copy)
                _flush(copy)
        move(partial, target)


def unknown_entries(folder: Path, *known: str) -> list[str]:
    """Return the other entries of a folder, sorted, without leftovers."""
    names = {path.name for path in folder.glob("*")}.difference(known)
    return sorted(name for name in names if not _LEFTOVER.fullmatch(name))


def check_empty_folder(folder: Path, kind: str, *known: str) -> None:
    """Raise a :class:`ForeignFolderError` unless a folder is new or empty.

    Known entries and leftovers do not count.
    """
    if folder.exists() and not folder.is_dir():
        raise ForeignFolderError(f"'{folder}' is a file; a {kind} needs a folder.")
    if entries := unknown_entries(folder, *known):
        raise ForeignFolderError(
            f"'{folder}' does not contain a {kind} (it contains '{entries[0]}'). "
            "Choose an empty or new folder."
        )


def remove_leftovers(paths: Iterable[Path], *, idle: float = 0) -> None:
    """Remove what killed processes left half written of these files and folders.

    Leftovers that changed within the last ``idle`` seconds stay: their process may be
    alive.
    """
    wanted = set(paths)
    for folder in {path.parent for path in wanted}:
        for left in folder.glob(".*.partial"):
            match = _LEFTOVER.fullmatch(left.name)
            if match is None or folder / match[1] not in wanted:
                continue
            with suppress(OSError):  # gone by now, or another user's
                is_new = idle and time.time() - left.stat().st_mtime < idle
                if left.is_symlink() or is_new:
                    continue
                if left.is_dir():
                    shutil.rmtree(left)
                else:
                    left.unlink()


@contextmanager
def hold_lock(
    lock: Path, in_use: FewlabelsError, *, timeout: float = 0
) -> Iterator[None]:
    """Keep other processes out of a folder, by a file that all of them lock.

    The system releases the lock when a process ends, however it ends. If another one
    still holds it after ``timeout`` seconds, ``in_use`` is raised; -1 waits forever.
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


def cache_folder() -> Path:
    """Return where downloads are kept: ``$FEWLABELS_CACHE``, or the platform's way."""
    given = os.environ.get("FEWLABELS_CACHE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("fewlabels", appauthor=False, opinion=False)


def digest_of(content: bytes | memoryview) -> str:
    """Return a short hash of some bytes: 16 hexadecimal digits."""
    return blake2b(content, digest_size=8).hexdigest()


def add_checksum(text: str) -> str:
    """Return the text of a JSON object, indented or not, with a checksum at its end.

    Example:
        >>> add_checksum('{"step": 0}')
        '{"step": 0, "checksum": "566b58ce7230c2ca"}'
    """
    stripped = text.rstrip()
    inner = stripped[:-1].rstrip()
    before, after = (",\n  ", "\n}") if "\n" in inner else (", ", "}")
    ending = text[len(stripped) :]
    return f'{inner}{before}"{FIELD}": "{_hash(inner)}"{after}{ending}'


def verify_checksum(content: str | bytes) -> str:
    """Return a JSON object without its checksum, if it has one; ValueError if wrong."""
    text = content.decode("utf-8") if isinstance(content, bytes) else content
    end = _CHECKSUM.search(text, max(0, len(text) - _CHECKSUM_CHARACTERS))
    if end is None:
        if f'"{FIELD}"' in text[-_CHECKSUM_CHARACTERS:]:
            raise ValueError("its checksum cannot be read")
        return text
    if _hash(text[: end.start()]) != end[1]:
        raise ValueError("its checksum does not fit what it says")
    return text[: end.start()] + "}"


def append_entry(
    path: Path, entry: Mapping[str, Any], *, durable: bool = False
) -> None:
    """Add a line of strict JSON to a file; NaN and infinity become null.

    Args:
        path: The file; created with its folder where there is none.
        entry: The content of the line.
        durable: Wait until the line is on the disk, so that it survives a loss of
            power, and give it a checksum.
    """
    strict = {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in entry.items()
    }
    line = json.dumps(strict)
    make_folder(path.parent)
    with wrap_os_errors(path), path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if size and file.read() != b"\n":  # a process was killed while it wrote
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write((add_checksum(line) if durable else line).encode() + b"\n")
        file.flush()
        if durable:
            os.fsync(file.fileno())


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, without an unfinished one at its end.

    A missing file has no lines. A wrong checksum raises :class:`ValueError`.
    """
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    return [parse_json(verify_checksum(line)) for line in lines]


def _beside(path: Path) -> Path:
    """Return a name beside ``path`` that nobody else has."""
    return path.with_name(f".{path.name}.{token_hex(8)}.partial")


def _swap(first: Path, second: Path) -> bool:
    """Swap two paths atomically; return False if the system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    places = _AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second)
    return bool(rename and rename(*places, _RENAME_EXCHANGE) == 0)


def _flush(path: Path) -> None:
    """Make a file's content or a folder's renames durable."""
    if path.is_dir() and os.name != "posix":
        return  # Windows cannot open a folder
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
