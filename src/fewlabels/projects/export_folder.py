"""The folder of an export: labels, predictions, the latest model and a manifest.

The files of an export belong together. They are written into a new folder that takes
the place of the last export in one step, and only files that are as ``manifest.json``
says they were written are replaced.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError
from torch.nn import functional as F

from fewlabels import files
from fewlabels.errors import UnlearnedLabelsError, UsageError, count
from fewlabels.models import model_folder
from fewlabels.projects import export
from fewlabels.projects.folder import NUM_TO_TELL_APART, ModelRecord
from fewlabels.projects.model_training import is_up_to_date
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.status import project_status
from fewlabels.projects.store.records import LABELS

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

_MANIFEST = "manifest.json"
_MAX_MANIFEST = 2**20
_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db"})  # made by looking at a folder


class Manifest(BaseModel):
    """What ``manifest.json`` holds."""

    model_config = ConfigDict(frozen=True)

    format: Literal["fewlabels-export"] = "fewlabels-export"
    format_version: Literal[1] = 1
    sha256: dict[str, str]
    """Hash of each file by its path below the folder."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    files: tuple[Path, ...]
    num_labels: int
    """Rows of ``labels.csv``, those of the audit slice included."""
    model: ModelRecord | None
    """The model among them; None: none was trained."""

    def __str__(self) -> str:
        """Return which model was written, what it learned from, and how many files."""
        labels = count(self.num_labels, "label")
        what = f"{labels} and no model"
        if self.model is not None:
            learned = count(self.model.num_labeled, "label")
            what = f"{self.model.name}, which learned from {learned}, and {labels}"
        return f"Exported {what} to {self.folder}, {count(len(self.files), 'file')}."


def needs_training(project: "Project") -> bool:
    """Return whether the project's trainer should learn first, which takes seconds.

    An :class:`UnlearnedLabelsError` is raised if it should but takes longer, or is not
    possible.
    """
    snapshot, done = project.snapshot(), project.records()
    if is_up_to_date(project, snapshot):
        return False
    own = project.settings.trainer.name
    why = f"training by '{own}' takes longer than an export. Train first"
    if len(set(snapshot.labels) - {None}) < NUM_TO_TELL_APART:
        why = "training needs labels of at least two classes. Label more images"
    elif done and done[-1].trainer != own:
        why = f"it was trained by '{done[-1].trainer}', not '{own}'. Train again"
    elif project.trainer().num_steps is None:
        return True
    missing = "There is no model yet"
    if done:
        missing = f"{done[-1].name} has not learned from all labels"
    raise UnlearnedLabelsError(f"{missing}, and {why}, or export as it is.")


def export_project(
    project: "Project",
    folder: Path,
    *,
    onnx: bool = False,
    also: Callable[[Path], object] | None = None,
) -> Exported:
    """Write labels, predictions and the latest model, all as of one moment.

    They are written beside ``folder``, with what ``also`` writes, and take its place in
    one step, when all of them are there: nobody ever sees files of two exports. The
    folder is new, empty, or an earlier export that nobody changed. Where no model was
    trained, only labels are written.

    Returns:
        The files, and which model is among them.
    """
    records = project.records()
    if onnx and not records:
        raise UsageError("No model has been trained yet to write as ONNX; train first.")
    snapshot = project.snapshot()
    path_of = {item.id: item.path for item in snapshot.items}
    rows = [
        {
            "file_name": path_of[verdict.item],
            "label": snapshot.classes[verdict.class_number],
            "annotator": verdict.annotator,
            "time": verdict.server_time,
            "round": verdict.round,
            "strategy": "audit" if verdict.item in snapshot.audit else verdict.strategy,
        }
        for verdict in snapshot.verdicts
        if verdict.kind in LABELS and verdict.class_number is not None
    ]
    target = folder.resolve()
    with files.staging_folder(target) as partial:
        export.write_labels(partial / "labels.csv", rows)
        export.write_labels(partial / "labels.parquet", rows)
        if records:
            _write_model(project, snapshot, records[-1], partial, onnx=onnx)
        if also is not None:
            also(partial)
        hashes = {name: _sha256(partial / name) for name in sorted(_names(partial))}
        text = Manifest(sha256=hashes).model_dump_json(indent=2) + "\n"
        files.replace_text(partial / _MANIFEST, text)
        check_replaceable(folder)  # it may have been changed meanwhile
        files.exchange(partial, target)
    written = tuple(folder / name for name in (*hashes, _MANIFEST))
    return Exported(folder, written, len(rows), records[-1] if records else None)


def _write_model(
    project: "Project",
    snapshot: Snapshot,
    record: ModelRecord,
    folder: Path,
    *,
    onnx: bool,
) -> None:
    """Write predictions and the model itself."""
    pool = snapshot.pool(project.images(snapshot))
    classifier = project.classifier(record, pool)

    names = snapshot.classes

    def predictions() -> Iterator[pa.Table]:
        start = 0
        for part in export.probabilities(classifier, pool.images):
            some = snapshot.items[start : start + len(part)]
            labels = [snapshot.known.get(item.id) for item in some]
            human = [None if label is None else names[label] for label in labels]
            # Classes that are younger than the model have a probability of zero.
            padded = F.pad(part, (0, len(names) - part.shape[1]))
            paths = [item.path for item in some]
            yield export.prediction_table(names, paths, padded, human)
            start += len(part)

    schema = export.prediction_schema(names)
    export.write_table(folder / "predictions.parquet", schema, predictions())
    classes = names[: len(record.classes)]  # by their current names
    model = folder / "model"
    config = model_folder.save_model(model, classifier, classes, pool.images.shape)
    strategy = project.settings.strategy.name
    card = export.model_card(config, record, project_status(project), strategy)
    files.replace_text(model / "README.md", card)
    if onnx:
        model_folder.write_onnx(model / "model.onnx", classifier, pool.images.shape)


def check_replaceable(folder: Path) -> None:
    """Raise unless a folder is missing, empty, or an export that nobody changed.

    Args:
        folder: Where an export shall be.

    Raises:
        UsageError: If a file there would be lost; it is named.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file; an export needs a folder.")
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UsageError(f"You are in '{folder}', which the export would replace.")
    with files.wrap_os_errors(folder):
        try:
            content = files.read_regular(folder / _MANIFEST, _MAX_MANIFEST)
            known = Manifest.model_validate_json(content).sha256
        except (OSError, ValidationError):
            known = {}
        for name in _names(folder):
            if known.get(name) != _sha256(folder / name):
                raise UsageError(
                    f"'{folder}' holds '{name}', which the last export did not write "
                    "or which was changed since. Move it away."
                )


def _names(folder: Path) -> Iterator[str]:
    """Yield all files and links below a folder but the manifest."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            name = path.relative_to(folder).as_posix()
            if name != _MANIFEST and path.name not in _SYSTEM_FILES:
                yield name


def _sha256(path: Path) -> str:
    """Return the hash of a file; of a link, a word that is no hash."""
    if path.is_symlink() or not path.is_file():
        return "no file"
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
