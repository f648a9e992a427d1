"""Read what was answered: every fault with its line, and all or nothing."""

import errno
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from fewlabels import files
from fewlabels.errors import AnswersError, DataError, Fault
from fewlabels.projects.exchange.label_studio import studio_rows
from fewlabels.projects.exchange.matching import (
    Classes,
    FaultyRowError,
    Images,
    answer_of,
    is_answered,
    quoted,
)
from fewlabels.projects.exchange.records import (
    Answer,
    Format,
    Numbered,
    Parsed,
    format_of,
)
from fewlabels.projects.exchange.tables import csv_rows, json_rows
from fewlabels.projects.exchange.writing import MAX_BYTES

_ROWS: dict[Format, Callable[[str], Iterator[Numbered | Fault]]] = {
    "csv": csv_rows,
    "jsonl": json_rows,
    "label-studio": studio_rows,
}
_SAVE_AGAIN = "save it as UTF-8 text, in Excel as 'CSV UTF-8'."
_STRANGE = (
    (b"\xff\xfe", "UTF-16, not UTF-8"),
    (b"\xfe\xff", "UTF-16, not UTF-8"),
    (b"PK\x03\x04", "a workbook or an archive"),
)


def read_answers(
    path: Path,
    *,
    items: Mapping[str, str],
    asked: Collection[str] | None,
    classes: Sequence[str],
    format: Format | None = None,  # noqa: A002 - the word people use
    partial: bool = False,
) -> Parsed:
    """Read a file of answers.

    A row without label and status is not answered, which is no fault.

    Args:
        path: The file.
        items: Id of each item by the path of its file below the folder of images.
        asked: Ids of the items that were asked about; None: all may be told.
        classes: Names of the classes.
        format: The kind of file; None: as the extension says.
        partial: Whether to take the good rows of a file with faults.

    Returns:
        The answers; with ``partial`` also the faults.

    Raises:
        AnswersError: If anything is wrong, unless ``partial``; lists every fault.
    """
    kind = format_of(path, format)
    content = content_of(path)
    text = content if isinstance(content, Fault) else decoded(content)
    if isinstance(text, Fault):
        parsed = Parsed((), (text,))
    else:
        parsed = _parsed(_ROWS[kind](text), Images(items, asked), Classes(classes))
    if parsed.faults and not partial:
        raise AnswersError(path, parsed.faults)
    return parsed


def _parsed(
    rows: Iterator[Numbered | Fault], images: Images, classes: Classes
) -> Parsed:
    first: dict[tuple[str, str | None], str] = {}
    answers: list[Answer] = []
    faults: list[Fault] = []
    num_rows = num_unanswered = 0
    for found in rows:
        num_rows += 1
        if isinstance(found, Fault):
            faults.append(found)
            continue
        if not is_answered(found.row):
            num_unanswered += 1
            continue
        try:
            answer = answer_of(found.row, found.line, images, classes)
            _check_first(answer, found.where, first)
        except FaultyRowError as error:
            faults.append(found.fault(error))
        else:
            answers.append(answer)
    if not num_rows:
        faults.append(Fault(1, "there is no row in the file."))
    return Parsed(tuple(answers), in_order(faults), num_unanswered)


def in_order(faults: list[Fault]) -> tuple[Fault, ...]:
    """Return faults by line; those of one line as they were found, task by task."""
    return tuple(sorted(faults, key=lambda fault: fault.line))


def _check_first(
    answer: Answer, where: str, first: dict[tuple[str, str | None], str]
) -> None:
    """Raise if the same annotator answered about the same image before."""
    key = (answer.id, answer.annotator)
    if key in first:
        who = quoted(answer.annotator) if answer.annotator else "the same annotator"
        told = f"{who} answered about this image {first[key]} already"
        raise FaultyRowError(f"{told}; keep one row.")
    first[key] = where


def content_of(path: Path) -> bytes | Fault:
    """Return the content of a file, or that it is too large."""
    try:
        return files.read_regular(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            return Fault(1, f"the file has {error.strerror} are read.")
        msg = f"'{path}' cannot be read: {error.strerror or error}. Give another file."
        raise DataError(msg) from error


def decoded(content: bytes) -> str | Fault:
    """Return the text of a file, or why it is none."""
    kind = next((word for start, word in _STRANGE if content.startswith(start)), None)
    if kind is not None:
        return Fault(1, f"the file is {kind}; {_SAVE_AGAIN}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        told = f"byte {error.start} of the file ({content[error.start]:#04x})"
        return Fault(_line(content, error.start), f"{told} is not UTF-8; {_SAVE_AGAIN}")
    if "\0" in text:
        told = f"the file is binary, not text; {_SAVE_AGAIN}"
        return Fault(_line(content, content.index(b"\0")), told)
    return text if text.strip() else Fault(1, "the file is empty.")


def _line(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1
