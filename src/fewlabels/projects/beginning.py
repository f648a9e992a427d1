"""The folder of a new project, which is created as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fewlabels import files
from fewlabels.errors import FewlabelsError, ProjectError, StorageError
from fewlabels.projects.settings import FILE
from fewlabels.projects.store import Store

LOCK = ".lock"
"""File in the folder that keeps two processes from choosing, or creating, at once."""

_TIMEOUT = 10.0  # seconds for another process to put its files in place
_STORE = "labels.sqlite"
# The log is there while the store is open or after a kill; the page comes first.
_OTHERS = (f"{_STORE}-wal", f"{_STORE}-shm", ".page-key", "open-page.html")


@contextmanager
def new_project_folder(place: Path) -> Iterator[Path]:
    """Create a folder whose content becomes that of ``place`` at the end of the block.

    Of two processes that do so at the same time the second is refused. An existing
    folder is filled, the settings last: a shell may be in it, or a drive.

    Yields:
        The folder.
    """
    real = place.resolve()  # '.' has no name of its own
    if not real.exists():
        with files.staging_folder(real) as partial:
            yield partial
            try:
                files.move(partial, real)
            except StorageError:
                check_empty(place)
                raise
        return
    in_use = ProjectError(f"Another process is creating a project in '{place}'.")
    with files.staging_folder(real / FILE) as partial:
        yield partial
        with files.hold_lock(real / LOCK, in_use, timeout=_TIMEOUT):
            check_empty(place)
            for path in sorted(partial.iterdir(), key=lambda path: path.name == FILE):
                files.move(path, real / path.name)


def check_empty(folder: Path) -> None:
    """Raise unless a folder is new, empty, or left by a killed process."""
    if not folder.exists():
        return
    if folder.is_dir():
        entries = files.unknown_entries(folder, LOCK, *_OTHERS)
        is_free = not entries
        if entries == [_STORE]:
            store = folder / _STORE
            with suppress(FewlabelsError), Store.open(store, create=False) as opened:
                is_free = not opened.rounds()
        if is_free:
            return
    raise ProjectError(
        f"'{folder}' is not empty; nothing was touched. Give a new or empty folder, or "
        "continue the project that is there."
    )


def reference(images: Path, folder: Path) -> str:
    """Return how a project refers to its images: from its folder, if that is short.

    A project beside or above its images can be moved together with them.
    """
    absolute, base = images.resolve(), folder.resolve()
    relative = Path(os.path.relpath(absolute, base))
    return relative.as_posix() if relative.parts[:2] != ("..", "..") else str(absolute)
