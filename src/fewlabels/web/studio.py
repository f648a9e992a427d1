"""What Label Studio asks of a machine learning backend, for people who stay there.

It brings tasks and wants predictions, and it tells of annotations, which become labels
as if a file of them had been told.
"""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from fewlabels.errors import AnswersError, UsageError
from fewlabels.projects import Project
from fewlabels.projects.exchange.reader import ImageFinder
from fewlabels.projects.exchange.rows import FaultyRowError, image_name
from fewlabels.web.background import Background
from fewlabels.web.desk import Desk, Facts

_CHOICES = re.compile(r"<Choices\b[^>]*>")
_ATTRIBUTE = re.compile(r"\b(name|toName)\s*=\s*[\"']([^\"']*)[\"']")
_ANNOTATED = frozenset({"ANNOTATION_CREATED", "ANNOTATION_UPDATED"})
_TRAIN = "START_TRAINING"
_MOST_TASKS = 1_000


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)  # it sends much else


class Task(_Message):
    """An image to label there, as ``ask`` wrote it."""

    data: dict[str, Any] = {}


class Prediction(_Message):
    """A wish for predictions."""

    tasks: list[Task] = Field(default=[], max_length=_MOST_TASKS)
    label_config: str | None = None


class Happening(_Message):
    """Something that happened there."""

    action: str = Field(default="", max_length=100)
    task: Task = Task()
    annotation: dict[str, Any] = {}


def add_studio(app: FastAPI, desk: Desk, background: Background) -> None:
    """Add the addresses that Label Studio calls; the guard lets nobody else there."""

    @app.get("/health")
    def health() -> Facts:
        return {"status": "UP", "model_class": "fewlabels"}

    @app.post("/setup")
    def setup() -> Facts:
        return {"model_version": _version(desk)}

    @app.post("/predict")
    def predict(wish: Prediction) -> Facts:
        items = _items(desk.project, wish.tasks)
        known = sorted({item for item in items if item is not None})
        found: Facts = {}
        if known and background.is_ready:
            found = background.ask("suggestions", items=known)
        names = _names(wish.label_config or "")
        version = _version(desk)
        results = [_result(found.get(item or ""), names, version) for item in items]
        return {"results": results, "model_version": version}

    @app.post("/webhook", status_code=201)
    def webhook(told: Happening) -> Facts:
        if told.action == _TRAIN:
            background.train()
            return {"training": background.told()["training"]["status"]}
        taken = told.action in _ANNOTATED and _tell(desk, told)
        return {"taken": int(taken)}


def _version(desk: Desk) -> str:
    """Return what changes whenever predictions may: after every label."""
    return f"fewlabels-{desk.state()['sequence']}"


def _items(project: Project, tasks: list[Task]) -> list[str | None]:
    """Return which image of the project each task shows; None: none of them."""
    images = ImageFinder({one.path: one.id for one in project.store.items()}, None)
    folder = f"{project.images_folder.resolve().name}/"
    found: list[str | None] = []
    for task in tasks:
        name = task.data.get("file_name") or image_name(task.data.get("image"))
        plain = name.removeprefix(folder) if isinstance(name, str) else None
        try:
            row = {"id": task.data.get("id"), "file_name": plain}
            found.append(images.find(row))
        except FaultyRowError:
            found.append(None)
    return found


def _names(label_config: str) -> dict[str, str]:
    """Return what the choices of a labeling interface, and their image, are called."""
    tag = _CHOICES.search(label_config)
    given = dict(_ATTRIBUTE.findall(tag[0])) if tag else {}
    names = {"from_name": given.get("name", "choice")}
    return names | {"to_name": given.get("toName", "image"), "type": "choices"}


def _result(guess: Facts | None, names: dict[str, str], version: str) -> Facts:
    """Return a prediction as it is understood there, empty where nothing is known."""
    if guess is None:
        return {"result": [], "score": 0.0, "model_version": version}
    value = {"choices": [guess["class"]]}
    return {
        "result": [{**names, "value": value, "score": guess["sure"]}],
        "score": guess["sure"],
        "model_version": version,
    }


def _tell(desk: Desk, told: Happening) -> bool:
    """Take an annotation; the same one again changes nothing."""
    task = {"data": told.task.data, "annotations": [told.annotation]}
    with TemporaryDirectory() as own:
        path = Path(own) / "annotation.json"
        path.write_text(json.dumps([task]), encoding="utf-8")
        try:
            taken = desk.project.tell(path)
        except AnswersError as error:
            faults = "; ".join(fault.sentence for fault in error.faults)
            raise UsageError(f"The annotation was not taken: {faults}") from error
    desk.on_change()
    return bool(taken.num_new + taken.num_changed + taken.num_skipped)
