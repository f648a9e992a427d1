"""Files that ask and files that answer: CSV, JSON Lines and Label Studio's JSON.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end may be run as a
formula by a spreadsheet. It gets an apostrophe in front, which reading takes off again.
Identifiers get the mark ``id:``: ``12345678e9012345`` would come back as a number.
"""

import csv
import errno
import io
import json
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import quoteattr

from fewlabels import errors, files
from fewlabels.data.parquet import parquet_rows
from fewlabels.data.untrusted import FILE_COLUMNS, printable
from fewlabels.errors import Fault, UnknownNameError, UsageError
from fewlabels.projects.store import Kind

MAX_BYTES = 256 * 2**20
"""Largest file of answers or labels that is read."""

SKIP, UNSURE = "skip", "unsure"
"""Values of the column ``status``."""

STATUS_WORDS = {SKIP: SKIP, UNSURE: UNSURE, "?": UNSURE}
"""Values of the column ``label`` that are no class, and the status they stand for."""

_USUAL = {
    "file_name": (
        *FILE_COLUMNS,
        *("file", "filepath", "file_path", "image", "image_path", "image_name"),
        *("image_file", "img", "img_path", "photo", "picture", "name"),
    ),
    "label": (
        *("label", "class", "class_name", "label_name", "category", "category_name"),
        *("target", "species", "tag", "labels", "classes", "annotation", "choice"),
    ),
}
"""Columns of labels from elsewhere that may name image and class; the first counts."""

IMAGE_ADDRESS = "/data/local-files/?d="
"""Where Label Studio serves local files from; the path below its root follows."""

Row = Mapping[str, Any]
"""The cells of one row by column."""

_ANSWERED = ("id", "label", "status", "annotator", "time", "lead_time")
_IDENTIFYING = frozenset((*FILE_COLUMNS, "id"))
_KNOWN = frozenset((*FILE_COLUMNS, *_ANSWERED))  # other columns are the annotator's own
_WRITTEN = (
    *("number", "file_name", "label", "status", "annotator", "suggestion"),
    *("confidence", "round", "model", "id"),
)
_ID_MARK = "id:"
_TABLES, _LINES, _STUDIO = (".csv", ".tsv", ".txt"), (".jsonl", ".ndjson"), ".json"
_FORMATS = (*_TABLES, *_LINES, _STUDIO)
_RISKY = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")
_SEPARATOR_LINE = re.compile(r"sep=[,;\t]\s*", re.IGNORECASE)
_UPLOAD = re.compile(r"^data/upload/(?:\d+/)?[0-9a-f]{8}-")  # precedes the file's name
_MAX_SHOWN = 80


class FaultyRowError(Exception):
    """A row that cannot be used; the message is the sentence for the fault."""


class SourceRow(NamedTuple):
    """A row and its place in the file."""

    line: int
    """The line that it begins on; 0 where there are no lines."""
    row: Row
    task: int = 0
    """Its number among the tasks of an export of Label Studio."""

    @property
    def where(self) -> str:
        """The place of the row in words."""
        number, unit = (self.task, "in task") if self.task else (self.line, "on line")
        return f"{unit} {number}" if number else "elsewhere"

    def fault(self, sentence: object) -> Fault:
        """Return a fault of this row."""
        task = f"task {self.task}: " if self.task else ""
        return Fault(self.line, f"{task}{sentence}")


@dataclass
class Columns:
    """Which columns of a table name the image and its class.

    Without any names given, the columns are those of a file of answers.
    """

    given: Mapping[str, str | None] = field(default_factory=dict)
    """The columns of labels from elsewhere that hold ``file_name`` and ``label``; None:
    one with a usual name."""
    seen: dict[str, None] = field(default_factory=dict)
    """All columns of a table of labels, in their order."""
    used: dict[str, str] = field(default_factory=dict)
    """The columns that are read, by ``file_name`` and ``label``."""

    def rename(self, names: Iterable[str]) -> list[str]:
        """Return ``file_name`` or ``label`` for columns that are read, or ``""``."""
        plain = [name.strip().lower() for name in names]
        if not self.given:
            return plain
        self.seen.update(dict.fromkeys(plain))
        renamed = [""] * len(plain)
        for own, given in self.given.items():
            wanted = _USUAL[own] if given is None else (given.strip().lower(),)
            chosen = next((name for name in wanted if name in plain), None)
            if chosen is not None:
                self.used[own] = chosen
                renamed[plain.index(chosen)] = own
        return renamed

    def check(self) -> None:
        """Raise if a column was in no row at all."""
        for own, given in self.given.items():
            if self.seen and own not in self.used:
                what = f"column '{given}'" if given else f"usual column for the {own}"
                option = "class_column" if own == "label" else "file_column"
                shown = ", ".join(self.seen)[:200] or "none"
                raise UsageError(
                    f"There is no {what}; the columns are {shown}. Rename one to "
                    f"'{own}', or name it by {option}."
                )


# --------------------------------------------------------------------------- reading


def load_rows(
    path: Path, columns: Columns, content: bytes | None = None
) -> Iterator[SourceRow | Fault]:
    """Yield the rows of a file of answers or of labels, and what is wrong with it.

    The ending of the name decides the format. Rows of labels have ``file_name`` and
    ``label``, whatever their columns are called; if one of these is missing in all
    rows, a :class:`UsageError` lists the columns that exist.

    Args:
        path: The file.
        columns: Which columns name the image and its class.
        content: What the file holds; None to read it.

    Yields:
        The rows, and a fault for each that is left out or for the whole file.
    """
    ending = check_ending(path.name, *([".parquet"] if columns.given else []))
    if content is None:
        try:
            content = files.read_regular(path, MAX_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                yield Fault(1, f"the file has {error.strerror} are read.")
                return
            msg = f"'{path}' cannot be read: {error.strerror}."
            raise errors.DataError(msg) from error
    if ending == ".parquet":
        yield from _parquet_rows(content, columns)
        return
    text, start = "", content.find(b"\0")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start
    if start >= 0:
        problem = f"the file is not UTF-8 text: byte {start} is {content[start]:#04x}"
        advice = "save it as UTF-8, in Excel as 'CSV UTF-8'"
        line = content.count(b"\n", 0, start) + 1
        yield Fault(line, f"{problem}; {advice}.")
    elif not text.strip():
        yield Fault(1, "the file is empty.")
    elif ending == _STUDIO:
        yield from _studio_rows(text, columns.given.get("file_name"))
    else:
        read = _json_rows if ending in _LINES else _csv_rows
        yield from read(text, columns)
        columns.check()


def check_ending(name: str, *more: str) -> str:
    """Return the ending of a file's name; it has to stand for a format."""
    ending, known = Path(name).suffix.lower(), (*_FORMATS, *more)
    if ending not in known:
        raise UnknownNameError("kind of file with answers or labels", name, known)
    return ending


def _csv_rows(text: str, columns: Columns) -> Iterator[SourceRow | Fault]:
    """Yield rows of cells that commas, semicolons or tabs separate.

    Blank lines, and the line ``sep=;`` that Excel writes, are ignored.
    """
    lines = io.StringIO(text)
    headers = (s for s in lines if s.strip() and not _SEPARATOR_LINE.fullmatch(s))
    separator = max(",;\t", key=next(headers, "").count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    names: list[str] = []
    next_line = 1
    try:
        for cells in table:
            line, next_line = next_line, table.line_num + 1
            is_mark = not names and _SEPARATOR_LINE.fullmatch(separator.join(cells))
            if is_mark or not any(map(str.strip, cells)):
                continue
            if not names:
                names = columns.rename(cells)
                if _IDENTIFYING.isdisjoint(names) or "label" not in names:
                    shown = ", ".join(filter(None, names))[:200] or "nothing"
                    problem = "the header has to name file_name and label, and names"
                    yield Fault(line, f"{problem} {shown}.")
                    return
                for name in sorted(_KNOWN):
                    if names.count(name) > 1:
                        problem = f"the column '{name}' is there twice; take one out."
                        yield Fault(line, problem)
            elif any(cell.strip() for cell in cells[len(names) :]):
                sizes = f"has {len(cells)} cells and the header has {len(names)}"
                yield Fault(line, f"{sizes}; put a name with a separator into quotes.")
            else:
                row = dict(zip(names, map(unescape_formula, cells), strict=False))
                if "id" in row:
                    row["id"] = row["id"].strip().removeprefix(_ID_MARK)
                yield SourceRow(line, row)
    except csv.Error as error:
        sentence = f"cannot be taken apart: {error}; look for a stray quote."
        yield Fault(next_line, sentence)


def _json_rows(text: str, columns: Columns) -> Iterator[SourceRow | Fault]:
    """Yield rows of JSON Lines."""
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            cells = files.parse_json(content)
        except ValueError as error:
            yield Fault(line, f"is not JSON: {error}.")
            continue
        if not isinstance(cells, dict):
            yield Fault(line, "is not JSON of one object per line.")
            continue
        names = columns.rename(cells)
        if _IDENTIFYING.isdisjoint(names):
            yield Fault(line, "names no image; give its file_name.")
        else:
            yield SourceRow(line, dict(zip(names, cells.values(), strict=True)))


def _parquet_rows(content: bytes, columns: Columns) -> Iterator[SourceRow | Fault]:
    own_of: dict[str, str] = {}

    def choose(names: Sequence[str]) -> list[str]:
        pairs = zip(names, columns.rename(names), strict=True)
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


def _studio_rows(text: str, image_column: str | None) -> Iterator[SourceRow | Fault]:
    """Yield a row per annotation of an export, an array of tasks.

    A task without annotations, and an annotation without a choice, is not answered. The
    image is named by ``file_name`` or ``image`` in the data of a task, unless another
    column is given.
    """
    try:
        tasks = files.parse_json(text)
    except ValueError as error:
        yield Fault(getattr(error, "lineno", 1), f"is not JSON: {error}.")
        return
    if not isinstance(tasks, list):
        yield Fault(1, "is not an array of tasks; export as JSON from Label Studio.")
        return
    for number, task in enumerate(tasks, start=1):
        place = SourceRow(0, {}, number)
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            yield place.fault("has no 'data'; export as JSON, not JSON-MIN.")
            continue
        annotations = task.get("annotations") or [{}]
        for annotation in annotations if isinstance(annotations, list) else [None]:
            try:
                row = _annotation_row(data, annotation, image_column)
                yield place._replace(row=row)
            except (TypeError, KeyError, AttributeError):
                yield place.fault("has annotations of another form.")
            except FaultyRowError as error:
                yield place.fault(error)


def _annotation_row(data: Row, annotation: Any, image_column: str | None) -> Row:
    """Return the row of an annotation, or raise if it has another form."""
    own_name = data.get("file_name") if image_column is None else None
    annotator = annotation.get("completed_by")
    if isinstance(annotator, dict):
        annotator = annotator.get("email") or annotator.get("id")
    name = own_name or image_name(data.get(image_column or "image"))
    time, seconds = annotation.get("created_at"), annotation.get("lead_time")
    row = {"id": data.get("id"), "file_name": name, "annotator": annotator}
    row |= {"time": time, "lead_time": seconds}
    if annotation.get("was_cancelled"):
        return {**row, "status": SKIP}
    regions = annotation.get("result") or []
    given = [r["value"]["choices"] for r in regions if r["type"] == "choices"]
    if not all(isinstance(some, list) for some in given):
        raise TypeError
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


# -------------------------------------------------------------------------- matching


class ImageFinder:
    """Finds the image that a row refers to.

    Args:
        items: Ids of the images by path.
        asked: Ids of those that were asked about; None: all of them.
    """

    def __init__(self, items: Mapping[str, str], asked: Collection[str] | None) -> None:
        self._items, self._asked = items, asked
        self._identifiers = frozenset(items.values())
        self._composed: dict[str, str | None] = {}  # None: two names become the same
        for name, identifier in items.items():
            form = unicodedata.normalize("NFC", name)
            self._composed[form] = None if form in self._composed else identifier

    def find(self, row: Row) -> str:
        """Return the id of the image that a row refers to.

        Its id counts where there is one, its name otherwise. No such image, two of
        them, or one that nobody asked about raises :class:`FaultyRowError`.
        """
        identifier = text_of(row, "id")
        cells = (row.get(column) for column in FILE_COLUMNS)
        name = next((cell for cell in cells if cell not in (None, "")), None)
        if identifier is None and name is None:
            raise FaultyRowError("names no image; fill in file_name.")
        shown = quoted(identifier if name is None else name)
        item = self._by_name(name) if isinstance(name, str) else None
        if identifier is not None and identifier != item:
            if item is not None:
                raise FaultyRowError(f"the id is of another image than {shown}.")
            # The file was moved since.
            item = identifier if identifier in self._identifiers else None
        if item is None:
            raise FaultyRowError(f"there is no image {shown} in this project.")
        if self._asked is not None and item not in self._asked:
            raise FaultyRowError(f"nobody asked about {shown}; take the row out.")
        return item

    def _by_name(self, name: str) -> str | None:
        """Return the image with this name, however it was written."""
        plain = plain_path(name)
        for form in (name, name.strip(), plain):
            if form in self._items:
                return self._items[form]
        return self._composed.get(unicodedata.normalize("NFC", plain))


class ClassFinder:
    """Finds the class that a row names."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the names of the classes."""
        self.names = frozenset(names)
        self._folded: dict[str, list[str]] = defaultdict(list)
        for name in names:
            self._folded[name.casefold()].append(name)

    def find(self, row: Row) -> str | None:
        """Return the class of a row, or a status word; None if it has no label."""
        word = text_of(row, "label")
        if word is None:
            return None
        for form in (word, word.removesuffix(".0")):  # pandas: 3 beside empty ones
            if form in self.names:
                return form
        plain = word.casefold()
        alike = self._folded.get(plain, ())
        if len(alike) == 1:
            return alike[0]
        if plain in STATUS_WORDS:
            return plain
        raise FaultyRowError(f"there is no class {quoted(word)}.")


def text_of(row: Row, column: str) -> str | None:
    """Return a cell as text without blanks around it; None where it is empty."""
    cell = row.get(column)
    if cell is None:
        return None
    if not isinstance(cell, str | int | float) or isinstance(cell, bool):
        raise FaultyRowError(f"the {column} is {cell!r:.80}; write text or a number.")
    return str(cell).strip() or None


def plain_path(name: str) -> str:
    """Return a path as a project writes it, with forward slashes."""
    return PurePosixPath(name.strip().replace("\\", "/")).as_posix()


def quoted(name: Any) -> str:
    """Return a name in quotes, printable and shortened to 80 characters."""
    shown = printable(str(name))
    more = "..." if len(shown) > _MAX_SHOWN else ""
    return f"'{shown[:_MAX_SHOWN]}{more}'"


# --------------------------------------------------------------------------- answers


class Answer(NamedTuple):
    """What somebody said about an image."""

    id: str
    """Id of the item."""
    kind: Kind
    """A label, a skip, or *unsure* where nothing else was said."""
    label: str | None = None
    """Name of the class; None unless it is a label."""
    annotator: str | None = None
    time: datetime | None = None
    """When; with a time zone, UTC where the file gives none."""
    payload: Mapping[str, Any] = {}
    """``"unsure"`` of a label, and ``"lead_time"`` in seconds, where they are known."""


class Parsed(NamedTuple):
    """The content of a file of answers."""

    answers: tuple[Answer, ...]
    faults: tuple[Fault, ...] = ()
    """What was left out, and why; empty unless faults were allowed."""
    num_unanswered: int = 0
    """Rows without an answer."""


def read_answers(
    path: Path,
    *,
    items: Mapping[str, str],
    asked: Collection[str] | None,
    classes: Sequence[str],
    partial: bool = False,
) -> Parsed:
    """Read a file of answers; its ending decides the format.

    A row without label and status is not answered, which is no fault.

    Args:
        path: The file.
        items: Id of each item by the path of its file below the folder of images.
        asked: Ids of the items that were asked about; None: all of them.
        classes: Names of the classes.
        partial: Whether to take the good rows of a file with faults.

    Returns:
        The answers; with ``partial`` also the faults.

    Raises:
        AnswersError: If anything is wrong, unless ``partial``; lists every fault.
    """
    images, known = ImageFinder(items, asked), ClassFinder(classes)
    first: dict[tuple[str, str | None], str] = {}
    answers: list[Answer] = []
    faults: list[Fault] = []
    num_unanswered = 0
    for entry in load_rows(path, Columns()):
        if isinstance(entry, Fault):
            faults.append(entry)
            continue
        cells = (entry.row.get("label"), entry.row.get("status"))
        if not any(str(cell or "").strip() or cell == 0 for cell in cells):
            num_unanswered += 1
            continue
        try:
            answer = _read_answer(entry.row, images, known)
        except FaultyRowError as error:
            faults.append(entry.fault(error))
            continue
        key = (answer.id, answer.annotator)
        if key in first:
            who = quoted(key[1]) if key[1] else "the same annotator"
            sentence = f"{who} answered about this image {first[key]} already"
            faults.append(entry.fault(f"{sentence}; keep one row."))
        else:
            first[key] = entry.where
            answers.append(answer)
    if not (answers or faults or num_unanswered):
        faults.append(Fault(1, "there is no row in the file."))
    if faults and not partial:
        raise errors.AnswersError(path, faults)
    return Parsed(tuple(answers), tuple(faults), num_unanswered)


def _read_answer(row: Row, images: ImageFinder, classes: ClassFinder) -> Answer:
    """Return the answer in a row, if all of it is right."""
    identifier = images.find(row)
    status = (text_of(row, "status") or "").lower()
    if status not in {"", SKIP, UNSURE}:
        raise FaultyRowError(
            f"has the status {quoted(status)}; write '{SKIP}' or '{UNSURE}'."
        )
    label = classes.find(row)
    if label is not None and label not in classes.names:
        if status not in {"", STATUS_WORDS[label]}:
            raise FaultyRowError(
                f"has the label {quoted(label)} and the status {quoted(status)}."
            )
        status, label = STATUS_WORDS[label], None
    if status == SKIP and label is not None:
        raise FaultyRowError(f"is skipped and has the label {quoted(label)}.")
    time = seconds = None
    payload: dict[str, Any] = {}
    if status == UNSURE and label is not None:
        payload["unsure"] = True
    word = text_of(row, "time")
    if word is not None:
        try:
            time = datetime.fromisoformat(word)
            time = time if time.tzinfo else time.replace(tzinfo=UTC)
            time.astimezone(UTC)  # fails for the first day of year 1
        except (ValueError, OverflowError):
            raise FaultyRowError(
                f"has the time {quoted(word)}; write 2026-01-31T12:00:00Z."
            ) from None
    word = text_of(row, "lead_time")
    if word is not None:
        with suppress(ValueError):
            seconds = float(word.replace(",", "."))
        if seconds is None or not 0 <= seconds < math.inf:
            raise FaultyRowError(f"has the lead_time {quoted(word)}; write seconds.")
        payload["lead_time"] = seconds
    kind = Kind(status) if label is None else Kind.LABEL
    return Answer(identifier, kind, label, text_of(row, "annotator"), time, payload)


# ------------------------------------------------------------------------- questions


@dataclass(frozen=True)
class AskedItem:
    """An image that somebody is asked about."""

    id: str
    """Id of the item, which it keeps when the file moves."""
    path: str
    """Path below the folder of images, with forward slashes."""
    number: int
    """Place in its round, from 1; the contact sheet shows it too."""
    round: int
    probabilities: Sequence[float] | None = None
    """What the model predicts, one number per class; None where there is no model."""
    model: str | None = None
    """Which model proposed the image and made the prediction."""


def query_files(
    path: Path, asked: Sequence[AskedItem], classes: Sequence[str], image_address: str
) -> dict[Path, str]:
    """Return the files of a query, with its images in the order of their numbers.

    Label Studio's tasks come with a labeling configuration, ``NAME.config.xml``.

    Args:
        path: The file; its ending decides the format.
        asked: The images.
        classes: Names of the classes, in the order of the probabilities.
        image_address: For Label Studio: what comes before the path of each image.

    Returns:
        The text of each file by its path.
    """
    if not asked:
        raise UsageError(f"There is nothing to ask, so '{path}' was not written.")
    ending, entries = check_ending(path.name), []
    for item in sorted(asked, key=lambda item: item.number):
        best, confidence = suggestion(item, classes) or (None, None)
        shares = None
        if item.probabilities is not None:
            pairs = zip(classes, item.probabilities, strict=True)
            shares = {name: round(float(number), 6) for name, number in pairs}
        entry: dict[str, Any] = {
            "number": item.number,
            "file_name": item.path,
            "label": None,
            "status": None,
            "annotator": None,
            "suggestion": best,
            "confidence": confidence,
            "probabilities": shares,
            "round": item.round,
            "model": item.model,
            "id": item.id,
        }
        entries.append(entry)
    texts = {}
    if ending == _STUDIO:
        choices = (f"    <Choice value={quoteattr(name)}/>\n" for name in classes)
        texts[path.with_name(path.stem + ".config.xml")] = (
            '<View>\n  <Image name="image" value="$image"/>\n  <Choices name="choice" '
            f'toName="image">\n{"".join(choices)}  </Choices>\n</View>\n'
        )
        last = entries[-1]["number"]
        tasks = [_task(entry, last, image_address) for entry in entries]
        text = json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"
    elif ending in _LINES:
        text = ""
        for entry in entries:
            del entry["confidence"]
            text += json.dumps(entry, ensure_ascii=False) + "\n"
    else:
        buffer = io.StringIO(newline="")
        table = csv.DictWriter(buffer, _WRITTEN, extrasaction="ignore")
        table.writeheader()
        for entry in entries:
            for name in ("file_name", "suggestion", "model"):
                entry[name] = escape_formula(entry[name] or "")
            if entry["confidence"] is not None:
                entry["confidence"] = f"{entry['confidence']:.4f}"
            table.writerow(entry | {"id": _ID_MARK + entry["id"]})
        text = buffer.getvalue()
        # Excel takes a file for UTF-8 by this mark only; other programs need none.
        text = text if text.isascii() else "\ufeff" + text
    return texts | {path: text}


def _task(entry: Row, last: int, image_address: str) -> dict[str, Any]:
    """Return a task of Label Studio.

    It shows the lowest score first, so there is a prediction in any case, whose score
    is the number divided by the last one.
    """
    shown = ("file_name", "id", "number", "round", "model", "probabilities")
    choice = {"from_name": "choice", "to_name": "image", "type": "choices"}
    best = entry["suggestion"]
    prediction = {
        "model_version": f"{entry['model'] or 'fewlabels'}-r{entry['round']}",
        "score": entry["number"] / last,
        "result": [{**choice, "value": {"choices": [best]}}] if best else [],
    }
    image = image_address + quote(entry["file_name"])
    data = {"image": image} | {name: entry[name] for name in shown}
    return {"data": data, "predictions": [prediction]}


def suggestion(item: AskedItem, classes: Sequence[str]) -> tuple[str, float] | None:
    """Return the likeliest class and its probability; None where nothing is known."""
    if not item.probabilities:
        return None
    numbers = [float(number) for number in item.probabilities]
    best = max(range(len(numbers)), key=numbers.__getitem__)
    return classes[best], numbers[best]


def escape_formula(cell: str) -> str:
    """Return a cell that no spreadsheet runs.

    Example:
        >>> escape_formula("=1+1.png"), escape_formula("cat.png")
        ("'=1+1.png", 'cat.png')
    """
    return f"'{cell}" if _RISKY.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """Return what was written by ``escape_formula``; other text stays as it is."""
    return cell[1:] if _GUARDED.match(cell) else cell
