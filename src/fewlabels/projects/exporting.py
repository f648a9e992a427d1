"""Everything a project has come to, as files for other programs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch.nn import functional as F

from fewlabels import files
from fewlabels.errors import UnlearnedLabelsError, UsageError, count
from fewlabels.pool import Images
from fewlabels.projects.export import (
    Facts,
    LabelRow,
    Points,
    PredictionRows,
    check_replaceable,
    save_model,
    write_labels,
    write_manifest,
    write_onnx,
    write_predictions,
)
from fewlabels.projects.model_training import is_up_to_date
from fewlabels.projects.models import NUM_TO_TELL_APART, ModelRecord
from fewlabels.projects.prediction import probabilities
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.status import status
from fewlabels.projects.store.records import LABELS
from fewlabels.protocols import Classifier

if TYPE_CHECKING:
    from fewlabels.projects.project import Project


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
        """Say which model was written, what it learned from, and how many files."""
        labels = count(self.num_labels, "label")
        what = f"{labels} and no model"
        if self.model is not None:
            learned = count(self.model.num_labeled, "label")
            what = f"{self.model.name}, which learned from {learned}, and {labels}"
        return f"Exported {what} to {self.folder}, {count(len(self.files), 'file')}."


def needs_training(project: "Project") -> bool:
    """Tell whether the project's trainer should learn first, which takes seconds.

    Returns:
        Whether it should. An :class:`UnlearnedLabelsError` says if it should but takes
        longer, or is not possible.
    """
    snapshot, done = project.snapshot(), project.records()
    if is_up_to_date(project, snapshot):
        return False
    num_new = sum(label is not None for label in snapshot.labels)
    missing = "There is no model yet"
    if done:
        num_new -= done[-1].num_labeled
        what = f"the latest {count(num_new, 'label')}" if num_new > 0 else "all labels"
        missing = f"{done[-1].name} has not learned from {what}"
    if len(set(snapshot.labels) - {None}) < NUM_TO_TELL_APART:
        raise UnlearnedLabelsError(
            f"{missing}, and training needs labels of at least two classes, besides "
            "those that measure. Label more images, or export as it is."
        )
    own = project.settings.trainer.name
    if done and done[-1].trainer != own:
        raise UnlearnedLabelsError(
            f"{missing}. It was trained by '{done[-1].trainer}'; train again, by that "
            f"or by the project's own '{own}', or export as it is."
        )
    if project.trainer().num_steps is not None:
        raise UnlearnedLabelsError(
            f"{missing}, and training by '{own}' takes longer than an export. Train "
            "first, or export as it is."
        )
    return True


def export(
    project: "Project",
    folder: Path,
    *,
    onnx: bool = False,
    also: Callable[[Path], object] | None = None,
) -> Exported:
    """Return what was written: labels, predictions and the latest model of one moment.

    They are written beside ``folder``, with what ``also`` writes, and take its place in
    one step, when all of them are there: nobody ever sees files of two exports. The
    folder is new, empty, or an earlier export that nobody changed. Labels come alone,
    where no model was trained.
    """
    done = project.records()
    if onnx and not done:
        raise UsageError(
            "No model has been trained yet, so there is none to write as ONNX; train "
            "first."
        )
    real = folder.resolve()
    snapshot = project.snapshot()
    rows = tuple(_label_rows(snapshot))
    with files.staging_folder(real) as partial:
        write_labels(partial / "labels.csv", rows)
        write_labels(partial / "labels.parquet", rows)
        if done:
            _write_model(project, snapshot, done[-1], partial, onnx=onnx)
        if also is not None:
            also(partial)
        names = write_manifest(partial)
        check_replaceable(folder)  # it may have been changed meanwhile
        files.exchange(partial, real)
    written = tuple(folder / name for name in names)
    return Exported(folder, written, len(rows), done[-1] if done else None)


def check_folder(folder: Path) -> None:
    """Raise unless a folder can be replaced by an export."""
    check_replaceable(folder)
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UsageError(
            f"You are in '{folder}', and an export replaces its entire folder. Run the "
            "command from another folder."
        )


def _write_model(
    project: "Project",
    snapshot: Snapshot,
    record: ModelRecord,
    folder: Path,
    *,
    onnx: bool,
) -> None:
    """Write what a model says and the model itself."""
    pool = snapshot.pool(project.images(snapshot))
    classifier = project.classifier(record, pool)
    table = folder / "predictions.parquet"
    with Points(folder, len(pool)) as points:
        parts = _predictions(classifier, snapshot, pool.images, points)
        write_predictions(table, snapshot.classes, parts)
        points.write(folder / "map.parquet", table)
    classes = snapshot.classes[: len(record.classes)]  # by the names of today
    standing = status(project)
    curve = standing.curve
    facts = Facts(
        trainer=record.trainer,
        label_counts=record.class_counts,
        num_images=sum(record.predicted),  # as of then; others may have come since
        strategy=project.settings.strategy.name,
        audited=curve[-1].audited if curve and curve[-1].audited.num_audited else None,
        num_unanswered=standing.audit_size - standing.num_audited,
        name=f"Classifier of {', '.join(classes[:5])}",
    )
    model = folder / "model"
    save_model(model, classifier, classes, pool.images.shape, facts)
    if onnx:
        write_onnx(model / "model.onnx", classifier, pool.images.shape)


def _label_rows(snapshot: Snapshot) -> Iterator[LabelRow]:
    """Yield every label that holds, of each annotator."""
    path_of = {item.id: item.path for item in snapshot.items}
    for verdict in snapshot.verdicts:
        if verdict.kind in LABELS and verdict.item in path_of:
            assert verdict.class_number is not None
            is_audit = verdict.item in snapshot.audit
            yield LabelRow(
                file_name=path_of[verdict.item],
                label=snapshot.classes[verdict.class_number],
                annotator=verdict.annotator,
                time=verdict.server_time,
                round=verdict.round,
                strategy="audit" if is_audit else verdict.strategy,
            )


def _predictions(
    classifier: Classifier, snapshot: Snapshot, images: Images, points: Points
) -> Iterator[PredictionRows]:
    """Yield what the model says of every image, and what people said.

    Classes that are younger than the model have a probability of zero.
    """
    names = [item.path for item in snapshot.items]
    said = [
        None
        if (label := snapshot.known.get(item.id)) is None
        else snapshot.classes[label]
        for item in snapshot.items
    ]
    num_classes, start = len(snapshot.classes), 0
    for part in probabilities(classifier, images, on_features=points.add):
        stop = start + len(part)
        whole = F.pad(part, (0, num_classes - part.shape[1]))
        yield PredictionRows(names[start:stop], whole, said[start:stop])
        start = stop
