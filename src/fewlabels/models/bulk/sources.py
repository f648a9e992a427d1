"""What can be embedded, cut into portions that any process reads by itself.

A source is a folder of images, a manifest, a Parquet table that holds images (or a
folder of such tables), or a WebDataset: a tar file, or a folder of them. No pixel is
looked at here. A *portion* is plain values, so that it can be sent anywhere; what it
names is read by :func:`opened`.
"""

import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from json import dumps
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels.data.decode import MAX_BYTES
from fewlabels.data.folder import image_names, is_image
from fewlabels.data.manifest import MANIFESTS, file_names
from fewlabels.data.parquet import find_images, image_rows
from fewlabels.data.text import is_utf8, left_out, natural_key
from fewlabels.errors import DataError, UnreadableFile
from fewlabels.files import open_regular

Portion = dict[str, Any]
"""Some images of a source: ``kind``, ``path``, and which of them."""

Content = Path | bytes | DataError
"""An image file, what is in one, or why there is none."""

_MOST_BYTES = 2**42
_NO_TEXT = "its name is not UTF-8 and cannot be written down"


@dataclass(frozen=True)
class Listing:
    """All images of a source, in an order that stays."""

    portions: tuple[Portion, ...]
    left_out: tuple[UnreadableFile, ...]
    """What looks like an image and cannot be one, by name and reason."""

    @property
    def num_images(self) -> int:
        """Number of images that somebody will try to read."""
        return sum(map(num_images, self.portions))


def listed(source: Path, size: int) -> Listing:
    """Return the images of a source in portions of at most ``size``."""
    kind, left = source.suffix.lower(), list[UnreadableFile]()
    if source.is_dir():
        portions, left = _of_folder(source, size)
    elif kind == ".tar":
        portions = list(_of_tar(source, size, left))
    elif kind == ".parquet" and find_images(source) is not None:
        portions = list(_of_table(source, size))
    elif kind in MANIFESTS and source.is_file():
        names = sorted(file_names(source), key=natural_key)
        portions = list(_of_files(source.parent, names, size))
    else:
        known = ", ".join(sorted({*MANIFESTS, ".tar"}))
        raise DataError(
            f"There is nothing to embed at '{source}'. Give a folder of images, of tar "
            f"files or of Parquet tables with images, or a file that ends in {known}."
        )
    if not portions:
        why = f"; the first of {len(left)} that cannot be is {left[0]}" if left else ""
        raise DataError(f"There is no image to be read in '{source}'{why}.")
    return Listing(tuple(portions), tuple(sorted(left)))


def num_images(portion: Portion) -> int:
    """Return how many images a portion names."""
    entries = portion.get("entries")
    return portion["number"] if entries is None else len(entries)


def first(portion: Portion, number: int) -> Portion:
    """Return at most so many images of a portion, from its beginning."""
    if "entries" in portion:
        return portion | {"entries": portion["entries"][:number]}
    return portion | {"number": min(number, portion["number"])}


def digest(portion: Portion) -> str:
    """Return a hash of what a portion names, but not of where that is."""
    told = portion | {"path": Path(portion["path"]).name}
    return blake2b(dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()


def opened(portion: Portion) -> Iterator[tuple[str, Content]]:
    """Yield id and content of each image of a portion, in order."""
    path = Path(portion["path"])
    if portion["kind"] == "files":
        yield from ((name, path / name) for name in portion["entries"])
    elif portion["kind"] == "tar":
        yield from _from_tar(path, portion["entries"])
    else:
        first, number = portion["first"], portion["number"]
        for place, (name, content) in enumerate(image_rows(path, first, number)):
            known = f"{path.name}:{first + place}" if name is None else name
            yield known, content or DataError("empty: 0 bytes")


def _of_folder(folder: Path, size: int) -> tuple[list[Portion], list[UnreadableFile]]:
    """Return portions of the tar files of a folder, else of its tables, or images."""
    left: list[UnreadableFile] = []
    tars = _named(folder, "*.tar")
    if tars:
        return [one for path in tars for one in _of_tar(path, size, left)], left
    tables = [one for one in _named(folder, "*.parquet") if find_images(one)]
    if tables:
        return [one for path in tables for one in _of_table(path, size)], left
    names, left = image_names(folder)
    return list(_of_files(folder, names, size)), left


def _named(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: natural_key(path.name))


def _of_files(folder: Path, names: Sequence[str], size: int) -> Iterator[Portion]:
    for entries in cut(names, size):
        yield {"kind": "files", "path": str(folder.absolute()), "entries": entries}


def cut(entries: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield entries in lists of at most ``size``."""
    every = iter(entries)
    while some := list(islice(every, size)):
        yield some


def _of_tar(path: Path, size: int, left: list[UnreadableFile]) -> Iterator[Portion]:
    """Yield where the images of a tar file begin, and how long they are."""
    entries: dict[str, list[Any]] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                name = f"{path.name}/{member.name}"
                if not member.isreg() or not is_image(PurePosixPath(member.name).name):
                    continue
                if not is_utf8(name):
                    left.append(left_out(name, _NO_TEXT))
                else:  # a later one of the same name counts, as when it is unpacked
                    entries[name] = [name, member.offset_data, member.size]
    except (OSError, tarfile.TarError) as error:
        raise DataError(
            f"The tar file '{path}' cannot be read: {error}. It must be whole and not "
            "compressed."
        ) from error
    for some in cut(entries.values(), size):
        yield {"kind": "tar", "path": str(path.absolute()), "entries": some}


def _from_tar(
    path: Path, entries: Sequence[tuple[str, int, int]]
) -> Iterator[tuple[str, Content]]:
    with open_regular(path, _MOST_BYTES) as file:
        for name, offset, size in entries:
            if size > MAX_BYTES:
                yield name, DataError(f"{size:,} bytes; at most {MAX_BYTES:,}")
                continue
            file.seek(offset)
            content = file.read(size)
            is_whole = len(content) == size and size > 0
            yield name, content if is_whole else DataError("empty, or not whole")


def _of_table(path: Path, size: int) -> Iterator[Portion]:
    found = find_images(path)
    num_rows = 0 if found is None else found.num_rows
    where = {"kind": "parquet", "path": str(path.absolute())}
    for first in range(0, num_rows, size):
        number = min(size, num_rows - first)
        yield {**where, "first": first, "number": number}
