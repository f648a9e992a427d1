"""Write what is asked."""

import csv
import io
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from fewlabels.errors import ShapeError, UsageError
from fewlabels.files import read_regular, replace_text
from fewlabels.projects.exchange.cells import ID_MARK, guarded
from fewlabels.projects.exchange.records import (
    ANSWERED,
    AskedItem,
    Format,
    Numbered,
    format_of,
)
from fewlabels.projects.exchange.tables import csv_rows, json_rows

IMAGE_ADDRESS = "/data/local-files/?d="
"""Where Label Studio serves local files from; the path below its root follows."""

MAX_BYTES = 256 * 2**20
"""Largest file of answers that is read."""

_LARGEST = 2**20
_CHOICE = re.compile(r"""    <Choice value=("[^"]*"|'[^']*')/>\n""")
_COLUMNS = (
    *("number", "file_name", "label", "status", "annotator", "suggestion"),
    *("confidence", "round", "model", "id"),
)
_MAY_HAVE = frozenset({*_COLUMNS, *ANSWERED, "probabilities", "rank", ""})
_TASK = frozenset({"data", "predictions"})


def write_query(
    path: Path,
    asked: Sequence[AskedItem],
    classes: Sequence[str],
    format: Format | None = None,  # noqa: A002 - the word people use
    *,
    image_address: str = IMAGE_ADDRESS,
) -> None:
    """Write the images to be labeled, in the order of their numbers, wholly or not.

    Label Studio's format also gets its labeling configuration, at ``config_path``.

    Args:
        path: The file.
        asked: The images.
        classes: Names of the classes, in the order of the probabilities.
        format: The kind of file; None: as the extension says.
        image_address: For Label Studio: what comes before the path of each image.

    Raises:
        UsageError: If nothing is asked, or somebody else's file would be replaced.
    """
    if not asked:
        raise UsageError(f"There is nothing to ask, so '{path}' was not written.")
    ordered = sorted(asked, key=lambda item: item.number)
    for item in ordered:
        _check_probabilities(item, classes)
    kind = format_of(path, format)
    if kind == "csv":
        text = _table(ordered, classes)
        # Excel takes a file for UTF-8 by this mark only; other programs need none.
        replace_text(path, text if text.isascii() else "\ufeff" + text)
    elif kind == "jsonl":
        lines = [
            json.dumps(_line(item, classes), ensure_ascii=False) for item in ordered
        ]
        replace_text(path, "".join(line + "\n" for line in lines))
    else:
        _check_config(config_path(path))
        replace_text(config_path(path), label_config(classes))
        tasks = [
            _task(item, classes, ordered[-1].number, image_address) for item in ordered
        ]
        replace_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")


def is_query(path: Path) -> bool:
    """Whether a file is a query as it was written here, but for its answers.

    Args:
        path: A file of answers that can be read.

    Returns:
        False where it has columns of somebody's own, or none that only a query has.
    """
    text = read_regular(path, MAX_BYTES).decode("utf-8-sig")
    kind = format_of(path, None)
    if kind == "label-studio":
        tasks = json.loads(text)
        return all(one.keys() <= _TASK and "round" in one["data"] for one in tasks)
    rows = csv_rows(text) if kind == "csv" else json_rows(text)
    columns = (set(one.row) for one in rows if isinstance(one, Numbered))
    return all({"round", "id"} <= names <= _MAY_HAVE for names in columns)


def config_path(path: Path) -> Path:
    """Return where the labeling configuration of a Label Studio file is written."""
    return path.with_name(path.stem + ".config.xml")


def label_config(classes: Sequence[str]) -> str:
    """Return XML for Label Studio's labeling interface."""
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in classes)
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <Choices name="choice" toName="image">\n{choices}  </Choices>\n</View>\n'
    )


def _check_config(path: Path) -> None:
    """Raise if a labeling configuration that was not written here would be replaced."""
    if not path.exists():
        return
    with suppress(OSError, UnicodeDecodeError):
        found = read_regular(path, _LARGEST).decode("utf-8")
        if _CHOICE.sub("", found) == label_config(()):
            return
    raise UsageError(
        f"'{path}' exists already, is not as fewlabels wrote it, and was not "
        "touched. Give the query another name."
    )


def _check_probabilities(item: AskedItem, classes: Sequence[str]) -> None:
    if item.probabilities is not None and len(item.probabilities) != len(classes):
        raise ShapeError(
            f"'{item.path}' has {len(item.probabilities)} probabilities and there are "
            f"{len(classes)} classes; give one for each."
        )


def suggestion(item: AskedItem, classes: Sequence[str]) -> tuple[str, float] | None:
    """Return the likeliest class and its probability; None where nothing is known."""
    if not item.probabilities:
        return None
    numbers = [float(number) for number in item.probabilities]
    best = max(range(len(numbers)), key=numbers.__getitem__)
    return classes[best], numbers[best]


def _table(asked: Sequence[AskedItem], classes: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, _COLUMNS)
    table.writeheader()
    for item in asked:
        name, share = suggestion(item, classes) or ("", None)
        table.writerow(
            {
                "number": item.number,
                "file_name": guarded(item.path),
                "suggestion": guarded(name),
                "confidence": "" if share is None else f"{share:.4f}",
                "round": item.round,
                "model": guarded(item.model or ""),
                "id": ID_MARK + item.id,
            }
        )
    return text.getvalue()


def _line(item: AskedItem, classes: Sequence[str]) -> dict[str, Any]:
    best = suggestion(item, classes)
    return {
        "number": item.number,
        "file_name": item.path,
        "label": None,
        "status": None,
        "annotator": None,
        "suggestion": best[0] if best else None,
        "probabilities": _named(item, classes),
        "round": item.round,
        "model": item.model,
        "id": item.id,
    }


def _named(item: AskedItem, classes: Sequence[str]) -> dict[str, float] | None:
    if item.probabilities is None:
        return None
    return {
        name: round(float(number), 6)
        for name, number in zip(classes, item.probabilities, strict=True)
    }


def _task(
    item: AskedItem, classes: Sequence[str], last: int, image_address: str
) -> dict[str, Any]:
    """Return a task; Label Studio shows the lowest score first, so the number decides.

    A prediction is there in any case, because the score is a part of it.
    """
    best = suggestion(item, classes)
    choice = {"from_name": "choice", "to_name": "image", "type": "choices"}
    result = [{**choice, "value": {"choices": [best[0]]}}] if best else []
    return {
        "data": {
            "image": image_address + quote(item.path),
            "file_name": item.path,
            "id": item.id,
            "number": item.number,
            "round": item.round,
            "model": item.model,
            "probabilities": _named(item, classes),
        },
        "predictions": [
            {
                "model_version": f"{item.model or 'fewlabels'}-r{item.round}",
                "score": item.number / last,
                "result": result,
            }
        ],
    }
