"""The state of a project, and how good its model is."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import eq
from typing import TYPE_CHECKING

from fewlabels import training
from fewlabels.errors import count
from fewlabels.experiments import evaluation
from fewlabels.experiments.evaluation.measurement import MOST_LABELED
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.settings import assumed_shares
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.store import Agreement, Kind, agreement
from fewlabels.projects.store.records import LABELS

if TYPE_CHECKING:
    from fewlabels.projects.project import Project


class NextStep(StrEnum):
    """What to do next with a project."""

    ASK = "ask"
    """Choose images to label."""
    TELL = "tell"
    """Label the images that are open."""
    TRAIN = "train"
    """Learn from labels that no model has seen."""
    EXPORT = "export"
    """The budget is spent, or every image is: use what there is."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """Everything a person wants to know before going on."""

    num_images: int
    num_candidates: int
    """Images that may still be asked about; copies of others are not."""
    budget: int
    num_spent: int
    """Images that somebody was asked about and labeled."""
    num_imported: int
    """Images whose label was imported; they cost no budget."""
    num_open: int
    """Images of the last round that wait for an answer."""
    num_skipped: int
    num_unsure: int
    """Images that somebody could not tell the class of."""
    num_disputed: int
    """Images on which the annotators do not agree."""
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    """Labels of each class to train on."""
    audit_counts: tuple[int, ...]
    """Labels of each class that measure. Both together are the labels there are."""
    confusion: Mapping[tuple[int, int], int]
    """How many images that measure have a label and a prediction of the latest model,
    by the numbers of both classes."""
    num_rounds: int
    audit_size: int
    """Images that measure."""
    num_audited: int
    """Those of them that have a label."""
    model: ModelRecord | None
    """The latest model."""
    num_unused: int
    """Labels that the latest model has not seen."""
    curve: tuple[evaluation.CurvePoint, ...]
    """Accuracy of each model on the audit slice, with its intervals."""
    gain: evaluation.Gain | None
    """What the next query is expected to bring."""
    advice: str
    """Whether there are enough labels, in a few sentences; empty before a model."""
    num_checks: int
    """How many more images that measure the advice names; 0: it does not."""
    num_awaited: int
    """Images that measure which are still to be drawn or labeled."""
    agreement: Agreement
    notes: tuple[str, ...]
    """What to keep in mind, in sentences."""
    next_step: NextStep


def project_status(project: "Project") -> Status:
    """Return the state of a project.

    Only the audit slice measures: it was drawn at random, and no model was trained on
    its labels. Labels that a strategy chose say nothing about accuracy.
    """
    snapshot, settings = project.snapshot(), project.settings
    records = project.records()
    given = [verdict for verdict in snapshot.verdicts if verdict.kind in LABELS]
    numbers = range(len(snapshot.classes))
    labels, audited = Counter(snapshot.labels), Counter(snapshot.audited.values())
    counts = tuple(labels[number] for number in numbers)
    # The audit slice of the latest model measures; models from before some of it was
    # drawn are left out. Classes count by number: one may have been renamed since.
    items = sorted(snapshot.audited.keys() & snapshot.positions.keys())
    items = [item for item in items if not records or item in records[-1].audit]
    compared = [record for record in records if record.audit.keys() >= set(items)]
    true = [snapshot.audited[item] for item in items]
    predicted = [[r.classes.index(r.audit[i]) for i in items] for r in compared]
    right = [[*map(eq, numbers, true)] for numbers in predicted]
    pairs = zip(true, predicted[-1], strict=True) if predicted else ()
    latest = records[-1] if records else None
    confidences = [_confidences(record, items) for record in compared]
    num_labeled = [record.num_labeled for record in compared]
    curve = evaluation.learning_curve(num_labeled, right, confidences=confidences)
    gain = _expected_gain(records, settings.query)
    measured = curve[-1].audited if curve else evaluation.accuracy_interval(0, 0)
    num_open = sum(entry.role == "audit" for entry in snapshot.open)
    room = snapshot.num_undrawn(len(snapshot.items)) + num_open
    confirmed = evaluation.checks_to_confirm(measured, room)
    fall = evaluation.fall_note(right)
    if fall:
        fall += f" The earlier one, {compared[-2].name}, is kept in the folder models."
    return Status(
        num_images=len(snapshot.items),
        num_candidates=len(snapshot.candidates),
        budget=settings.budget,
        num_spent=snapshot.num_spent,
        num_imported=len({v.item for v in snapshot.verdicts if v.is_imported}),
        num_open=len(snapshot.open),
        num_skipped=len(snapshot.skipped),
        num_unsure=len({v.item for v in snapshot.verdicts if v.kind is Kind.UNSURE}),
        num_disputed=snapshot.num_disputed,
        classes=snapshot.classes,
        class_counts=counts,
        audit_counts=tuple(audited[number] for number in numbers),
        confusion=Counter(pairs),
        num_rounds=len(snapshot.rounds),
        audit_size=len(snapshot.audit),
        num_audited=len(snapshot.audited),
        model=latest,
        num_unused=max(0, sum(counts) - (latest.num_labeled if latest else 0)),
        curve=curve,
        gain=gain,
        advice=evaluation.stopping_advice(gain, measured, room),
        num_checks=confirmed[0] if confirmed else 0,
        num_awaited=snapshot.num_undrawn(settings.audit) + num_open,
        agreement=agreement([label for label in given if label.is_asked]),
        notes=(
            *filter(None, [fall]),
            *_audit_notes(project, snapshot),
            *_label_notes(snapshot, counts, settings.noun),
            *(_share_notes(project, snapshot) if latest else ()),
        ),
        next_step=_next_step(snapshot, settings.budget, latest),
    )


def _expected_gain(
    records: Sequence[ModelRecord], num_more: int
) -> evaluation.Gain | None:
    """Return what more labels are expected to bring the latest model, if there is one.

    The gain of another trainer says nothing about that.
    """
    if not records:
        return None
    alike = [record for record in records if record.trainer == records[-1].trainer]
    changes = [record.change for record in alike if record.change is not None]
    return evaluation.expected_gain(changes, num_more)


def _next_step(snapshot: Snapshot, budget: int, latest: ModelRecord | None) -> NextStep:
    """Return what to do next: first label what is open, then train on new labels."""
    if snapshot.open:
        return NextStep.TELL
    is_learned = latest is not None and latest.labels == snapshot.labels_digest
    if not is_learned and snapshot.can_teach:
        return NextStep.TRAIN
    if snapshot.num_spent < budget and snapshot.candidates:
        return NextStep.ASK
    return NextStep.EXPORT


def _confidences(
    record: ModelRecord, items: Sequence[str]
) -> evaluation.Confidences | None:
    """Return how sure a model is, if that tells about the images that measure."""
    sure = record.mean_confidence
    if sure is None or not record.confidences.keys() >= set(items):
        return None
    if record.num_labeled > MOST_LABELED * (record.num_labeled + record.num_unlabeled):
        return None
    checks = [record.confidences[item] for item in items]
    unlabeled = record.num_unlabeled
    return evaluation.Confidences(checks=checks, mean=sure, num_images=unlabeled)


def _audit_notes(project: "Project", snapshot: Snapshot) -> Iterator[str]:
    """Yield what the audit slice cannot measure."""
    noun = project.settings.noun

    if snapshot.vanished:
        files = "The files of " if noun == "image" else ""
        labeled = count(len(snapshot.vanished), f"labeled {noun}")
        yield (
            f"{files}{labeled} are gone. Until they are back, their labels neither "
            "train nor measure, and the budget gets as many labels back."
        )
    if not project.settings.audit:
        yield (
            f"No {noun}s were set aside to measure, so the accuracy is not known. "
            f"Raise 'audit' in '{project.settings_file}' to measure from the next ask."
        )
    missing = len(snapshot.audit - snapshot.audited.keys() - snapshot.vanished)
    if snapshot.audited and missing:
        yield (
            f"Of the {noun}s that measure, {missing:,} have no label. "
            f"If hard {noun}s were skipped, the measured accuracy is too high."
        )
    rounds = snapshot.rounds
    audits = [a for a in rounds if any(entry.role == "audit" for entry in a.items)]
    drawn = audits[0].created if audits else None
    imported = (verdict for verdict in snapshot.verdicts if verdict.is_imported)
    earlier = {v.item for v in imported if drawn and v.server_time < drawn}
    if earlier:
        yield (
            f"{count(len(earlier), noun)} were imported before those that measure were "
            f"drawn, so the accuracy refers to the other {noun}s."
        )
    first = {entry.item for asked in rounds[:1] for entry in asked.items}
    num_late = len(snapshot.audit - first)
    if num_late:
        yield (
            f"{count(num_late, noun)} that measure were drawn after others had been "
            "chosen. Where those were the hard ones, the measured accuracy is a "
            "little too high."
        )


def _label_notes(snapshot: Snapshot, counts: Sequence[int], noun: str) -> Iterator[str]:
    """Yield which labels do not count, and which classes no model can learn yet."""
    if snapshot.num_disputed:
        disputed = count(snapshot.num_disputed, f"labeled {noun}")
        yield (
            f"People disagree about {disputed}, left out of training and measuring. "
            "Let one of them change the answer, or somebody else tell what it is."
        )
    waiting = {entry.item for entry in snapshot.open}
    short = [c for c in snapshot.consensus.values() if not c.is_complete]
    num_short = sum(consensus.item not in waiting for consensus in short)
    if num_short:
        yield (
            f"{count(num_short, noun)} of earlier rounds got fewer than "
            f"{snapshot.overlap} labels, too few to count. Tell the files of their "
            "rounds under another name, or lower 'overlap' again."
        )
    pairs = zip(snapshot.classes, counts, strict=True)
    empty = [n for n, number in pairs if not number and n not in snapshot.retired]
    measured = {snapshot.classes[number] for number in snapshot.audited.values()}
    unlabeled = [name for name in empty if name not in measured]
    unlearned = [name for name in empty if name in measured]
    if unlabeled and any(counts):
        yield f"No labels yet for: {', '.join(unlabeled)}."
    if unlearned and any(counts):
        names = ", ".join(unlearned)
        yield f"Not learned yet, as all their labels are random checks: {names}."


def _share_notes(project: "Project", snapshot: Snapshot) -> Iterator[str]:
    """Yield where labels of random images contradict the assumed class shares."""
    chosen, classes = project.settings.trainer, snapshot.classes
    shares = assumed_shares(chosen, len(classes))
    if shares is None:
        return
    if len(shares) != len(classes):
        yield (
            f"Class shares were given for {len(shares)} of {len(classes)} classes and "
            f"are not used. Give all under 'trainer' in '{project.settings_file}'."
        )
        return
    counts = Counter(snapshot.audited.values())
    numbers = [counts[number] for number in range(len(classes))]
    note = evaluation.balance_note(classes, shares, numbers)
    if note is not None:
        plain = training.variant(chosen.name, alignment="")
        yield (
            f"{note} Such an assumption costs accuracy. Correct it under 'trainer' in "
            f"'{project.settings_file}', or take the trainer '{plain}' without shares."
        )
