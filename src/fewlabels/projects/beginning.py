"""The folder of a new project, which is there as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fewlabels import files
from fewlabels.errors import FewlabelsError, ProjectError, StorageError
from fewlabels.projects.settings import FILE
from fewlabels.projects.store import Store

LOCK = ".lock"
"""File in the folder that keeps two processes from choosing, or beginning, at once."""

_TIMEOUT = 10.0  # seconds for another beginning to put its files in place
_STORE = "labels.sqlite"
_PAGE = (".page-key", "open-page.html")  # of the page, which is there first
_OPEN_STORE = (f"{_STORE}-wal", f"{_STORE}-shm")  # while it is open, or after a kill


@contextmanager
def whole(place: Path) -> Iterator[Path]:
    """Hand out a folder whose content becomes that of ``place`` once it is complete.

    Of two that do so at the same time the second is refused. A folder that is there
    already is filled, the settings last: a shell may be in it, or a drive.

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
                check_free(place)
                raise
        return
    in_use = ProjectError(f"Another process is creating a project in '{place}'.")
    with files.staging_folder(real / FILE) as partial:
        yield partial
        with files.hold_lock(real / LOCK, in_use, timeout=_TIMEOUT):
            check_free(place)
            for path in sorted(partial.iterdir(), key=lambda one: one.name == FILE):
                files.move(path, real / path.name)


def check_free(folder: Path) -> None:
    """Raise unless a folder is new, empty, or that of a beginning that was killed."""
    if not folder.exists():
        return
    if folder.is_dir():
        found = files.unknown_entries(folder, LOCK, *_OPEN_STORE, *_PAGE)
        if not found or (found == [_STORE] and _is_unused(folder / _STORE)):
            return
    raise ProjectError(
        f"'{folder}' is not empty; nothing was touched. Give a new or empty folder "
        "for the project. To go on with a project that is there, ask it."
    )


def _is_unused(store: Path) -> bool:
    """Whether a file is a label store that nobody was asked about anything from."""
    try:
        with Store.open(store, create=False) as opened:
            return not opened.rounds()
    except FewlabelsError:
        return False


def reference(images: Path, folder: Path) -> str:
    """Return how a project refers to its images: from its folder, where that is short.

    A project beside or above its images can be moved together with them.
    """
    absolute, base = images.resolve(), folder.resolve()
    relative = Path(os.path.relpath(absolute, base))
    return relative.as_posix() if relative.parts[:2] != ("..", "..") else str(absolute)
