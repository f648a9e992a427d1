"""From rows of a file to answers about images that were asked about."""

import math
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from fewlabels.data.unreadable import printable
from fewlabels.projects.exchange.records import (
    NAMES,
    SAYINGS,
    SKIP,
    UNSURE,
    Answer,
    Row,
)

_LONGEST = 80
_MOST_COMPARED = 10_000  # words with classes, which takes seconds
_SAYING = ("label", "status")


class FaultyRowError(Exception):
    """A row that cannot be taken; the message is the sentence for the fault."""


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
        cells = map(row.get, NAMES)
        name = next((cell for cell in cells if cell is not None and cell != ""), None)
        named = None if name is None else self._by_name(name)
        if identifier is None and name is None:
            raise FaultyRowError("names no image; fill in file_name.")
        found = self._agreed(identifier, name, named)
        if self._asked is not None and found not in self._asked:
            shown = quoted(identifier if name is None else name)
            raise FaultyRowError(f"nobody asked about {shown}; take the row out.")
        return found

    def _agreed(self, identifier: str | None, name: Any, named: str | None) -> str:
        """Return the one image that identifier and name mean."""
        if identifier is None or identifier == named:
            if named is None:
                raise FaultyRowError(self._unknown(name))
            return named
        if identifier not in self._identifiers:
            if named is None:
                raise FaultyRowError(
                    self._unknown(identifier if name is None else name)
                )
            raise FaultyRowError(
                f"{quoted(name)} is not the image that was asked about, or its id was "
                "altered: the id is of none that is known; ask again."
            )
        if named is not None:
            raise FaultyRowError(
                f"the id is of another image than {quoted(name)}; perhaps one column "
                "was sorted without the others."
            )
        return identifier  # the file was moved since

    def _by_name(self, name: Any) -> str | None:
        """Return the image with this name, however it was written."""
        if not isinstance(name, str):
            return None
        plain = plain_path(name)
        for form in (name, name.strip(), plain):
            if form in self._items:
                return self._items[form]
        return self._composed.get(unicodedata.normalize("NFC", plain))

    def _unknown(self, name: Any) -> str:
        found = self._by_last_part.get(PurePosixPath(str(name)).name, [])
        hint = f" Did you mean {quoted(found[0])}?" if len(found) == 1 else ""
        return f"there is no image {quoted(name)} in this project.{hint}"

    @cached_property
    def _identifiers(self) -> frozenset[str]:
        return frozenset(self._items.values())

    @cached_property
    def _composed(self) -> dict[str, str]:
        """Names with accents in one form, where this leaves them distinct."""
        found: dict[str, str] = {}
        twice = set()
        for name, identifier in self._items.items():
            form = unicodedata.normalize("NFC", name)
            twice.update({form} & found.keys())
            found[form] = identifier
        return {form: found[form] for form in found if form not in twice}

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


def is_answered(row: Row) -> bool:
    """Return whether a row says anything about its image."""
    return any(str(row.get(c) or "").strip() or row.get(c) == 0 for c in _SAYING)


def answer_of(row: Row, line: int, images: Images, classes: Classes) -> Answer:
    """Return the answer in a row that :func:`is_answered`, if all of it is right."""
    identifier = images.find(row)
    status = (text_of(row, "status") or "").lower()
    if status not in {"", SKIP, UNSURE}:
        told = f"the status {quoted(status)} is neither '{SKIP}' nor '{UNSURE}'."
        raise FaultyRowError(told)
    label = classes.find(row)
    if label is not None and label not in classes.names:
        status, label = _said(label, status), None
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


def _said(word: str, status: str) -> str:
    """Return the status that a word in the column of labels stands for."""
    meant = SAYINGS[word]
    if status not in {"", meant}:
        told = f"says {quoted(word)} as its label and {quoted(status)} as its status"
        raise FaultyRowError(f"{told}; decide on one.")
    return meant


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
    if word is None:
        return None
    try:
        seconds = float(word.replace(",", "."))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise FaultyRowError(
            f"the lead_time {quoted(word)} is not a number of seconds."
        )
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
