"""Files of questions: CSV, JSON Lines or Label Studio's tasks, by the ending."""

import csv
import io
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from fewlabels.errors import UsageError
from fewlabels.files import read_regular, replace_text
from fewlabels.projects.exchange.reader import MAX_BYTES, file_rows
from fewlabels.projects.exchange.rows import (
    ANSWERED,
    ID_MARK,
    SourceRow,
    check_ending,
    escape_formula,
)

IMAGE_ADDRESS = "/data/local-files/?d="
"""Where Label Studio serves local files from; the path below its root follows."""

_MAX_CONFIG = 2**20
_CHOICE = re.compile(r"""    <Choice value=("[^"]*"|'[^']*')/>\n""")
_COLUMNS = (
    *("number", "file_name", "label", "status", "annotator", "suggestion"),
    *("confidence", "round", "model", "id"),
)
_ALLOWED_COLUMNS = frozenset({*_COLUMNS, *ANSWERED, "probabilities", "rank", ""})
_TASK_KEYS = frozenset({"data", "predictions"})


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
    """What the model predicts, one number per class; None where there is no model."""
    round: int
    model: str | None = None
    """Which model proposed the image and made the prediction."""


def write_query(
    path: Path,
    asked: Sequence[AskedItem],
    classes: Sequence[str],
    *,
    image_address: str = IMAGE_ADDRESS,
) -> None:
    """Write the images to be labeled, in the order of their numbers, wholly or not.

    Label Studio's format also gets its labeling configuration, at ``config_path``.

    Args:
        path: The file; its ending decides the format.
        asked: The images.
        classes: Names of the classes, in the order of the probabilities.
        image_address: For Label Studio: what comes before the path of each image.

    Raises:
        UsageError: If nothing is asked, or somebody else's file would be replaced.
    """
    if not asked:
        raise UsageError(f"There is nothing to ask, so '{path}' was not written.")
    ending = check_ending(path.name)
    ordered = sorted(asked, key=lambda item: item.number)
    entries = [_entry(item, classes) for item in ordered]
    if ending == ".json":
        _check_config(config_path(path))
        replace_text(config_path(path), label_config(classes))
        last = ordered[-1].number
        tasks = [_task(entry, last, image_address) for entry in entries]
        text = json.dumps(tasks, ensure_ascii=False, indent=1) + "\n"
    elif ending in {".jsonl", ".ndjson"}:
        text = ""
        for entry in entries:
            del entry["confidence"]
            text += json.dumps(entry, ensure_ascii=False) + "\n"
    else:
        buffer = io.StringIO(newline="")
        table = csv.DictWriter(buffer, _COLUMNS, extrasaction="ignore")
        table.writeheader()
        for entry in entries:
            for name in ("file_name", "suggestion", "model"):
                entry[name] = escape_formula(entry[name] or "")
            if entry["confidence"] is not None:
                entry["confidence"] = f"{entry['confidence']:.4f}"
            table.writerow(entry | {"id": ID_MARK + entry["id"]})
        text = buffer.getvalue()
        # Excel takes a file for UTF-8 by this mark only; other programs need none.
        text = text if text.isascii() else "\ufeff" + text
    replace_text(path, text)


def is_query(path: Path) -> bool:
    """Return whether a file of answers is a query as it was written here.

    False where it has columns of somebody's own, or none that only a query has.
    """
    if path.suffix.lower() == ".json":
        tasks = json.loads(read_regular(path, MAX_BYTES))
        return all(t.keys() <= _TASK_KEYS and "round" in t["data"] for t in tasks)
    rows = (entry.row for entry in file_rows(path) if isinstance(entry, SourceRow))
    return all({"round", "id"} <= set(row) <= _ALLOWED_COLUMNS for row in rows)


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
        text = read_regular(path, _MAX_CONFIG).decode("utf-8")
        if _CHOICE.sub("", text) == label_config(()):
            return
    raise UsageError(f"'{path}' exists and was changed. Give the query another name.")


def suggestion(item: AskedItem, classes: Sequence[str]) -> tuple[str, float] | None:
    """Return the likeliest class and its probability; None where nothing is known."""
    if not item.probabilities:
        return None
    numbers = [float(number) for number in item.probabilities]
    best = max(range(len(numbers)), key=numbers.__getitem__)
    return classes[best], numbers[best]


def _entry(item: AskedItem, classes: Sequence[str]) -> dict[str, Any]:
    """Return what a file says about an image."""
    best, confidence = suggestion(item, classes) or (None, None)
    shares = None
    if item.probabilities is not None:
        pairs = zip(classes, item.probabilities, strict=True)
        shares = {name: round(float(number), 6) for name, number in pairs}
    return {
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


def _task(entry: dict[str, Any], last: int, image_address: str) -> dict[str, Any]:
    """Return a task of Label Studio.

    It shows the lowest score first, so there is a prediction in any case, whose score
    is the number divided by the last one.
    """
    shown = ("file_name", "id", "number", "round", "model", "probabilities")
    choice = {"from_name": "choice", "to_name": "image", "type": "choices"}
    best = entry["suggestion"]
    result = [] if best is None else [{**choice, "value": {"choices": [best]}}]
    prediction = {
        "model_version": f"{entry['model'] or 'fewlabels'}-r{entry['round']}",
        "score": entry["number"] / last,
        "result": result,
    }
    image = image_address + quote(entry["file_name"])
    data = {"image": image} | {name: entry[name] for name in shown}
    return {"data": data, "predictions": [prediction]}
