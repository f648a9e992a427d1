"""What people do on the page, as the verbs of a project. Nothing is stored here."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

from fewlabels.errors import AnswersError, JobError, UsageError
from fewlabels.projects import Project
from fewlabels.projects.store import StoredEvent
from fewlabels.projects.tally import Tally
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
    _importing: Lock = field(default_factory=Lock)
    _lock: Lock = field(default_factory=Lock)
    _reasons: dict[int, str] = field(default_factory=dict)

    @cached_property
    def _tally(self) -> Tally:
        return Tally(overlap=self.project.settings.overlap)

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
        items = [one.item for one in leased.leases]
        if len(items) < turn.count:
            with self._counted() as tally:
                last = len(tally.rounds) - 1
            self.on_shortage(last)
        frees_at = leased.frees_at
        return {
            "items": self._shown(items),
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
        shown = self._shown([str(done.event.item)])
        return {"saved": done.sequence, "item": shown[0] if shown else None}

    def _shown(self, items: list[str]) -> list[Facts]:
        """Return what the page shows with each image."""
        seen = self._seen(items)
        with self._counted() as tally:  # later: all that was leased is in a round
            return [facts | self._place(item, tally) for item, facts in seen.items()]

    def _place(self, item: str, tally: Tally) -> Facts:
        """Return where an image is in the latest round that asked about it."""
        if item not in tally.places:
            return {"round": None, "number": 0, "of": 0, "why": ""}
        step, rank = tally.places[item]
        asked = tally.rounds[step]
        if step not in self._reasons:
            self._reasons[step] = why(asked)
        place = {"round": step, "number": rank + 1, "of": len(asked.items)}
        return place | {"why": self._reasons[step]}

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

    @contextmanager
    def _counted(self) -> Iterator[Tally]:
        """Yield the counts as of now, to one thread at a time."""
        with self._lock:
            self._tally.update(self.project.store)
            yield self._tally

    def state(self) -> Facts:
        """Return how far the labeling is; cheap, whatever the number of images."""
        letters = letters_of(self.project.folder)
        with self._counted() as tally:
            last = tally.rounds[-1] if tally.rounds else None
            return {
                "sequence": tally.sequence,
                "classes": [
                    {
                        "name": one.name,
                        "count": tally.class_counts[one.number],
                        "letter": letters.get(one.number, ""),
                    }
                    for one in tally.classes
                    if one.is_active
                ],
                "budget": self.project.settings.budget,
                "spent": tally.num_items["spent"],
                "confirmed": tally.num_items["confirmed"],
                "imported": tally.num_items["imported"],
                "skipped": tally.num_items["skipped"],
                "round": None
                if last is None
                else {
                    "number": last.step,
                    "size": len(last.items),
                    "open": tally.num_open_since(last.step),
                },
                "open": tally.num_open,
                "waiting": len(tally.waiting),
                "people": tally.people,
            }
