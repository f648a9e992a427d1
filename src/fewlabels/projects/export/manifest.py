"""``manifest.json``: what an export wrote, so that the next one replaces nothing else.

The files of an export belong together. They are written into a new folder that takes
the place of the last export in one step, and only what is as it was written is removed.
"""

from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fewlabels import files
from fewlabels.errors import UsageError

MANIFEST = "manifest.json"

_LARGEST = 2**20
_OF_THE_SYSTEM = frozenset({".DS_Store", "Thumbs.db"})  # made by looking at a folder


class Manifest(BaseModel):
    """What ``manifest.json`` holds."""

    model_config = ConfigDict(frozen=True)

    format: Literal["fewlabels-export"] = "fewlabels-export"
    format_version: Literal[1] = 1
    sha256: dict[str, str]
    """Hash of each file by its path below the folder."""


def write_manifest(folder: Path) -> tuple[str, ...]:
    """Note every file of a finished export; return their names, this one's included."""
    hashes = {name: _sha256(folder / name) for name in sorted(_names(folder))}
    text = Manifest(sha256=hashes).model_dump_json(indent=2)
    files.replace_text(folder / MANIFEST, text + "\n")
    return (*hashes, MANIFEST)


def check_replaceable(folder: Path) -> None:
    """Raise unless a folder is missing, empty, or an export that nobody changed.

    Args:
        folder: Where an export shall stand.

    Raises:
        UsageError: If a file there would be lost; it is named.
    """
    if folder.exists() and not folder.is_dir():
        msg = f"'{folder}' is a file; an export needs a folder. Give another."
        raise UsageError(msg)
    with files.wrap_os_errors(folder):
        known = _known(folder)
        for name in _names(folder):
            if known.get(name) != _sha256(folder / name):
                raise UsageError(_would_be_lost(folder, name))


def _would_be_lost(folder: Path, name: str) -> str:
    return (
        f"'{folder}' holds '{name}', which no export wrote or which was changed since; "
        "nothing was touched. Move it away, or give another folder."
    )


def _names(folder: Path) -> Iterator[str]:
    """Yield all files below a folder but the manifest, and links as if they were."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            name = path.relative_to(folder).as_posix()
            if name != MANIFEST and path.name not in _OF_THE_SYSTEM:
                yield name


def _known(folder: Path) -> dict[str, str]:
    try:
        found = files.read_regular(folder / MANIFEST, _LARGEST)
        return Manifest.model_validate_json(found).sha256
    except (OSError, ValidationError):
        return {}


def _sha256(path: Path) -> str:
    """Return the hash of a file, or a word that is none."""
    if path.is_symlink() or not path.is_file():
        return "no file"
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
