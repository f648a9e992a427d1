"""The page of a project: how good its model is, and what that rests on."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

from fewlabels.data.files import FileImages, common_shape
from fewlabels.errors import count
from fewlabels.experiments.evaluation import accuracy_interval
from fewlabels.experiments.runs import environment
from fewlabels.projects import Project, Status
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.store import Agreement, Kind
from fewlabels.projects.store.records import LABELS
from fewlabels.report import pictures, wording
from fewlabels.report.figures import Curve, Point, draw_curves
from fewlabels.report.page import Block, Column, Page, Section, Table

_SETTINGS = {
    "strategy", "trainer", "reason", "budget", "audit", "query", "overlap", "seed",
}  # fmt: skip
_MOST_IMAGES = 40
_SIDE = 128


def write_project_report(path: Path, project: Project) -> Path:
    """Write the page of a project: how good its model is, and what it rests on.

    The page is one file that needs no script and no other file. The same project gives
    the same bytes.

    Args:
        path: Where to write the page.
        project: The project; without rounds or a model the page says so.

    Returns:
        ``path``.
    """
    status, snapshot = project.status(), project.snapshot()
    images = project.images(snapshot)
    asked = [entry.item for query in snapshot.rounds[-1:] for entry in query.items]
    if isinstance(images, FileImages):
        images = enlarged(images)
    elif files := project.image_files(snapshot):
        images = FileImages(files, common_shape(files, _SIDE))
    pool = snapshot.pool(images)
    shown_as = pictures.pictures_of(pool, asked[:_MOST_IMAGES])
    notes = list(status.notes)
    if status.model is not None and status.num_unused:
        labels = count(status.num_unused, "label was", "labels were")
        them = "it" if status.num_unused == 1 else "them"
        notes.append(
            f"{labels} added after {status.model.name} was trained, so it has not seen "
            f"{them}."
        )
    sections = [
        Section("accuracy", "Accuracy", _accuracy(status, project.records())),
        Section("classes", "Labels per class", [_classes(status)]),
        Section("rounds", "Rounds", [_rounds(snapshot, asked, shown_as)]),
        Section("agreement", "Annotators", _annotators(snapshot, status.agreement)),
    ]
    settings = project.settings.model_dump(include=_SETTINGS)
    data = {"images": len(snapshot.items), "classes": status.classes}
    data["shape"] = project.settings.shape
    page = Page(
        kind="project",
        title=project.folder.resolve().name,
        headline=wording.project_headline(status),
        explanation=list(wording.project_explanation(status)),
        warnings=notes,
        sections=sections,
        facts={
            "Settings": [wording.as_facts(settings)],
            "Data": [wording.as_facts(data)],
            "Page created with": [wording.environment_facts(environment())],
        },
        image_size=pictures.image_size(pool.images),
    )
    return page.write(path)


def enlarged(images: FileImages) -> FileImages:
    """Return the images large enough for people, where the files are larger."""
    channels, height, width = images.shape
    side = max((max(file.height, file.width) for file in images.files), default=0)
    if side <= max(height, width) or max(height, width) >= _SIDE:
        return images
    return FileImages(images.files, (channels, _SIDE, _SIDE))


def _accuracy(status: Status, records: Sequence[ModelRecord]) -> Sequence[Block]:
    """Return the models in the order of training, and their curve where there is one.

    Models that are older than the audit slice have no accuracy.
    """
    rows, points, words = [], dict[int, Point](), dict[int, str]()
    unmeasured = [accuracy_interval(0, 0)] * (len(records) - len(status.curve))
    measures = [*unmeasured, *(point.audited for point in status.curve)]
    for record, audited in zip(records, measures, strict=True):
        accuracy = interval = wording.MISSING
        if audited.accuracy is not None:
            amount = record.num_labeled  # of two models at one number, the later
            points[amount] = Point(amount, audited.accuracy, audited.low, audited.high)
            accuracy = wording.rough_percent(audited.accuracy)
            interval = wording.interval_text(audited)
            words[amount] = f"{accuracy} ({interval}) after {count(amount, 'label')}"
        labels, duration = f"{record.num_labeled:,}", wording.seconds(record.seconds)
        made = _moment(record.created)
        rows.append([record.name, labels, accuracy, interval, duration, made])
    drawing, notes = None, [status.advice] if status.advice else []
    if len(points) > 1:
        values = ", ".join(words[amount] for amount in sorted(words))
        drawing = draw_curves(
            "accuracy",
            [Curve("accuracy", 1, tuple(points[amount] for amount in sorted(points)))],
            value=wording.rough_percent,
            words=f"Accuracy against number of labels: {values}.",
        )
    elif points:
        notes.append("A curve needs models with two different numbers of labels.")
    else:
        notes.append("Not measured, though a model was trained.")
    columns = ["Model", "Labels", "Accuracy", "Interval", "Training", "Trained (UTC)"]
    block = Block(drawing=drawing, tables=[Table(columns, rows)], notes=notes)
    return [block] if rows else ()


def _classes(status: Status) -> Block:
    counts = dict(zip(status.classes, status.class_counts, strict=True))
    if not any(counts.values()):
        names = wording.first_of(status.classes, most=40)
        note = f"There are no labels to train on yet. {len(counts)} classes: {names}."
        return Block(notes=[note])
    note = "Training labels only; audit labels are not counted here."
    note += " Every class has a label." if all(counts.values()) else ""
    return Block(bars=counts, notes=[note])


def _rounds(
    snapshot: Snapshot, asked: Sequence[str], shown_as: dict[str, str]
) -> Block:
    if not snapshot.rounds:
        return Block(notes=["No images have been asked about yet."])
    rows = []
    for query in snapshot.rounds:
        audit = sum(entry.role == "audit" for entry in query.items)
        answered = sum(entry.item not in snapshot.waiting for entry in query.items)
        numbers = [f"{number:,}" for number in (len(query.items), audit, answered)]
        names = [f"{query.step:,}", query.strategy, query.model or "untrained"]
        rows.append([*names, *numbers, _moment(query.created)])
    texts = [Column(name, is_text=True) for name in ("Chosen by", "Model")]
    unsure = {given.item for given in snapshot.verdicts if given.kind is Kind.UNSURE}
    items = []
    for item in asked[:_MOST_IMAGES]:
        name, number = pictures.readable_name(item), snapshot.known.get(item)
        if item in snapshot.positions:
            name = snapshot.items[snapshot.positions[item]].path
        caption, state = "disputed", "skipped"
        if number is not None:
            caption, state = snapshot.classes[number], "labeled"
        elif item in snapshot.skipped:
            caption = "skipped"
        elif item in snapshot.waiting:
            caption = state = "open"
        elif item in unsure:
            caption = "unsure"
        items.append(pictures.GalleryItem(name, shown_as.get(item), caption, state))
    num_answered = len(set(asked) - snapshot.waiting)
    gallery = pictures.Gallery(
        f"Round {snapshot.rounds[-1].step}",
        f"{num_answered:,} of {count(len(asked), 'image')} answered",
        items,
        len(asked) - len(items),
    )
    table = Table(["Round", *texts, "Images", "Audit", "Answered", "Asked (UTC)"], rows)
    return Block(tables=[table], galleries=[gallery])


def _annotators(snapshot: Snapshot, agreement: Agreement) -> Sequence[Block]:
    """Return how far annotators agree, where there are at least two."""
    labels, others = (
        Counter(v.annotator for v in snapshot.verdicts if (v.kind in LABELS) is wanted)
        for wanted in (True, False)
    )
    names = sorted(labels.keys() | others.keys())
    if len(names) < 2:
        return ()
    note = "No image was labeled by two people, so their agreement is unknown."
    if agreement.num_items:
        overall = "All labels are of one class, so it is undefined here."
        if agreement.fleiss is not None:
            overall = f"Overall, Fleiss' kappa is {agreement.fleiss:.2f}."
        images = count(agreement.num_items, "image was", "images were")
        note = (
            f"{images} labeled by two or more. Kappa measures agreement beyond chance: "
            f"1 is perfect, 0 is chance. {overall}"
        )
    rows = []
    for name in names:
        kappas = [kappa for pair, kappa in agreement.cohen.items() if name in pair]
        known = [kappa for kappa in kappas if kappa is not None]
        average = wording.decimal(mean(known)) if known else wording.MISSING
        rows.append([name, f"{labels[name]:,}", f"{others[name]:,}", average])
    columns = ["Annotator", "Labels", "Skipped or unsure", "Mean kappa with others"]
    return [Block(tables=[Table(columns, rows)], notes=[note])]


def _moment(when: datetime | None) -> str:
    return wording.MISSING if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"
