"""A folder of images, or a tree with one folder per class.

Files count by their extension. Hidden files and folders and everything that does not
look like an image are ignored. Links to folders are not followed, because they may lead
out of the folder or back into it.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fewlabels.data.untrusted import MEASURED, TRAIN, is_utf8, left_out, natural_key
from fewlabels.errors import DataError, FewlabelsWarning, UnreadableFile

if TYPE_CHECKING:
    from fewlabels.pool import Pool

EXTENSIONS = frozenset(
    {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif"}
    | {".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm"}
)
"""Files with these extensions are taken for images."""

UNSUPPORTED = frozenset(
    {".heic", ".heif", ".avif", ".jp2", ".jxl", ".psd", ".svg"}
    | {".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw"}
)
"""Images that are not read; they are reported rather than passed over."""

_NO_TEXT = "its name is not UTF-8 and cannot be written down; rename it"


def folder_pool(
    folder: Path, *, size: int | None, test_share: float, use_labels: bool = True
) -> "Pool":
    """Return a pool of a folder.

    Where at least two folders directly below hold images, they are the classes, if
    labels are used; images beside these folders have no label. Where there is a folder
    ``train``, the folders ``train``, ``test``, ``val``, ``validation`` and ``valid``
    are the splits and the classes lie below them.
    """
    from fewlabels.data.files import Listed, file_pool

    names, unreadable = image_names(folder)
    split_of = _splits(names) if use_labels else {}
    labels = folder_labels(names) if use_labels else [None] * len(names)
    if len(set(labels)) == 1 and labels[0] is not None:
        warnings.warn(
            f"All {len(names)} images in {folder} are in the one folder '{labels[0]}', "
            "so they have no label. Put the folders of other classes next to it.",
            FewlabelsWarning,
            stacklevel=2,
        )
    if len(set(labels) - {None}) < 2:
        labels = [None] * len(names)
    listed = [
        Listed(name, folder / name, label, split_of.get(name.partition("/")[0]))
        for name, label in zip(names, labels, strict=True)
    ]
    return file_pool(
        folder, listed, size=size, test_share=test_share, left_out=unreadable
    )


def folder_labels(names: Sequence[str]) -> list[str | None]:
    """Return the folder that each image is in, its class; None: it is in none.

    A folder of a split, as in :func:`folder_pool`, is no class.
    """
    split_of = _splits(names)
    parts = [name.split("/") for name in names]
    below = [path[1:] if path[0] in split_of else path for path in parts]
    return [path[0] if len(path) > 1 else None for path in below]


def _splits(names: Sequence[str]) -> dict[str, str]:
    """Return which folders at the top are splits; none unless one is ``train``."""
    tops = {name.partition("/")[0] for name in names if "/" in name}
    known = {top: top.lower() for top in tops if top.lower() in {TRAIN, *MEASURED}}
    return known if TRAIN in known.values() else {}


def image_names(folder: Path) -> tuple[list[str], list[UnreadableFile]]:
    """Return the images below a folder by name, and what cannot be read; opens no file.

    Names are paths below the folder in natural order, with forward slashes.
    """
    names: list[str] = []
    unreadable: list[UnreadableFile] = []
    closed: list[OSError] = []
    for top, folders, files in os.walk(folder, onerror=closed.append):
        below = Path(top).relative_to(folder).as_posix()
        here = "" if below == "." else f"{below}/"
        faults = {}
        for name in list(folders):
            if _is_ignored(name):
                folders.remove(name)
            elif (Path(top) / name).is_symlink():
                faults[name] = "a link to a folder; such links are not followed"
            elif is_image(name):
                faults[name] = "a folder, not a file"
        images = [name for name in files if is_image(name)]
        faults |= {
            name: f"{_extension(name)} is not read; convert it to PNG or JPEG"
            for name in files
            if _extension(name) in UNSUPPORTED and not _is_ignored(name)
        }
        faults |= {name: _NO_TEXT for name in (*folders, *images) if not is_utf8(name)}
        folders[:] = [name for name in folders if name not in faults]
        names += [here + name for name in images if name not in faults]
        unreadable += [left_out(here + name, why) for name, why in faults.items()]
    for error in closed:
        where, reason = Path(error.filename), f"cannot be read: {error.strerror}"
        if where == folder:
            raise DataError(f"{folder} {reason}.") from error
        name = where.relative_to(folder).as_posix()
        unreadable.append(left_out(name, f"folder {reason}"))
    return sorted(names, key=natural_key), unreadable


def check_images(folder: Path) -> None:
    """Raise unless a folder can be read and holds a file that is taken for an image."""
    if not image_names(folder)[0]:
        raise DataError(f"There is no image in '{folder}'. Give a folder of images.")


def is_image(name: str) -> bool:
    """Return whether a file, by the last part of its path, is taken for an image."""
    return _extension(name) in EXTENSIONS and not _is_ignored(name)


def _extension(name: str) -> str:
    _, dot, last = name.rpartition(".")  # a hundred thousand paths would take seconds
    return (dot + last).lower()


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"  # what an archiver leaves
