"""Images for the browser, under names of their own, decoded and written anew.

No byte of a file reaches the browser. It is decoded as it is for training (regular
files, known formats, bounded pixels, unchanged since it was indexed), and the pixels
are written as PNG or JPEG, so that whatever else is in a file stays there.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from fewlabels.data.decode import ImageFile
from fewlabels.errors import DataError
from fewlabels.projects import Project
from fewlabels.projects.image_index import image_file
from fewlabels.report.pictures import decode_within, encoded

SIDES = (160, 320, 1280, 2560)
"""Longest sides, in pixels, that pictures are offered at; none is enlarged."""

_PAUSE = 2.0  # seconds before an unknown name is looked for again


@dataclass(eq=False)
class ImageNames:
    """The images of a project, by names that reveal nothing about their files."""

    project: Project
    _files: dict[str, tuple[str, ImageFile]] = field(default_factory=dict)
    _read_at: float = -_PAUSE
    _lock: Lock = field(default_factory=Lock)

    def name_of(self, item: str) -> str:
        """Return the name of an item on the page: the same after a restart."""
        key = (self.project.settings.store_identity or "").encode()
        return blake2b(item.encode(), digest_size=12, key=key).hexdigest()

    def item(self, name: str) -> str | None:
        """Return the id of an item by its name on the page; None: there is none."""
        return self._entry(name)[0]

    def items(self, names: Iterable[str]) -> list[str]:
        """Return the ids of items that are there, by their names on the page."""
        return [item for item, _ in map(self._entry, names) if item is not None]

    def file(self, name: str) -> ImageFile | None:
        """Return the file of an item by its name on the page."""
        return self._entry(name)[1]

    def know(self, items: Sequence[str]) -> None:
        """Look up a few images by their ids; there may be a great many others."""
        unknown = [item for item in items if self.name_of(item) not in self._files]
        if unknown:
            self._read(unknown)

    def _entry(self, name: str) -> tuple[str, ImageFile] | tuple[None, None]:
        if name not in self._files and time.monotonic() - self._read_at > _PAUSE:
            self._read(None)  # indexed since
            self._read_at = time.monotonic()
        return self._files.get(name, (None, None))

    def _read(self, ids: Sequence[str] | None) -> None:
        folder = self.project.images_folder
        with self._lock:
            for item in self.project.store.items(ids=ids):
                self._files[self.name_of(item.id)] = item.id, image_file(item, folder)


def ordered_digest(ids: Iterable[str]) -> str:
    """Return a digest of items in their order."""
    return blake2b("\n".join(ids).encode(), digest_size=16).hexdigest()


def picture(file: ImageFile, folder: Path, side: int) -> tuple[str, bytes]:
    """Return an image for the browser, in its own proportions: media type and content.

    Args:
        file: The image, as it was indexed.
        folder: Where it has to be; a link that leads out of it is not followed.
        side: Longest side, in pixels.

    Raises:
        DataError: If the file cannot be shown; the message says why.
    """
    if not file.path.resolve().is_relative_to(folder.resolve()):
        raise DataError("a link that leads out of the folder of the images")
    return encoded(decode_within(file, side), side)
