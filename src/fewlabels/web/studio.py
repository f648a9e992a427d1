"""A machine learning backend for Label Studio.

Label Studio sends tasks to get predictions, and it sends annotations, which become
labels as if a file of them had been imported.
"""

import json
import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from fewlabels.errors import AnswersError, UsageError
from fewlabels.projects import Project
from fewlabels.projects.exchange import FaultyRowError, ImageFinder, image_name
from fewlabels.web.background import Background
from fewlabels.web.browse import Browse
from fewlabels.web.messages import Facts
from fewlabels.web.session import Session

_CHOICES = re.compile(r"<Choices\b[^>]*>")
_ATTRIBUTE = re.compile(r"\b(name|toName)\s*=\s*[\"']([^\"']*)[\"']")
_ANNOTATED = frozenset({"ANNOTATION_CREATED", "ANNOTATION_UPDATED"})
_TRAIN = "START_TRAINING"
_MOST_TASKS = 1_000


class StudioTask(BaseModel):
    """An image to label, as ``ask`` wrote it; what else is sent is ignored."""

    data: dict[str, Any] = {}


class PredictionWish(BaseModel):
    """A request for predictions."""

    tasks: list[StudioTask] = Field(default=[], max_length=_MOST_TASKS)
    label_config: str | None = None


class StudioEvent(BaseModel):
    """An event in Label Studio."""

    action: str = Field(default="", max_length=100)
    task: StudioTask = StudioTask()
    annotation: dict[str, Any] = {}


def add_studio(
    app: APIRouter, session: Session, background: Background, browse: Browse
) -> None:
    """Add the addresses that Label Studio calls; the guard refuses all others there."""

    def version() -> str:
        """Return what changes whenever predictions may: after every label."""
        return f"fewlabels-{session.state()['sequence']}"

    @app.get("/health")
    def health() -> Facts:
        return {"status": "UP", "model_class": "fewlabels"}

    @app.post("/setup")
    def setup() -> Facts:
        return {"model_version": version()}

    @app.post("/predict")
    def predict(wish: PredictionWish) -> Facts:
        items = _items(session.project, wish.tasks)
        guesses = browse.predictions([item for item in items if item is not None])
        names, now = _names(wish.label_config or ""), version()
        results = [_result(guesses.get(item or ""), names, now) for item in items]
        return {"results": results, "model_version": now}

    @app.post("/webhook", status_code=201)
    def webhook(event: StudioEvent) -> Facts:
        if event.action == _TRAIN:
            background.train()
            return {"training": background.status()["training"]["status"]}
        taken = event.action in _ANNOTATED and _import(session, event)
        return {"taken": int(taken)}


def _items(project: Project, tasks: list[StudioTask]) -> list[str | None]:
    """Return which image of the project each task shows; None: none of them."""
    images = ImageFinder({item.path: item.id for item in project.store.items()}, None)
    folder = f"{project.images_folder.resolve().name}/"
    items: list[str | None] = []
    for task in tasks:
        name = task.data.get("file_name") or image_name(task.data.get("image"))
        plain = name.removeprefix(folder) if isinstance(name, str) else None
        item = None
        with suppress(FaultyRowError):
            item = images.find({"id": task.data.get("id"), "file_name": plain})
        items.append(item)
    return items


def _names(label_config: str) -> dict[str, str]:
    """Return the names of the choices and the image in a labeling interface."""
    tag = _CHOICES.search(label_config)
    given = dict(_ATTRIBUTE.findall(tag[0])) if tag else {}
    names = {"from_name": given.get("name", "choice")}
    return names | {"to_name": given.get("toName", "image"), "type": "choices"}


def _result(guess: Facts | None, names: dict[str, str], version: str) -> Facts:
    """Return a prediction in Label Studio's format; empty if there is none."""
    if guess is None:
        return {"result": [], "score": 0.0, "model_version": version}
    score, value = guess["sure"], {"choices": [guess["predicted"]]}
    result = [{**names, "value": value, "score": score}]
    return {"result": result, "score": score, "model_version": version}


def _import(session: Session, event: StudioEvent) -> bool:
    """Import an annotation; the same one again changes nothing."""
    task = {"data": event.task.data, "annotations": [event.annotation]}
    with TemporaryDirectory() as own:
        path = Path(own) / "annotation.json"
        path.write_text(json.dumps([task]), encoding="utf-8")
        try:
            taken = session.project.tell(path)
        except AnswersError as error:
            faults = "; ".join(fault.sentence for fault in error.faults)
            raise UsageError(f"The annotation was not taken: {faults}") from error
    return bool(taken.num_new + taken.num_changed + taken.num_skipped)
