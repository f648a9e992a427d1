"""Rows of the files that hold answers or labels: one reader for each kind of file.

Tables are CSV, JSON Lines or Parquet, with a row for each image. Label Studio's export
is an array of tasks, with a row for each annotation. Every reader yields rows and
faults, each with its line.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end may be run as a
formula by a spreadsheet. It gets an apostrophe in front, which spreadsheets take for
"this is text", and reading takes one apostrophe off again. Identifiers get the mark
``id:``, because a hash such as ``12345678e9012345`` would come back as a number.
"""

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from fewlabels.data.parquet import parquet_rows
from fewlabels.errors import Fault, UnknownNameError, UsageError
from fewlabels.files import parse_json

ID_MARK = "id:"
"""What an identifier in a table begins with."""

SKIP, UNSURE = "skip", "unsure"
"""Values of the column ``status``."""

STATUS_WORDS = {SKIP: SKIP, UNSURE: UNSURE, "?": UNSURE}
"""Values of the column ``label`` that are no class, and the status they stand for."""

NAMES = ("file_name", "path", "filename")
"""Columns that may name the image; the first is the one that is written."""

ANSWERED = ("id", "label", "status", "annotator", "time", "lead_time")
"""Columns that are read besides the name."""

FILE_COLUMNS = (
    *NAMES,
    *("file", "filepath", "file_path", "image", "image_path", "image_name"),
    *("image_file", "img", "img_path", "photo", "picture", "name"),
)
"""Columns of labels from elsewhere that may name the image; the first one counts."""

CLASS_COLUMNS = (
    *("label", "class", "class_name", "label_name", "category", "category_name"),
    *("target", "species", "tag", "labels", "classes", "annotation", "choice"),
)
"""Columns of labels from elsewhere that may name the class; the first one counts."""

Row = Mapping[str, Any]
"""The cells of one row by column."""

_KNOWN = frozenset((*NAMES, *ANSWERED))  # other columns are the annotator's own
_RISKY = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")
_MAX_NAME, _SIMILARITY = 80, 0.8
_MAX_CHECKED = 1_000  # columns of JSON Lines that are compared with known names
_SEPARATORS = (",", ";", "\t")
_SEPARATOR_LINE = re.compile(r"sep=[,;\t]\s*", re.IGNORECASE)
_BLANK = re.compile(r"[ \t\r\n]*")
_UPLOAD = re.compile(r"^data/upload/(?:\d+/)?[0-9a-f]{8}-")  # precedes the file's name
_OTHER_FORMATS = {
    b"\xff\xfe": "UTF-16, not UTF-8",
    b"\xfe\xff": "UTF-16, not UTF-8",
    b"PK\x03\x04": "a workbook or an archive",
}


class FaultyRowError(Exception):
    """A row that cannot be used; the message is the sentence for the fault."""


class SourceRow(NamedTuple):
    """A row and its place in the file."""

    line: int
    """The line that it begins on; 0 where there are no lines."""
    row: Row
    task: int = 0
    """Its number among the tasks of an export, which may be all on one line."""

    @property
    def where(self) -> str:
        """The place of the row in words."""
        if self.line == 0:
            return "elsewhere"
        return f"in task {self.task}" if self.task else f"on line {self.line}"

    def fault(self, sentence: object) -> Fault:
        """Return a fault of this row."""
        task = f"task {self.task}: " if self.task else ""
        return Fault(self.line, f"{task}{sentence}")


@dataclass
class Columns:
    """Which columns of labels from elsewhere name the image and its class."""

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
        usual_names = {NAMES[0]: FILE_COLUMNS, "label": CLASS_COLUMNS}
        for own, given in ((NAMES[0], self.file), ("label", self.label)):
            usual = usual_names[own]
            wanted = usual if given is None else (given.strip().lower(),)
            chosen = next((name for name in wanted if name in names), None)
            if chosen is not None:
                self.used[own] = chosen
                renamed[list(names).index(chosen)] = own
        return renamed

    def check(self) -> None:
        """Raise if a column was in no row at all."""
        if NAMES[0] not in self.used:
            what, given, option = "file name", self.file, "file_column"
        elif "label" not in self.used:
            what, given, option = "class", self.label, "class_column"
        else:
            return
        missing = f"There is no column '{given}'"
        if given is None:
            missing = f"No column has a usual name for the {what}"
        shown = ", ".join(self.seen)[:200] or "none"
        raise UsageError(f"{missing}; the columns are {shown}. Name it by {option}.")


def parse_rows(
    name: str, content: bytes, columns: Columns | None = None
) -> Iterator[SourceRow | Fault]:
    """Yield the rows of a file of answers or, if columns are given, of labels.

    The ending of the name decides the format; the name is never opened. Rows of labels
    have ``file_name`` and ``label``, whatever their columns are called. If one of these
    is missing in all rows, a :class:`UsageError` lists the columns that exist.

    Yields:
        A row or a fault.
    """
    ending = check_ending(name, *[".parquet"] * (columns is not None))
    if ending == ".parquet":
        yield from _parquet_rows(content, columns or Columns())
        return
    text = _decode(content)
    if isinstance(text, Fault):
        yield text
        return
    yield from READERS[ending](text, columns)
    if columns is not None and columns.seen:
        columns.check()


def check_ending(name: str, *more: str) -> str:
    """Return the ending of a file's name, or raise if it stands for no format."""
    ending, known = Path(name).suffix.lower(), (*READERS, *more)
    if ending not in known:
        raise UnknownNameError("kind of file with answers or labels", name, known)
    return ending


def _decode(content: bytes) -> str | Fault:
    """Return the text of a file, or why it is none."""
    advice = "save it as UTF-8 text, in Excel as 'CSV UTF-8'."
    for start, kind in _OTHER_FORMATS.items():
        if content.startswith(start):
            return Fault(1, f"the file is {kind}; {advice}")
    try:
        text, place = content.decode("utf-8-sig"), content.find(b"\0")
        problem = "the file is binary, not text"
    except UnicodeDecodeError as error:
        text, place = "", error.start
        problem = f"byte {place} of the file ({content[place]:#04x}) is not UTF-8"
    if place >= 0:
        return Fault(content.count(b"\n", 0, place) + 1, f"{problem}; {advice}")
    return text if text.strip() else Fault(1, "the file is empty.")


# -------------------------------------------------------------------------- tables


def _csv_rows(text: str, columns: Columns | None) -> Iterator[SourceRow | Fault]:
    """Yield rows that have an image and a label column, and faults.

    Cells may be separated by commas, semicolons or tabs. Blank lines, and the line
    ``sep=;`` that Excel writes, are ignored. Nothing follows a header without these
    columns.
    """
    separator = _separator(text)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    names: list[str] = []
    next_line = 1
    try:
        for cells in table:
            line, next_line = next_line, table.line_num + 1
            if not any(map(str.strip, cells)):
                continue
            if not names:
                if _SEPARATOR_LINE.fullmatch(separator.join(cells)):
                    continue
                names = [cell.strip().lower() for cell in cells]
                names = names if columns is None else columns.rename(names)
                yield from (Fault(line, sentence) for sentence in _header_faults(names))
                if not _names_image(names) or "label" not in names:
                    return
            elif any(cell.strip() for cell in cells[len(names) :]):
                sizes = f"has {len(cells)} cells and the header has {len(names)}"
                yield Fault(line, f"{sizes}; put a name with a separator into quotes.")
            else:
                row = dict(zip(names, map(unguarded, cells), strict=False))
                if "id" in row:
                    row["id"] = row["id"].strip().removeprefix(ID_MARK)
                yield SourceRow(line, row)
    except csv.Error as error:
        sentence = f"cannot be taken apart: {error}; look for a stray quote."
        yield Fault(next_line, sentence)


def _separator(text: str) -> str:
    """Return the separator that gives the most known columns of the header."""
    header = ""
    for line in io.StringIO(text, newline=""):
        if line.strip() and not _SEPARATOR_LINE.fullmatch(line):
            header = line.replace('"', "")
            break

    def num_known(separator: str) -> tuple[int, int]:
        cells = header.split(separator)
        return len({cell.strip().lower() for cell in cells} & _KNOWN), len(cells)

    return max(_SEPARATORS, key=num_known)


def _json_rows(text: str, columns: Columns | None) -> Iterator[SourceRow | Fault]:
    """Yield rows of JSON Lines and faults; a misspelt column is reported once."""
    checked: set[str] = set()
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            cells = parse_json(content)
        except ValueError as error:
            yield Fault(line, f"is not JSON: {error}.")
            continue
        if not isinstance(cells, dict):
            yield Fault(line, "is not a JSON object; write one object per line.")
            continue
        names = [name.strip().lower() for name in cells]
        names = names if columns is None else columns.rename(names)
        row = dict(zip(names, cells.values(), strict=True))
        fresh = [name for name in row if name not in checked]
        fresh = fresh[: max(0, _MAX_CHECKED - len(checked))]
        checked.update(fresh)
        yield from (Fault(line, sentence) for sentence in _misspelt(fresh, row.keys()))
        if _names_image(row):
            yield SourceRow(line, row)
        else:
            yield Fault(line, "names no image; give its file_name.")


def _parquet_rows(content: bytes, columns: Columns) -> Iterator[SourceRow | Fault]:
    own_of: dict[str, str] = {}

    def choose(names: Sequence[str]) -> list[str]:
        renamed = columns.rename([name.strip().lower() for name in names])
        pairs = zip(names, renamed, strict=True)
        own_of.update({name: own for name, own in pairs if own})
        columns.check()
        return list(own_of)

    try:
        for number, cells in enumerate(parquet_rows(io.BytesIO(content), choose), 1):
            # NaN is how tables write "missing".
            pairs = ((own_of[n], c if c == c else None) for n, c in cells.items())
            yield SourceRow(number, dict(pairs))
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        yield Fault(1, f"the table cannot be read: {error}; save it again.")


def _names_image(columns: Iterable[str]) -> bool:
    return not {*NAMES, "id"}.isdisjoint(columns)


def _header_faults(columns: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each fault of a header."""
    present = dict.fromkeys(filter(None, columns))
    if not _names_image(present) or "label" not in present:
        shown = ", ".join(present)[:200] or "nothing"
        sentence = f"the header has to name file_name and label, and names {shown}"
        yield f"{sentence}; put the names of the columns into the first line."
    yield from _misspelt(present, present.keys())
    for name in sorted(_KNOWN.intersection(present)):
        if columns.count(name) > 1:
            yield f"the column '{name}' is there twice; take one out."


def _misspelt(columns: Iterable[str], present: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each column that is one letter or so from a missing one.

    Any other column is somebody's own and no fault.
    """
    missing = _KNOWN.difference(present, {"id"})  # 'idx' may be anything
    if not set(NAMES).isdisjoint(present):
        missing -= set(NAMES)
    own = [name[:_MAX_NAME] for name in columns if name not in _KNOWN]
    # Looked up this way round, since headers can be much longer than what is missing.
    meant = {
        near: wanted
        for wanted in sorted(missing)
        for near in get_close_matches(wanted, own, len(own) or 1, _SIMILARITY)
    }
    for name in filter(meant.__contains__, own):
        yield f"the column {name!r} means nothing here; did you mean '{meant[name]}'?"


def escape_formula(cell: str) -> str:
    """Return a cell that no spreadsheet runs.

    Example:
        >>> escape_formula("=1+1.png"), escape_formula("cat.png")
        ("'=1+1.png", 'cat.png')
    """
    return f"'{cell}" if _RISKY.match(cell) else cell


def unguarded(cell: str) -> str:
    """Return what was written by ``escape_formula``; other text stays as it is.

    Example:
        >>> unguarded("'=1+1.png"), unguarded("'tis.png")
        ('=1+1.png', "'tis.png")
    """
    return cell[1:] if _GUARDED.match(cell) else cell


# -------------------------------------------------------------------- Label Studio


def _studio_rows(text: str, columns: Columns | None) -> Iterator[SourceRow | Fault]:
    """Yield a row per annotation of an export, an array of tasks, and faults.

    A task holds ``data``, with what was asked, and ``annotations``, each with
    ``result``, ``was_cancelled`` (a skip), ``completed_by``, ``lead_time`` and times. A
    task without annotations, and an annotation without a choice, is not answered.
    Whether somebody was unsure cannot be said in this format. The image is named by
    ``file_name`` or ``image`` in the data of a task, unless another column is given.
    """
    image_column = None if columns is None else columns.file
    for number, entry in enumerate(_tasks(text), start=1):
        if isinstance(entry, Fault):
            yield entry
            continue
        line, task = entry
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            problem = "has no 'data'; export as JSON, not as JSON-MIN."
            yield Fault(line, f"task {number} {problem}")
            continue
        annotations = task.get("annotations") or [{}]
        is_list = isinstance(annotations, list)
        if not is_list or not all(isinstance(each, dict) for each in annotations):
            problem = "has 'annotations' that are not a list of objects."
            yield Fault(line, f"task {number} {problem}")
            continue
        for annotation in annotations:
            try:
                row = _annotation_row(data, annotation, image_column)
                yield SourceRow(line, row, number)
            except FaultyRowError as error:
                yield Fault(line, f"task {number} {error}")


def _tasks(text: str) -> Iterator[tuple[int, Any] | Fault]:
    """Yield each element of an array with its line; a fault where it is broken."""
    decoder = json.JSONDecoder()

    def after_blank(place: int) -> int:
        blank = _BLANK.match(text, place)
        return place if blank is None else blank.end()

    place = after_blank(0)
    if not text.startswith("[", place):
        yield Fault(1, "is not an array of tasks; export as JSON from Label Studio.")
        return
    place = after_blank(place + 1)
    line, counted, problem = 1, 0, ""
    while not text.startswith("]", place):
        line, counted = line + text.count("\n", counted, place), place
        try:
            element, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            message = getattr(error, "msg", error)
            yield Fault(getattr(error, "lineno", line), f"is not JSON: {message}.")
            return
        yield line, element
        place = after_blank(place)
        if text.startswith(",", place):
            place = after_blank(place + 1)
        elif not text.startswith("]", place):
            problem = "the array of tasks is cut short"
            break
    if not problem and text[place + 1 :].strip():
        problem = "something follows the array of tasks"
    if problem:
        yield Fault(text.count("\n", 0, place) + 1, f"is not JSON: {problem}.")


def _annotation_row(data: Row, annotation: Row, image_column: str | None) -> Row:
    """Return the row of an annotation, or raise if it has another form."""
    own_name = data.get("file_name") if image_column is None else None
    annotator = annotation.get("completed_by")
    if isinstance(annotator, dict):
        annotator = annotator.get("email") or annotator.get("id")
    row = {
        "id": data.get("id"),
        "file_name": own_name or image_name(data.get(image_column or "image")),
        "annotator": annotator,
        "time": annotation.get("created_at"),
        "lead_time": annotation.get("lead_time"),
    }
    if annotation.get("was_cancelled"):
        return {**row, "status": SKIP}
    regions = annotation.get("result") or []
    try:
        given = [
            each["value"]["choices"] for each in regions if each["type"] == "choices"
        ]
    except (TypeError, KeyError):
        given = [None]
    if not all(isinstance(some, list) for some in given):
        raise FaultyRowError("has a result that is not a list of choices.")
    choices = [choice for some in given for choice in some]
    if len(choices) > 1:
        shown = f"{len(choices)} choices {', '.join(map(str, choices))}"
        raise FaultyRowError(f"has the {shown}; one is asked for.")
    return {**row, "label": choices[0] if choices else None}


def image_name(image: Any) -> str | None:
    """Return the path below the root, or the uploaded file, that an address names."""
    if not isinstance(image, str):
        return None
    try:
        address = urlsplit(image)
    except ValueError:  # no address at all: nothing is called so
        return image
    local = parse_qs(address.query).get("d")
    return local[0] if local else _UPLOAD.sub("", unquote(address.path).lstrip("/"))


READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _csv_rows),
    **dict.fromkeys((".jsonl", ".ndjson"), _json_rows),
    ".json": _studio_rows,
}
"""What reads the text of a file with answers, by the ending of its name."""
