"""The state of a project, and how good its model is."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from typing import TYPE_CHECKING

from fewlabels import training
from fewlabels.errors import count
from fewlabels.experiments.evaluation import (
    CurvePoint,
    Gain,
    Rights,
    balance_note,
    expected_gain,
    fall_note,
    learning_curve,
)
from fewlabels.projects.models import NUM_TO_TELL_APART, ModelRecord
from fewlabels.projects.shares import assumed
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.store import Agreement, agreement
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
    num_rounds: int
    audit_size: int
    """Images that measure."""
    num_audited: int
    """Those of them that have a label."""
    model: ModelRecord | None
    """The latest model."""
    num_unused: int
    """Labels that the latest model has not seen."""
    curve: tuple[CurvePoint, ...]
    """Accuracy of each model on the audit slice, with its interval."""
    gain: Gain | None
    """What the next query is expected to bring."""
    agreement: Agreement
    notes: tuple[str, ...]
    """What to keep in mind, in sentences."""
    next_step: NextStep


def project_status(project: "Project") -> Status:
    """Return the state of a project.

    Only the audit slice measures: it was drawn at random, and no model was trained on
    its labels. Labels that a strategy chose say nothing about accuracy.
    """
    snapshot, records, settings = (
        project.snapshot(),
        project.records(),
        project.settings,
    )
    numbers = range(len(snapshot.classes))
    labels, audited = Counter(snapshot.labels), Counter(snapshot.audited.values())
    counts = tuple(labels[number] for number in numbers)
    compared, right = _compare(records, snapshot)
    num_labeled = [record.num_labeled for record in compared]
    latest = records[-1] if records else None
    gain = None
    if any(right):
        # The gain of another trainer says nothing about that of more labels.
        alike = [record.trainer == compared[-1].trainer for record in compared]
        gain = expected_gain(
            list(compress(num_labeled, alike)),
            list(compress(right, alike)),
            settings.query,
            settings.seed,
        )
    fall = fall_note(right)
    if fall:
        earlier = compared[-2].name
        fall += f" The earlier model, {earlier}, is kept in the folder models."
    is_learned = latest is not None and latest.labels == snapshot.labels_digest
    can_train = sum(count > 0 for count in counts) >= NUM_TO_TELL_APART
    next_step = NextStep.EXPORT
    if snapshot.open:
        next_step = NextStep.TELL
    elif can_train and not is_learned:
        next_step = NextStep.TRAIN
    elif snapshot.num_spent < settings.budget and snapshot.candidates:
        next_step = NextStep.ASK
    return Status(
        num_images=len(snapshot.items),
        num_candidates=len(snapshot.candidates),
        budget=settings.budget,
        num_spent=snapshot.num_spent,
        num_imported=snapshot.num_imported,
        num_open=len(snapshot.open),
        num_skipped=len(snapshot.skipped),
        num_unsure=len(snapshot.unsure),
        num_disputed=snapshot.num_disputed,
        classes=snapshot.classes,
        class_counts=counts,
        audit_counts=tuple(audited[number] for number in numbers),
        num_rounds=len(snapshot.rounds),
        audit_size=len(snapshot.audit),
        num_audited=len(snapshot.audited),
        model=latest,
        num_unused=max(0, sum(counts) - (latest.num_labeled if latest else 0)),
        curve=learning_curve(num_labeled, right),
        gain=gain,
        agreement=agreement(
            [v for v in snapshot.verdicts if v.kind in LABELS and v.is_asked]
        ),
        notes=(
            *filter(None, [fall]),
            *_audit_notes(project, snapshot),
            *_label_notes(snapshot, project.settings.noun),
            *(_share_notes(project, snapshot) if latest else ()),
            *_class_notes(snapshot, counts),
        ),
        next_step=next_step,
    )


def _compare(
    records: Sequence[ModelRecord], snapshot: Snapshot
) -> tuple[Sequence[ModelRecord], Rights]:
    """Return the models that can be compared, and whether each was right on each item.

    The audit slice of the latest model measures; earlier models that were made before
    some of it was drawn are left out.
    """
    items = sorted(snapshot.audited.keys() & snapshot.positions.keys())
    if records:
        items = [item for item in items if item in records[-1].audit]
    shared = [record for record in records if record.audit.keys() >= set(items)]
    # By number: a class may have been renamed since.
    right = [
        [each.classes.index(each.audit[i]) == snapshot.audited[i] for i in items]
        for each in shared
    ]
    return shared, right


def _audit_notes(project: "Project", snapshot: Snapshot) -> Iterator[str]:
    """Yield what the audit slice cannot measure."""
    noun = project.settings.noun
    if snapshot.vanished:
        files = "The files of " if noun == "image" else ""
        yield (
            f"{files}{count(len(snapshot.vanished), f'labeled {noun}')} are gone. "
            "Their labels are kept but neither train nor measure, and the budget gets "
            "as many labels back. Put them back and they count as before."
        )
    if not project.settings.audit:
        yield (
            "No audit slice was set aside, so the accuracy is not known. Raise "
            f"'audit' in '{project.settings_file}' to measure from the next ask on."
        )
    missing = len(snapshot.audit - snapshot.audited.keys() - snapshot.vanished)
    if snapshot.audited and missing:
        have = "has" if missing == 1 else "have"
        yield (
            f"{count(missing, noun)} of the audit slice {have} no label. "
            f"If hard {noun}s were skipped, the measured accuracy is too high."
        )
    drawn = [
        asked.created
        for asked in snapshot.rounds
        if asked.created and any(entry.role == "audit" for entry in asked.items)
    ]
    imported = (verdict for verdict in snapshot.verdicts if verdict.is_imported)
    earlier = {v.item for v in imported if drawn and v.server_time < drawn[0]}
    if earlier:
        were = "was" if len(earlier) == 1 else "were"
        yield (
            f"{count(len(earlier), noun)} {were} imported before the audit slice was "
            f"drawn, so the accuracy refers to the other {noun}s."
        )
    first = {entry.item for asked in snapshot.rounds[:1] for entry in asked.items}
    num_late = len(snapshot.audit - first)
    if num_late:
        were = "was" if num_late == 1 else "were"
        yield (
            f"{count(num_late, noun)} of the audit slice {were} drawn after others had "
            "been chosen, from what was left. Where the strategy chose the hard ones, "
            "the measured accuracy is a little too high."
        )


def _label_notes(snapshot: Snapshot, noun: str) -> Iterator[str]:
    """Yield which labels do not count, and why."""
    if snapshot.num_disputed:
        disputed = count(snapshot.num_disputed, f"labeled {noun}")
        yield (
            f"People disagree about {disputed}, left out of training and measuring. "
            "Let one of them change the row and tell it again under the same name, or "
            "let somebody else tell what it is."
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


def _share_notes(project: "Project", snapshot: Snapshot) -> Iterator[str]:
    """Yield where labels of random images contradict the assumed class shares."""
    chosen, classes = project.settings.trainer, snapshot.classes
    shares = assumed(chosen, len(classes))
    if shares is None:
        return
    if len(shares) != len(classes):
        yield (
            f"Class shares were given for {len(shares)} classes, and there are "
            f"{len(classes)} by now; they are not used. Write one for each class under "
            f"'trainer' in '{project.settings_file}' to use them again."
        )
        return
    counts = Counter(snapshot.audited.values())
    note = balance_note(classes, shares, [counts[n] for n in range(len(classes))])
    if note is not None:
        plain = training.variant(chosen.name, alignment="")
        change = f"take the trainer '{plain}' for '{chosen.name}'"
        if plain == chosen.name:
            change = f"set the trainer to '{plain}' without 'shares'"
        yield (
            f"{note} Such an assumption costs accuracy. Correct it under 'trainer' in "
            f"'{project.settings_file}', or {change}, which assumes nothing."
        )


def _class_notes(snapshot: Snapshot, counts: Sequence[int]) -> Iterator[str]:
    """Yield which classes no model can learn yet."""
    pairs = list(zip(snapshot.classes, counts, strict=True))
    empty = [name for name, number in pairs if not number]
    measured = {snapshot.classes[number] for number in snapshot.audited.values()}
    unlabeled = [name for name in empty if name not in measured | snapshot.retired]
    unlearned = [name for name in empty if name in measured - snapshot.retired]
    if unlabeled and any(counts):
        yield f"No labels yet for: {', '.join(unlabeled)}."
    if unlearned and any(counts):
        yield (
            "All labels of these classes measure, so no model learns them yet: "
            f"{', '.join(unlearned)}."
        )
