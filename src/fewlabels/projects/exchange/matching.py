"""From rows of a file to answers about images that were asked about."""

import errno
import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels import files
from fewlabels.data.text import printable
from fewlabels.errors import AnswersError, DataError, Fault
from fewlabels.projects.exchange.rows import (
    NAMES,
    SAYINGS,
    SKIP,
    UNSURE,
    FaultyRowError,
    Row,
    check_ending,
    read_rows,
)

MAX_BYTES = 256 * 2**20
"""Largest file of answers or labels that is read."""

_LONGEST = 80
_MOST_COMPARED = 10_000  # words with classes, which takes seconds


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
    """What a file of answers says."""

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
        asked: Ids of the items that were asked about; None: all may be told.
        classes: Names of the classes.
        partial: Whether to take the good rows of a file with faults.

    Returns:
        The answers; with ``partial`` also the faults.

    Raises:
        AnswersError: If anything is wrong, unless ``partial``; lists every fault.
    """
    check_ending(path.name)
    content, images, known = content_of(path), Images(items, asked), Classes(classes)
    first: dict[tuple[str, str | None], str] = {}
    answers: list[Answer] = []
    faults: list[Fault] = []
    num_unanswered = 0
    rows = [content] if isinstance(content, Fault) else read_rows(path.name, content)
    for found in rows:
        if isinstance(found, Fault):
            faults.append(found)
            continue
        cells = (found.row.get("label"), found.row.get("status"))
        if not any(str(cell or "").strip() or cell == 0 for cell in cells):
            num_unanswered += 1
            continue
        try:
            answer = _answer(found.row, found.line, images, known)
        except FaultyRowError as error:
            faults.append(found.fault(error))
            continue
        key = (answer.id, answer.annotator)
        if key in first:
            who = quoted(key[1]) if key[1] else "the same annotator"
            told = f"{who} answered about this image {first[key]} already"
            faults.append(found.fault(f"{told}; keep one row."))
        else:
            first[key] = found.where
            answers.append(answer)
    if not (answers or faults or num_unanswered):
        faults.append(Fault(1, "there is no row in the file."))
    if faults and not partial:
        raise AnswersError(path, in_order(faults))
    return Parsed(tuple(answers), in_order(faults), num_unanswered)


def in_order(faults: list[Fault]) -> tuple[Fault, ...]:
    """Return faults by line; those of one line as they were found, task by task."""
    return tuple(sorted(faults, key=lambda fault: fault.line))


def content_of(path: Path) -> bytes | Fault:
    """Return the content of a file, or that it is too large."""
    try:
        return files.read_regular(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            return Fault(1, f"the file has {error.strerror} are read.")
        msg = f"'{path}' cannot be read: {error.strerror or error}. Give another file."
        raise DataError(msg) from error


class Images:
    """Which image a row means."""

    def __init__(self, items: Mapping[str, str], asked: Collection[str] | None) -> None:
        """Take identifiers by path, and those that were asked about; None: all."""
        self._items = items
        self._asked = None if asked is None else frozenset(asked)

    def find(self, row: Row) -> str:
        """Return the identifier of the image that a row means.

        Its identifier counts where there is one, its name otherwise. No such image, two
        of them, or one that nobody asked about raises :class:`FaultyRowError`.
        """
        identifier = text_of(row, "id")
        name = next((row[c] for c in NAMES if row.get(c) not in (None, "")), None)
        if identifier is None and name is None:
            raise FaultyRowError("names no image; fill in file_name.")
        shown = quoted(identifier if name is None else name)
        found = named = self._by_name(name) if isinstance(name, str) else None
        if identifier is not None and identifier != named:
            is_known = identifier in self._identifiers
            if named is not None:
                raise FaultyRowError(
                    f"the id is of another image than {shown}; perhaps one column was "
                    "sorted without the others."
                    if is_known
                    else f"{shown} is not the image that was asked about, or its id "
                    "was altered: the id is of none that is known; ask again."
                )
            found = identifier if is_known else None  # known: the file was moved since
        if found is None:
            last = PurePosixPath(str(identifier if name is None else name)).name
            near = self._by_last_part.get(last, [])
            hint = f" Did you mean {quoted(near[0])}?" if len(near) == 1 else ""
            raise FaultyRowError(f"there is no image {shown} in this project.{hint}")
        if self._asked is not None and found not in self._asked:
            raise FaultyRowError(f"nobody asked about {shown}; take the row out.")
        return found

    def _by_name(self, name: str) -> str | None:
        """Return the image with this name, however it was written."""
        plain = plain_path(name)
        for form in (name, name.strip(), plain):
            if form in self._items:
                return self._items[form]
        return self._composed.get(unicodedata.normalize("NFC", plain))

    @cached_property
    def _identifiers(self) -> frozenset[str]:
        return frozenset(self._items.values())

    @cached_property
    def _composed(self) -> dict[str, str | None]:
        """Names with accents in one form; None where this makes two the same."""
        found: dict[str, str | None] = {}
        for name, identifier in self._items.items():
            form = unicodedata.normalize("NFC", name)
            found[form] = None if form in found else identifier
        return found

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._items:
            found.setdefault(PurePosixPath(name).name, []).append(name)
        return found


class Classes:
    """Which class a row means."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the names of the classes."""
        self.names = frozenset(names)
        self._folded: dict[str, list[str]] = {}
        for name in names:
            self._folded.setdefault(name.casefold(), []).append(name)
        self._hints: dict[str, str] = {}

    def find(self, row: Row) -> str | None:
        """Return the class of a row, or one of ``SAYINGS``; None if it has no label."""
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
        if plain in SAYINGS:
            return plain
        hint = self._hint(plain)
        raise FaultyRowError(f"there is no class {quoted(word.strip())}.{hint}")

    def _hint(self, word: str) -> str:
        """Say which class may be meant, as long as that takes little time."""
        if word not in self._hints:
            if len(self._hints) * len(self._folded) >= _MOST_COMPARED:
                return ""
            near = get_close_matches(word[:_LONGEST], list(self._folded), n=1)
            name = quoted(self._folded[near[0]][-1]) if near else ""
            self._hints[word] = f" Did you mean {name}?" if near else ""
        return self._hints[word]


def _answer(row: Row, line: int, images: Images, classes: Classes) -> Answer:
    """Return the answer in a row, if all of it is right."""
    identifier = images.find(row)
    status = (text_of(row, "status") or "").lower()
    if status not in {"", SKIP, UNSURE}:
        raise FaultyRowError(
            f"the status {quoted(status)} is neither '{SKIP}' nor '{UNSURE}'."
        )
    label = classes.find(row)
    if label is not None and label not in classes.names:
        if status not in {"", SAYINGS[label]}:
            told = f"says {quoted(label)} as its label and {quoted(status)} as its"
            raise FaultyRowError(f"{told} status; decide on one.")
        status, label = SAYINGS[label], None
    if status == SKIP and label is not None:
        told = f"is skipped and has the label {quoted(label)}; decide on one."
        raise FaultyRowError(told)
    return Answer(
        id=identifier,
        label=label,
        skipped=status == SKIP,
        unsure=status == UNSURE,
        annotator=text_of(row, "annotator"),
        time=_time(row),
        lead_time=_lead_time(row),
        line=line,
    )


def _time(row: Row) -> datetime | None:
    word = text_of(row, "time")
    if word is None:
        return None
    try:
        time = datetime.fromisoformat(word)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        time.astimezone(UTC)  # the first day of all has no yesterday
    except (ValueError, OverflowError):
        told = f"the time {quoted(word)} is not written as 2026-01-31T12:00:00Z."
        raise FaultyRowError(told) from None
    return time


def _lead_time(row: Row) -> float | None:
    word = text_of(row, "lead_time")
    try:
        seconds = None if word is None else float(word.replace(",", "."))
    except ValueError:
        seconds = math.nan
    if seconds is not None and not 0 <= seconds < math.inf:
        msg = f"the lead_time {quoted(word)} is not a number of seconds."
        raise FaultyRowError(msg)
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
    """Return a name in quotes, in one line of bearable length."""
    shown = printable(str(name))
    return f"'{shown if len(shown) <= _LONGEST else shown[:_LONGEST] + '...'}'"
