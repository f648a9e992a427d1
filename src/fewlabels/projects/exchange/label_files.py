"""Rows of files that hold labels from elsewhere: which file, which class."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from fewlabels.data.parquet import parquet_rows
from fewlabels.errors import Fault, UnknownNameError, UsageError
from fewlabels.projects.exchange.label_studio import studio_rows
from fewlabels.projects.exchange.matching import plain_path
from fewlabels.projects.exchange.reading import decoded
from fewlabels.projects.exchange.records import EXTENSIONS, NAMES, Numbered
from fewlabels.projects.exchange.tables import csv_rows, json_rows, plain_column

FILE_COLUMNS = (
    *NAMES,
    *("file", "filepath", "file_path", "image", "image_path", "image_name"),
    *("image_file", "img", "img_path", "photo", "picture", "name"),
)
"""Columns that are taken to name the image; the first that is there counts."""

CLASS_COLUMNS = (
    *("label", "class", "class_name", "label_name", "category", "category_name"),
    *("target", "species", "tag", "labels", "classes", "annotation", "choice"),
)
"""Columns that are taken to name the class; the first that is there counts."""

_PARQUET = ".parquet"
ENDINGS = (*EXTENSIONS, _PARQUET)
"""How the name of a file of labels may end."""


@dataclass
class Columns:
    """Which columns of a table name the image and its class."""

    file: str | None = None
    """Given column of file names; None: one with a usual name."""
    label: str | None = None
    """Given column of classes; None: one with a usual name."""
    seen: dict[str, None] = field(default_factory=dict)
    """All columns of the table, in their order."""
    used: dict[str, str] = field(default_factory=dict)
    """The columns that are read, by ``file_name`` and ``label``."""

    def rename(self, names: Sequence[str]) -> list[str]:
        """Return ``file_name`` or ``label`` for columns that are read, or ``""``."""
        self.seen.update(dict.fromkeys(names))
        renamed = [""] * len(names)
        for own, given, usual in (
            (NAMES[0], self.file, FILE_COLUMNS),
            ("label", self.label, CLASS_COLUMNS),
        ):
            wanted = usual if given is None else (plain_column(given),)
            chosen = next((name for name in wanted if name in names), None)
            if chosen is not None:
                self.used[own] = chosen
                renamed[list(names).index(chosen)] = own
        return renamed

    def check(self) -> None:
        """Raise if a column was in no row at all."""
        for own, what, given, option in (
            (NAMES[0], "file name", self.file, "file_column"),
            ("label", "class", self.label, "class_column"),
        ):
            if own not in self.used:
                missing = (
                    f"There is no column '{given}'"
                    if given is not None
                    else f"No column has a usual name for the {what}"
                )
                shown = ", ".join(self.seen)[:200] or "none"
                raise UsageError(
                    f"{missing}, so nothing was imported; the columns are {shown}. "
                    f"Name the one with the {what} by {option}."
                )


def label_rows(
    name: str, content: bytes, columns: Columns
) -> Iterator[Numbered | Fault]:
    """Yield the rows of a file with labels, each with ``file_name`` and ``label``.

    The ending of the name decides the format; the name is never opened. If a column is
    missing in all rows, a :class:`UsageError` lists the columns that exist.

    Yields:
        A row or a fault.
    """
    ending = Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise UnknownNameError("kind of file with labels", name, ENDINGS)
    if ending == _PARQUET:
        yield from _parquet_rows(content, columns)
        return
    text = decoded(content)
    if isinstance(text, Fault):
        yield text
    elif EXTENSIONS[ending] == "label-studio":
        yield from studio_rows(text, columns.file)
    else:
        read = csv_rows if EXTENSIONS[ending] == "csv" else json_rows
        yield from read(text, columns.rename)
        if columns.seen:
            columns.check()


def _parquet_rows(content: bytes, columns: Columns) -> Iterator[Numbered | Fault]:
    own_of: dict[str, str] = {}

    def chosen(names: Sequence[str]) -> list[str]:
        renamed = columns.rename([plain_column(name) for name in names])
        own_of.update(
            {name: own for name, own in zip(names, renamed, strict=True) if own}
        )
        columns.check()
        return list(own_of)

    try:
        for number, cells in enumerate(parquet_rows(BytesIO(content), chosen), 1):
            # NaN is how tables write "missing".
            row = {
                own_of[n]: cell if cell == cell else None for n, cell in cells.items()
            }
            yield Numbered(number, row)
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        yield Fault(1, f"the table cannot be read: {error}; save it again.")


def shared_root(names: Iterable[str], known: Container[str]) -> str:
    """Return the folders that come before the known path in most names.

    Labels made elsewhere name ``/data/pets/cat/1.jpg`` where a project knows
    ``cat/1.jpg``. A root counts if more than half of the names have it and are known
    without it.

    Example:
        >>> shared_root(["pets/1.png", "pets/2.png", "x.png"], {"1.png", "2.png"})
        'pets/'
    """
    roots: Counter[str] = Counter()
    total = 0
    for name in names:
        total += 1
        parts = plain_path(name).split("/")
        for depth in range(len(parts)):
            if "/".join(parts[depth:]) in known:
                roots["".join(f"{part}/" for part in parts[:depth])] += 1
    root, count = roots.most_common(1)[0] if roots else ("", 0)
    return root if 2 * count > total else ""
