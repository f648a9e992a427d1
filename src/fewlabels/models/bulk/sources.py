"""Sources of images, divided into portions that any process reads by itself.

A source is a folder of images, a manifest, a Parquet table that holds images (or a
folder of such tables), or a WebDataset: a tar file, or a folder of them. No pixel is
read here. A *portion* is plain values, so that it can be sent anywhere; its images are
read by :func:`read_portion`.
"""

import tarfile
from collections.abc import Iterable, Iterator
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
"""An image file, its bytes, or why there is none."""

_MAX_TAR_BYTES = 2**42


@dataclass(frozen=True)
class Listing:
    """All images of a source, in a fixed order."""

    portions: tuple[Portion, ...]
    left_out: tuple[UnreadableFile, ...]
    """What looks like an image and cannot be one, by name and reason."""

    @property
    def num_images(self) -> int:
        """Number of images that somebody will try to read."""
        return sum(map(num_images, self.portions))


def list_images(source: Path, size: int) -> Listing:
    """Return the images of a source in portions of at most ``size``."""
    tars, tables, folder, names = list[Path](), list[Path](), source, list[str]()
    left: list[UnreadableFile] = []
    kind = source.suffix.lower()
    if source.is_dir():
        tars = sorted(source.glob("*.tar"), key=_natural_order)
        if not tars:
            parquets = sorted(source.glob("*.parquet"), key=_natural_order)
            tables = [path for path in parquets if find_images(path)]
        if not tars and not tables:
            names, left = image_names(source)
    elif kind == ".tar":
        tars = [source]
    elif kind == ".parquet" and find_images(source) is not None:
        tables = [source]
    elif kind in MANIFESTS and source.is_file():
        folder, names = source.parent, sorted(file_names(source), key=natural_key)
    else:
        known = ", ".join(sorted({*MANIFESTS, ".tar"}))
        raise DataError(
            f"There is nothing to embed at '{source}'. Give a folder of images, of tar "
            f"files or of Parquet tables with images, or a file that ends in {known}."
        )
    portions = [portion for tar in tars for portion in _divide_tar(tar, size, left)]
    portions += [portion for table in tables for portion in _divide_table(table, size)]
    place = {"kind": "files", "path": str(folder.absolute())}
    portions += [{**place, "entries": entries} for entries in batches(names, size)]
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
    """Return a hash of the names in a portion, but not of the folder they are in."""
    named = portion | {"path": Path(portion["path"]).name}
    return blake2b(dumps(named, sort_keys=True).encode(), digest_size=8).hexdigest()


def read_portion(portion: Portion) -> Iterator[tuple[str, Content]]:
    """Yield id and content of each image of a portion, in order."""
    path = Path(portion["path"])
    if portion["kind"] == "files":
        yield from ((name, path / name) for name in portion["entries"])
    elif portion["kind"] == "tar":
        with open_regular(path, _MAX_TAR_BYTES) as file:
            for name, offset, size in portion["entries"]:
                if size > MAX_BYTES:
                    yield name, DataError(f"{size:,} bytes; at most {MAX_BYTES:,}")
                    continue
                file.seek(offset)
                content = file.read(size)
                is_whole = len(content) == size and size > 0
                yield name, content if is_whole else DataError("empty, or not whole")
    else:
        first, number = portion["first"], portion["number"]
        for row, (known, content) in enumerate(image_rows(path, first, number)):
            name = f"{path.name}:{first + row}" if known is None else known
            yield name, content or DataError("empty: 0 bytes")


def _natural_order(path: Path) -> Any:
    return natural_key(path.name)


def batches(entries: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield entries in lists of at most ``size``."""
    remaining = iter(entries)
    while batch := list(islice(remaining, size)):
        yield batch


def _divide_tar(path: Path, size: int, left: list[UnreadableFile]) -> Iterator[Portion]:
    """Yield where the images of a tar file begin, and how long they are."""
    entries: dict[str, list[Any]] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                name = f"{path.name}/{member.name}"
                if not member.isreg() or not is_image(PurePosixPath(member.name).name):
                    continue
                if is_utf8(name):  # of one name, the last counts, as when unpacked
                    entries[name] = [name, member.offset_data, member.size]
                else:
                    left.append(left_out(name, "its name is not UTF-8"))
    except (OSError, tarfile.TarError) as error:
        raise DataError(
            f"The tar file '{path}' cannot be read: {error}. It must be whole and not "
            "compressed."
        ) from error
    for some in batches(entries.values(), size):
        yield {"kind": "tar", "path": str(path.absolute()), "entries": some}


def _divide_table(path: Path, size: int) -> Iterator[Portion]:
    images = find_images(path)
    num_rows = 0 if images is None else images.num_rows
    place = {"kind": "parquet", "path": str(path.absolute())}
    for first in range(0, num_rows, size):
        yield {**place, "first": first, "number": min(size, num_rows - first)}
