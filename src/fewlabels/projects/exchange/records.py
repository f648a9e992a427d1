"""What is asked, what is answered, and what a row of a file says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from fewlabels.errors import Fault, UnknownNameError

Format = Literal["csv", "jsonl", "label-studio"]
"""The kinds of file that ask and answer."""

EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "label-studio",
}
"""The format that an extension stands for."""

SKIP, UNSURE = "skip", "unsure"
"""What the column ``status`` may say."""

SAYINGS = {SKIP: SKIP, UNSURE: UNSURE, "?": UNSURE}
"""What the column ``label`` may say besides a class, and the status it stands for."""

NAMES = ("file_name", "path", "filename")
"""Columns that may name the image; the first is the one that is written."""

ANSWERED = ("id", "label", "status", "annotator", "time", "lead_time")
"""Columns that are read besides the name."""

Row = Mapping[str, Any]
"""The cells of one row by column."""


class Numbered(NamedTuple):
    """A row and where it is."""

    line: int
    """The line that it begins on; 0 where there are no lines."""
    row: Row
    task: int = 0
    """Its number among the tasks of an export, which may be all on one line."""

    @property
    def where(self) -> str:
        """Say where the row is."""
        if self.line == 0:
            return "elsewhere"
        return f"in task {self.task}" if self.task else f"on line {self.line}"

    def fault(self, sentence: object) -> Fault:
        """Return what is wrong with the row."""
        task = f"task {self.task}: " if self.task else ""
        return Fault(self.line, f"{task}{sentence}")


@dataclass(frozen=True, kw_only=True)
class AskedItem:
    """An image that somebody is asked about."""

    id: str
    """Id of the item, which it keeps when the file moves."""
    path: str
    """Path below the folder of images, with forward slashes."""
    number: int
    """Place in its round, from 1; the contact sheet shows it too."""
    probabilities: Sequence[float] | None = None
    """What the model thinks, one number per class; None where there is no model."""
    round: int
    model: str | None = None
    """Which model proposed the image and made the prediction."""


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
    line: int
    """Where in the file."""


@dataclass(frozen=True)
class Parsed:
    """What a file of answers says."""

    answers: tuple[Answer, ...]
    faults: tuple[Fault, ...] = ()
    """What was left out, and why; empty unless faults were allowed."""
    num_unanswered: int = 0
    """Rows without an answer."""


def format_of(path: Path, wanted: Format | None) -> Format:
    """Return the format of a file, by its extension unless it is given."""
    if wanted is None:
        if path.suffix.lower() not in EXTENSIONS:
            raise UnknownNameError("kind of file of answers", path.name, EXTENSIONS)
        return EXTENSIONS[path.suffix.lower()]
    if wanted not in get_args(Format):
        raise UnknownNameError("format", wanted, get_args(Format))
    return wanted
