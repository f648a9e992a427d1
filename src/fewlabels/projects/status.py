"""How a project stands, and how good its model is, honestly."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


def status(project: "Project") -> Status:
    """Return how a project stands.

    Only the audit slice measures: it was drawn at random, and no model was trained on
    its labels. Labels that a strategy chose say nothing about accuracy.
    """
    snapshot = project.snapshot()
    done = project.records()
    counts = _counted(snapshot.labels, snapshot)
    compared, right = _measured(done, snapshot)
    num_labeled = [record.num_labeled for record in compared]
    latest = done[-1] if done else None
    num_unused = sum(counts) - (latest.num_labeled if latest else 0)
    num_audited = len(snapshot.audited)
    gain = None
    if any(right):
        settings = project.settings
        # What another trainer brought says nothing about what more labels bring.
        alike = [one.trainer == compared[-1].trainer for one in compared]
        gain = expected_gain(
            list(compress(num_labeled, alike)),
            list(compress(right, alike)),
            settings.query,
            settings.seed,
        )
    return Status(
        num_images=len(snapshot.items),
        num_candidates=len(snapshot.candidates),
        budget=project.settings.budget,
        num_spent=snapshot.num_spent,
        num_imported=snapshot.num_imported,
        num_open=len(snapshot.open),
        num_skipped=len(snapshot.skipped),
        num_unsure=len(snapshot.unsure),
        num_disputed=sum(one.is_disputed for one in snapshot.consensus.values()),
        classes=snapshot.classes,
        class_counts=counts,
        audit_counts=_counted(snapshot.audited.values(), snapshot),
        num_rounds=len(snapshot.rounds),
        audit_size=len(snapshot.audit),
        num_audited=num_audited,
        model=latest,
        num_unused=max(0, num_unused),
        curve=learning_curve(num_labeled, right),
        gain=gain,
        agreement=agreement(
            [o for o in snapshot.verdicts if o.kind in LABELS and o.is_asked]
        ),
        notes=(
            *_fall_notes(compared, right),
            *_notes(project, snapshot, latest, counts, num_audited),
        ),
        next_step=_next_step(project, snapshot, latest, counts),
    )


def _counted(labels: Iterable[int | None], snapshot: Snapshot) -> tuple[int, ...]:
    """Return how many labels each class has."""
    counts = Counter(labels)
    return tuple(counts[number] for number in range(len(snapshot.classes)))


def _measured(
    done: Sequence[ModelRecord], snapshot: Snapshot
) -> tuple[Sequence[ModelRecord], Rights]:
    """Return the models that can be compared, and what each got right.

    The audit slice of the latest model measures; earlier models that were made before
    some of it was drawn are left out.
    """
    items = sorted(item for item in snapshot.audited if item in snapshot.positions)
    if done:
        items = [item for item in items if item in done[-1].audit]
    shared = [one for one in done if one.audit.keys() >= set(items)]
    # By number: a class may have been renamed since.
    rows = [
        [one.classes.index(one.audit[item]) == snapshot.audited[item] for item in items]
        for one in shared
    ]
    return shared, rows


def _fall_notes(compared: Sequence[ModelRecord], right: Rights) -> Iterator[str]:
    """Yield a warning where the latest model is worse than the one before."""
    note = fall_note(right)
    if note:
        earlier = compared[-2].name
        yield f"{note} The earlier model, {earlier}, is kept in the folder models."


def _notes(
    project: "Project",
    snapshot: Snapshot,
    latest: ModelRecord | None,
    counts: Sequence[int],
    num_audited: int,
) -> tuple[str, ...]:
    notes = [
        *_vanished_notes(snapshot, project.settings.noun),
        *_audit_notes(project, snapshot, num_audited),
        *_people_notes(snapshot, project.settings.noun),
    ]
    if latest is not None:
        notes += _share_notes(project, snapshot)
    empty = [
        name
        for name, number in zip(snapshot.classes, counts, strict=True)
        if not number and name not in snapshot.retired
    ]
    measured = {snapshot.classes[number] for number in snapshot.audited.values()}
    unlabeled = [name for name in empty if name not in measured]
    if unlabeled and sum(counts):
        notes.append(f"No labels yet for: {', '.join(unlabeled)}.")
    unlearned = [name for name in empty if name in measured]
    if unlearned and sum(counts):
        notes.append(
            "All labels of these classes measure, so no model learns them yet: "
            f"{', '.join(unlearned)}."
        )
    return tuple(notes)


def _vanished_notes(snapshot: Snapshot, noun: str) -> Iterator[str]:
    """Yield how many labels wait for their images, and what becomes of the budget."""
    if snapshot.vanished:
        files = "The files of " if noun == "image" else ""
        yield (
            f"{files}{count(len(snapshot.vanished), f'labeled {noun}')} are gone. "
            "Their labels are kept but neither train nor measure, and the budget gets "
            "as many labels back. Put them back and they count as before."
        )


def _share_notes(project: "Project", snapshot: Snapshot) -> Iterator[str]:
    """Yield what labels of random images say against the shares that are assumed."""
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
    counts = [0] * len(classes)
    for label in snapshot.audited.values():
        counts[label] += 1
    note = balance_note(classes, shares, counts)
    if note is not None:
        plain = training.variant(chosen.name, alignment="")
        change = f"take the trainer '{plain}' for '{chosen.name}'"
        if plain == chosen.name:
            change = f"set the trainer to '{plain}' without 'shares'"
        yield (
            f"{note} Such an assumption costs accuracy. Correct it under 'trainer' in "
            f"'{project.settings_file}', or {change}, which assumes nothing."
        )


def _audit_notes(
    project: "Project", snapshot: Snapshot, num_audited: int
) -> Iterator[str]:
    """Yield what the audit slice cannot tell."""
    noun = project.settings.noun
    if not project.settings.audit:
        yield (
            "No audit slice was set aside, so the accuracy is not known. Raise "
            f"'audit' in '{project.settings_file}' to measure from the next ask on."
        )
    missing = len(snapshot.audit - snapshot.audited.keys() - snapshot.vanished)
    if num_audited and missing:
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
    earlier = {
        verdict.item
        for verdict in snapshot.verdicts
        if verdict.is_imported and drawn and verdict.server_time < drawn[0]
    }
    if earlier:
        were = "was" if len(earlier) == 1 else "were"
        yield (
            f"{count(len(earlier), noun)} {were} imported before the audit slice was "
            f"drawn, so the accuracy refers to the other {noun}s."
        )
    first_asked: dict[str, int] = {}
    for asked in snapshot.rounds:
        for one in asked.items:
            first_asked.setdefault(one.item, asked.step)
    num_late = sum(first_asked[item] > 0 for item in snapshot.audit)
    if num_late:
        were = "was" if num_late == 1 else "were"
        yield (
            f"{count(num_late, noun)} of the audit slice {were} drawn after others had "
            "been chosen, from what was left. Where the strategy "
            "chose the hard ones, the measured accuracy is a little too high."
        )


def _people_notes(snapshot: Snapshot, noun: str) -> Iterator[str]:
    """Yield which labels do not count, and why."""
    num_disputed = sum(one.is_disputed for one in snapshot.consensus.values())
    if num_disputed:
        yield (
            f"People disagree about {count(num_disputed, f'labeled {noun}')}, left out "
            "of training and measuring. Let one of them change the row and tell it "
            "again under the same name, or let somebody else tell what it is."
        )
    waiting = {one.item for one in snapshot.open}
    num_short = sum(
        not one.is_complete and one.item not in waiting
        for one in snapshot.consensus.values()
    )
    if num_short:
        yield (
            f"{count(num_short, noun)} of earlier rounds got fewer than "
            f"{snapshot.overlap} labels, too few to count. Tell the files of their "
            "rounds under another name, or lower 'overlap' again."
        )


def _next_step(
    project: "Project",
    snapshot: Snapshot,
    latest: ModelRecord | None,
    counts: tuple[int, ...],
) -> NextStep:
    """Return what to do now."""
    if snapshot.open:
        return NextStep.TELL
    is_changed = latest is None or latest.labels != snapshot.labels_digest
    if is_changed and sum(count > 0 for count in counts) >= NUM_TO_TELL_APART:
        return NextStep.TRAIN
    if snapshot.num_spent < project.settings.budget and len(snapshot.candidates):
        return NextStep.ASK
    return NextStep.EXPORT
