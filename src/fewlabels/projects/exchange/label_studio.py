"""Rows of Label Studio's JSON export: one per annotation.

A task holds ``data``, with what was asked, and ``annotations``, each with ``result``,
``was_cancelled`` (a skip), ``completed_by``, ``lead_time`` and times. A task without
annotations, and an annotation without a choice, is not answered. Whether somebody was
unsure cannot be said in this format.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fewlabels.errors import Fault
from fewlabels.projects.exchange.records import SKIP, Numbered, Row

_BLANK = " \t\r\n"
_UPLOAD = re.compile(r"^data/upload/(?:\d+/)?[0-9a-f]{8}-")  # precedes the file's name


def studio_rows(
    text: str, image_column: str | None = None
) -> Iterator[Numbered | Fault]:
    """Yield a row per annotation of an export, an array of tasks, and faults.

    The image is named by ``file_name`` or ``image`` in the data of a task, unless
    another column is given.

    Yields:
        A row, on the line where its task begins, or a fault.
    """
    for number, (line, task) in enumerate(_elements(text), start=1):
        if isinstance(task, Fault):
            yield task
            continue
        fault = _task_fault(task)
        if fault:
            yield Fault(line, f"task {number} {fault}")
            continue
        annotations = task.get("annotations") or [{"result": []}]
        for annotation in annotations:
            row = _row(task, annotation, image_column)
            if isinstance(row, str):
                yield Fault(line, f"task {number} {row}")
            else:
                yield Numbered(line, row, number)


def _elements(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each element of an array with its line; a fault where it is broken."""
    decoder = json.JSONDecoder()
    place = _after_blank(text, 0)
    if text[place : place + 1] != "[":
        sentence = "is not an array of tasks; export as JSON from Label Studio."
        yield 1, Fault(1, sentence)
        return
    place = _after_blank(text, place + 1)
    line, counted = 1, 0
    while text[place : place + 1] != "]":
        line, counted = line + text.count("\n", counted, place), place
        try:
            element, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            yield error.lineno, Fault(error.lineno, f"is not JSON: {error.msg}.")
            return
        except (ValueError, RecursionError) as error:
            yield line, Fault(line, f"is not JSON: {error}.")
            return
        yield line, element
        place = _after_blank(text, place)
        if text[place : place + 1] == ",":
            place = _after_blank(text, place + 1)
        elif text[place : place + 1] != "]":
            last = text.count("\n", 0, place) + 1
            yield last, Fault(last, "is not JSON: the array of tasks is cut short.")
            return
    if text[place + 1 :].strip():
        last = text.count("\n", 0, place) + 1
        yield last, Fault(last, "is not JSON: something follows the array of tasks.")


def _after_blank(text: str, place: int) -> int:
    while place < len(text) and text[place] in _BLANK:
        place += 1
    return place


def _task_fault(task: Any) -> str:
    """Say what is wrong with the form of a task; nothing if it is in order."""
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        return "has no 'data'; export as JSON, not as JSON-MIN."
    annotations = task.get("annotations") or []
    if isinstance(annotations, list) and all(isinstance(a, dict) for a in annotations):
        return ""
    return "has 'annotations' that are not a list of objects."


def _row(
    task: dict[str, Any], annotation: dict[str, Any], image_column: str | None
) -> Row | str:
    """Return what an annotation says, or what is wrong with it."""
    data = task["data"]
    own_name = data.get("file_name") if image_column is None else None
    row = {
        "id": data.get("id"),
        "file_name": own_name or image_name(data.get(image_column or "image")),
        "annotator": _annotator(annotation.get("completed_by")),
        "time": annotation.get("created_at"),
        "lead_time": annotation.get("lead_time"),
        "label": None,
        "status": None,
    }
    if annotation.get("was_cancelled"):
        return {**row, "status": SKIP}
    choices = _choices(annotation.get("result") or [])
    if choices is None:
        return "has a result that is not a list of choices."
    if len(choices) > 1:
        told = ", ".join(map(str, choices))
        return f"has the {len(choices)} choices {told}; one is asked for."
    return {**row, "label": choices[0] if choices else None}


def _choices(result: Any) -> list[Any] | None:
    """Return all choices of a result; None if it has another form."""
    try:
        regions = [one for one in result if one["type"] == "choices"]
        chosen = [one["value"]["choices"] for one in regions]
    except (TypeError, KeyError):
        return None
    if not all(isinstance(some, list) for some in chosen):
        return None
    return [choice for some in chosen for choice in some]


def _annotator(completed_by: Any) -> Any:
    """Return who it was: the e-mail address where there is one, else the number."""
    if isinstance(completed_by, dict):
        return completed_by.get("email") or completed_by.get("id")
    return completed_by


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
