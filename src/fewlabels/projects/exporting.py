"""Everything a project has come to, as files for other programs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch.nn import functional as F

from fewlabels import files
from fewlabels.errors import UsageError
from fewlabels.pool import Images
from fewlabels.projects.export import (
    Facts,
    LabelRow,
    PredictionRows,
    save_model,
    write_labels,
    write_onnx,
    write_predictions,
)
from fewlabels.projects.folder import ProjectFolder
from fewlabels.projects.models import ModelRecord
from fewlabels.projects.predicting import probabilities
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.standing import status
from fewlabels.protocols import Classifier
from fewlabels.store.records import LABELS


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    files: tuple[Path, ...]
    num_labels: int
    """Rows of ``labels.csv``, those of the audit slice included."""
    has_model: bool
    """Whether a model was trained that could be written."""


def export(project: ProjectFolder, folder: Path, *, onnx: bool = False) -> Exported:
    """Write labels, predictions and the latest model.

    Args:
        project: The project.
        folder: Where to; made if there is none.
        onnx: Also as ``model.onnx``.

    Returns:
        What was written; labels alone, where no model was trained.
    """
    snapshot = project.snapshot()
    files.make_folder(folder)
    written = [folder / "labels.csv", folder / "labels.parquet"]
    rows = tuple(_label_rows(snapshot))
    for path in written:
        write_labels(path, rows)
    done = project.records()
    if onnx and not done:
        msg = (
            "No model was trained yet, so there is none to write as ONNX; train first."
        )
        raise UsageError(msg)
    if done:
        written += _model_files(project, snapshot, done[-1], folder, onnx=onnx)
    return Exported(folder, tuple(written), len(rows), has_model=bool(done))


def _model_files(
    project: ProjectFolder,
    snapshot: Snapshot,
    record: ModelRecord,
    folder: Path,
    *,
    onnx: bool,
) -> list[Path]:
    pool = snapshot.pool(project.images(snapshot))
    classifier = project.classifier(record, pool)
    table = folder / "predictions.parquet"
    parts = _predictions(classifier, snapshot, pool.images)
    write_predictions(table, snapshot.classes, parts)
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
    written = [table, *sorted(path for path in model.iterdir() if path.is_file())]
    if onnx:
        write_onnx(model / "model.onnx", classifier, pool.images.shape)
        written.append(model / "model.onnx")
    return list(dict.fromkeys(written))


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
    classifier: Classifier, snapshot: Snapshot, images: Images
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
    for part in probabilities(classifier, images):
        stop = start + len(part)
        whole = F.pad(part, (0, num_classes - part.shape[1]))
        yield PredictionRows(names[start:stop], whole, said[start:stop])
        start = stop
