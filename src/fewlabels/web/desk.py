"""What people do on the page, as the verbs of a project. Nothing is stored here."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from fewlabels.errors import AnswersError, JobError, UsageError
from fewlabels.projects import Project
from fewlabels.projects.snapshot import Snapshot
from fewlabels.store import StoredEvent, StoredRound
from fewlabels.store.records import LABELS
from fewlabels.web.letters import keep, letters_of
from fewlabels.web.messages import (
    Action,
    Confirmation,
    Import,
    ImportUndo,
    Letters,
    Turn,
)
from fewlabels.web.pictures import Gallery
from fewlabels.web.words import why

Facts = dict[str, Any]
"""What the page is told, as JSON can hold it."""

MOST_FAULTS = 20
"""Rows of a file with labels that the page lists."""


@dataclass(eq=False)
class Desk:
    """Where one project is labeled, by one or several people."""

    _project: Project | None
    """None: it is still being created."""
    on_change: Callable[[], object] = field(default=lambda: None)
    """Called after something was written."""
    on_shortage: Callable[[int], object] = field(default=lambda _: None)
    """Called with the last round when a tab gets fewer images than it asks for."""
    _sequence: int = 0
    _importing: Lock = field(default_factory=Lock)

    @property
    def project(self) -> Project:
        """The project, once it is there."""
        if self._project is None:
            raise JobError("The project is still being created; try again later.")
        return self._project

    @property
    def is_open(self) -> bool:
        """Whether the project is there."""
        return self._project is not None

    def open(self, project: Project) -> None:
        """Begin to label a project that was created."""
        self._project = project

    @cached_property
    def gallery(self) -> Gallery:
        """The images, by their names on the page."""
        return Gallery(self.project)

    # -------------------------------------------------------------------- labeling

    def lease(self, turn: Turn) -> Facts:
        """Hand out the next images of the round to a tab, and to no other."""
        leased = self.project.lease(
            turn.count, annotator=turn.annotator, token=turn.tab
        )
        rounds = self.project.store.rounds()  # later: all that was leased is in one
        items = [one.item for one in leased.leases]
        if len(items) < turn.count:
            self.on_shortage(rounds[-1].step if rounds else -1)
        frees_at = leased.frees_at
        return {
            "items": self._shown(items, rounds),
            "num_held": leased.num_held,
            "frees_at": None if frees_at is None else frees_at.isoformat(),
        }

    def stay(self, turn: Turn) -> Facts:
        """Prolong what a tab holds."""
        held = self.project.heartbeat(turn.tab)
        return {"items": [self.gallery.name_of(one.item) for one in held]}

    def leave(self, turn: Turn) -> Facts:
        """Give back what a tab holds."""
        return {"num_released": self.project.release(turn.tab)}

    def act(self, action: Action) -> Facts:
        """Do what somebody did on the page; the same again changes nothing."""
        if action.verb == "add_class":
            classes = self.project.add_class(action.name or "", uuid=action.uuid)
            self.on_change()
            return {"classes": classes}
        if action.verb == "undo":
            return self._undone(action)
        written = self._said(action)
        self.on_change()
        return {"saved": written.sequence}

    def confirm(self, given: Confirmation) -> Facts:
        """Take what somebody confirmed on the wall, or take it back."""
        items = [self.gallery.item(name) for name in given.items]
        known = [item for item in items if item is not None]
        told: Facts = {"annotator": given.annotator, "uuid": given.uuid}
        if given.undoes is not None:
            done = self.project.take_back(known, given.undoes, **told)
        elif given.name is None:
            raise UsageError("A confirmation needs the name of a class.")
        else:
            done = self.project.confirm(known, given.name, **told)
        self.on_change()
        return {"items": [self.gallery.name_of(item) for item in done]}

    def import_labels(self, wish: Import, content: bytes) -> Facts:
        """Import a file of labels, or say what that would do."""
        try:
            with self._importing:  # rows take many times the memory of their file
                done = self.project.import_labels(
                    wish.name,
                    content=content,
                    annotator=wish.annotator,
                    add_classes=wish.add_classes,
                    partial=wish.partial,
                    dry_run=wish.dry_run,
                    scan=False,
                    uuid=wish.uuid,
                )
        except AnswersError as error:
            raise UsageError(str(error)) from error
        if not wish.dry_run:
            self.on_change()
        facts = asdict(done)
        for name in ("faults", "left_out"):
            lines = facts.pop(name)
            facts[f"num_{name}"] = len(lines)
            shown = getattr(done, name)[:MOST_FAULTS]
            facts[name] = [str(fault) for fault in shown]
        return facts

    def undo_import(self, wish: ImportUndo) -> Facts:
        """Take back an import."""
        undone = self.project.undo_import(wish.uuid)
        self.on_change()
        return asdict(undone)

    def letters(self, given: Letters) -> Facts:
        """Take the letters that somebody gave to classes."""
        keep(self.project, given.letters)
        self.on_change()
        return {"letters": given.letters}

    def tiles(self, found: Sequence[Facts]) -> list[Facts]:
        """Return what the page shows of images that a job named."""
        seen = self._seen([one["item"] for one in found])
        there = [one for one in found if one["item"] in seen]
        return [{**one, "item": None, **seen[one["item"]]} for one in there]

    def _said(self, action: Action) -> StoredEvent:
        """Write an answer about an image."""
        if action.item is None:
            raise UsageError(f"The action '{action.verb}' needs an image.")
        item = self.gallery.item(action.item)
        if item is None:
            raise UsageError("There is no such image in this project any more.")
        project = self.project
        told: Facts = {"annotator": action.annotator, "uuid": action.uuid}
        if action.verb == "change":
            return project.change(item, action.name, **told)
        told["in_turn"] = True  # a tab that was asleep may have lost it
        if action.verb == "skip":
            return project.skip(item, **told)
        if action.verb == "unsure":
            return project.unsure(item, **told)
        if action.name is None:
            raise UsageError("A label needs the name of a class.")
        return project.label(item, action.name, lead_time=action.lead_time, **told)

    def _undone(self, action: Action) -> Facts:
        """Take an answer back, and hand its image to the tab that did so."""
        told: Facts = {"annotator": action.annotator, "uuid": action.uuid}
        done = self.project.undo(target=action.target, token=action.tab, **told)
        self.on_change()
        shown = self._shown([str(done.event.item)], self.project.store.rounds())
        return {"saved": done.sequence, "item": shown[0] if shown else None}

    def _shown(self, items: list[str], rounds: tuple[StoredRound, ...]) -> list[Facts]:
        """Return what the page shows with each image."""
        seen = self._seen(items)
        return [facts | _place(item, rounds) for item, facts in seen.items()]

    def _seen(self, items: Sequence[str]) -> dict[str, Facts]:
        """Return what the page shows of images, without those that have gone since."""
        self.gallery.know(items)
        found: dict[str, Facts] = {}
        for item in items:
            name = self.gallery.name_of(item)
            file = self.gallery.file(name)
            if file is not None:
                size = {"width": file.width, "height": file.height}
                found[item] = {"id": name, "file": file.name, **size}
        return found

    # -------------------------------------------------------------------- overview

    def state(self) -> Facts:
        """Return how far the labeling is; cheap, whatever the number of images."""
        with self.project.store.reading() as moment:
            for event in moment.events(after=self._sequence):
                self._sequence = event.sequence
            classes = moment.classes()
            names = {one.number: one.name for one in classes}
            snapshot = Snapshot(
                items=(),
                classes=tuple(names.values()),
                verdicts=moment.verdicts(with_missing=True),
                rounds=moment.rounds(),
                overlap=self.project.settings.overlap,
            )
            there = {one.id for one in moment.items(ids=sorted(snapshot.waiting))}
        verdicts = snapshot.verdicts
        labels = [one for one in verdicts if one.kind in LABELS]
        confirmed = {one.item for one in labels if one.is_confirmed}
        counts = Counter(names[one.class_number or 0] for one in labels)
        letters = letters_of(self.project.folder)
        return {
            "sequence": self._sequence,
            "classes": [
                {
                    "name": one.name,
                    "count": counts[one.name],
                    "letter": letters.get(one.number, ""),
                }
                for one in classes
                if one.is_active
            ],
            "budget": self.project.settings.budget,
            "spent": snapshot.num_spent,
            "confirmed": len(confirmed),
            "imported": snapshot.num_imported,
            "skipped": len({one.item for one in verdicts} - {o.item for o in labels}),
            "round": _progress(snapshot, there),
            "open": len(_asked(snapshot.open_rounds) & there),
            "waiting": len(there),
            "people": sorted({one.annotator for one in verdicts}),
        }


def _progress(snapshot: Snapshot, waiting: set[str]) -> Facts | None:
    """Return how much of the last round is answered; nobody can answer what is gone."""
    if not snapshot.rounds:
        return None
    last = snapshot.rounds[-1]
    num_open = sum(one.item in waiting for one in last.items)
    return {"number": last.step, "size": len(last.items), "open": num_open}


def _asked(rounds: tuple[StoredRound, ...]) -> set[str]:
    """Return the images of some rounds."""
    return {item.item for asked in rounds for item in asked.items}


def _place(item: str, rounds: tuple[StoredRound, ...]) -> Facts:
    """Return where an image stands in the latest round that asked about it."""
    for asked in reversed(rounds):
        ids = [one.item for one in asked.items]
        if item in ids:
            number = ids.index(item) + 1
            place = {"round": asked.step, "number": number, "of": len(ids)}
            return place | {"why": why(asked)}
    return {"round": None, "number": 0, "of": 0, "why": ""}
