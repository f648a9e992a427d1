"""Files of answers, matched with the images and classes of a project."""

import errno
import math
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels import files
from fewlabels.data.untrusted import printable
from fewlabels.errors import AnswersError, DataError, Fault
from fewlabels.projects.exchange.rows import (
    NAMES,
    SKIP,
    STATUS_WORDS,
    UNSURE,
    Columns,
    FaultyRowError,
    Row,
    SourceRow,
    check_ending,
    parse_rows,
)

MAX_BYTES = 256 * 2**20
"""Largest file of answers or labels that is read."""

_MAX_SHOWN = 80
_MAX_COMPARISONS = 10_000  # of words with classes, which takes seconds


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What somebody said about an image."""

    id: str
    """Id of the item."""
    label: str | None
    """Name of the class; None for a skip, and where nothing but unsure was said."""
    skipped: bool = False
    unsure: bool = False
    annotator: str | None = None
    time: datetime | None = None
    """When; with a time zone, UTC where the file gives none."""
    lead_time: float | None = None
    """How long it took, in seconds."""
    line: int = 0
    """Where in the file."""


@dataclass(frozen=True)
class Parsed:
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
    check_ending(path.name)
    images, known = ImageFinder(items, asked), ClassFinder(classes)
    first: dict[tuple[str, str | None], str] = {}
    answers: list[Answer] = []
    faults: list[Fault] = []
    num_unanswered = 0
    for entry in file_rows(path):
        if isinstance(entry, Fault):
            faults.append(entry)
            continue
        cells = (entry.row.get("label"), entry.row.get("status"))
        if not any(str(cell or "").strip() or cell == 0 for cell in cells):
            num_unanswered += 1
            continue
        try:
            answer = _read_answer(entry.row, entry.line, images, known)
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
        raise AnswersError(path, sort_faults(faults))
    return Parsed(tuple(answers), sort_faults(faults), num_unanswered)


def sort_faults(faults: list[Fault]) -> tuple[Fault, ...]:
    """Return faults by line; those of one line keep their order, task by task."""
    return tuple(sorted(faults, key=lambda fault: fault.line))


def file_rows(
    path: Path, columns: Columns | None = None, content: bytes | None = None
) -> Iterator[SourceRow | Fault]:
    """Yield the rows of a file; one whose content is given is not opened.

    Yields:
        A row or a fault, such as that the file is too large.
    """
    if content is None:
        try:
            content = files.read_regular(path, MAX_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                yield Fault(1, f"the file has {error.strerror} are read.")
                return
            raise DataError(f"'{path}' cannot be read: {error.strerror}.") from error
    yield from parse_rows(path.name, content, columns)


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
        self._by_last_part: dict[str, list[str]] = defaultdict(list)
        for name, identifier in items.items():
            form = unicodedata.normalize("NFC", name)
            self._composed[form] = None if form in self._composed else identifier
            self._by_last_part[name.rpartition("/")[2]].append(name)

    def find(self, row: Row) -> str:
        """Return the id of the image that a row refers to.

        Its id counts where there is one, its name otherwise. No such image, two of
        them, or one that nobody asked about raises :class:`FaultyRowError`.
        """
        identifier = text_of(row, "id")
        name = next((row[c] for c in NAMES if row.get(c) not in (None, "")), None)
        if identifier is None and name is None:
            raise FaultyRowError("names no image; fill in file_name.")
        shown = quoted(identifier if name is None else name)
        item = self._by_name(name) if isinstance(name, str) else None
        if identifier is not None and identifier != item:
            is_known = identifier in self._identifiers
            if item is not None:
                problem = f"{shown} is not the image that was asked about; ask again."
                if is_known:
                    problem = f"the id is of another image than {shown}; perhaps one"
                    problem += " column was sorted without the others."
                raise FaultyRowError(problem)
            item = identifier if is_known else None  # known: the file was moved since
        if item is None:
            last = PurePosixPath(str(identifier if name is None else name)).name
            near = self._by_last_part.get(last, [])
            hint = f" Did you mean {quoted(near[0])}?" if len(near) == 1 else ""
            raise FaultyRowError(f"there is no image {shown} in this project.{hint}")
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
        self._hints: dict[str, str] = {}

    def find(self, row: Row) -> str | None:
        """Return the class of a row, or a status word; None if it has no label."""
        word = text_of(row, "label", strip=False)
        if word is None or not word.strip():
            return None
        whole = word.strip().removesuffix(".0")  # how pandas writes 3 beside empty ones
        for form in (word, word.strip(), whole):
            if form in self.names:
                return form
        plain = word.strip().casefold()
        alike = self._folded.get(plain, ())
        if len(alike) == 1:
            return alike[0]
        if plain in STATUS_WORDS:
            return plain
        is_quick = len(self._hints) * len(self._folded) < _MAX_COMPARISONS
        if plain not in self._hints and is_quick:
            near = get_close_matches(plain[:_MAX_SHOWN], list(self._folded), n=1)
            hint = f" Did you mean {quoted(self._folded[near[0]][-1])}?" if near else ""
            self._hints[plain] = hint
        hint = self._hints.get(plain, "")
        raise FaultyRowError(f"there is no class {quoted(word.strip())}.{hint}")


def _read_answer(
    row: Row, line: int, images: ImageFinder, classes: ClassFinder
) -> Answer:
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
    return Answer(
        id=identifier,
        label=label,
        skipped=status == SKIP,
        unsure=status == UNSURE,
        annotator=text_of(row, "annotator"),
        time=_read_time(text_of(row, "time")),
        lead_time=_read_seconds(text_of(row, "lead_time")),
        line=line,
    )


def _read_time(word: str | None) -> datetime | None:
    if word is None:
        return None
    try:
        time = datetime.fromisoformat(word)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        time.astimezone(UTC)  # fails for the first day of year 1
    except (ValueError, OverflowError):
        raise FaultyRowError(
            f"has the time {quoted(word)}; write 2026-01-31T12:00:00Z."
        ) from None
    return time


def _read_seconds(word: str | None) -> float | None:
    if word is None:
        return None
    try:
        seconds = float(word.replace(",", "."))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise FaultyRowError(f"has the lead_time {quoted(word)}; write seconds.")
    return seconds


def text_of(row: Row, column: str, *, strip: bool = True) -> str | None:
    """Return a cell as text; None where it is empty."""
    cell = row.get(column)
    if cell is None:
        return None
    if not isinstance(cell, str | int | float) or isinstance(cell, bool):
        raise FaultyRowError(f"the {column} is {cell!r:.80}; write text or a number.")
    word = str(cell).strip() if strip else str(cell)
    return word or None


def plain_path(name: str) -> str:
    """Return a path as a project writes it, with forward slashes."""
    return PurePosixPath(name.strip().replace("\\", "/")).as_posix()


def quoted(name: Any) -> str:
    """Return a name in quotes, printable and shortened to 80 characters."""
    shown = printable(str(name))
    return f"'{shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + '...'}'"
