"""The labeling of a project: requests of the page as verbs of the project."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from fewlabels.errors import AnswersError, JobError, UnknownNameError, UsageError
from fewlabels.files import parse_json, read_regular, replace_text
from fewlabels.projects import Project
from fewlabels.projects.labels import annotator_name
from fewlabels.projects.store import StoredEvent, StoredRound
from fewlabels.projects.tally import Tally
from fewlabels.strategies.registry import family
from fewlabels.web.messages import (
    Action,
    Confirmation,
    Import,
    ImportUndo,
    Letters,
    Turn,
)
from fewlabels.web.pictures import ImageNames

Facts = dict[str, Any]
"""What is sent to the page, as JSON can hold it."""

MOST_FAULTS = 20
"""Rows of a file with labels that the page lists."""
LETTERS_FILE = "page-letters.json"
"""Letters by the numbers of classes, which stay when a class is renamed."""

_MOST_LETTER_BYTES = 64 * 1024
_COUNTED = ("spent", "confirmed", "imported", "skipped")


@dataclass(eq=False)
class Session:
    """The labeling of one project, by one or several people; it stores nothing."""

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
        """The project, once it was created."""
        if self._project is None:
            raise JobError("The project is still being created; try again later.")
        return self._project

    @property
    def is_open(self) -> bool:
        """Whether the project was created."""
        return self._project is not None

    def open(self, project: Project) -> None:
        """Start to label a project that was created."""
        self._project = project

    @cached_property
    def images(self) -> ImageNames:
        """The images, by their names on the page."""
        return ImageNames(self.project)

    def describe(self) -> Facts:
        """Return what does not change while the page is open."""
        settings = self.project.settings
        return {
            "name": self.project.images_folder.resolve().name,
            "identity": self.images.name_of("project"),
            "query": settings.query,
            "trainer": settings.trainer.name,
            "strategy": settings.strategy.name,
            "overlap": settings.overlap,
            "user": annotator_name(None),  # whoever gives no other name
        }

    # -------------------------------------------------------------------- labeling

    def lease(self, turn: Turn) -> Facts:
        """Lease the next images of the round to a tab."""
        who: Facts = {"annotator": turn.annotator, "token": turn.tab}
        leased = self.project.lease(turn.count, **who)
        items = [lease.item for lease in leased.leases]
        if len(items) < turn.count:
            with self._counted() as tally:
                last = len(tally.rounds) - 1
            self.on_shortage(last)
        return {
            "items": self._shown(items),
            "num_held": leased.num_held,
            "frees_at": leased.frees_at and leased.frees_at.isoformat(),
        }

    def stay(self, turn: Turn) -> Facts:
        """Prolong the leases of a tab."""
        leases = self.project.heartbeat(turn.tab)
        return {"items": [self.images.name_of(lease.item) for lease in leases]}

    def leave(self, turn: Turn) -> Facts:
        """Release the leases of a tab."""
        return {"num_released": self.project.release(turn.tab)}

    def act(self, action: Action) -> Facts:
        """Store an action of a person; the same one again changes nothing."""
        if action.verb == "add_class":
            classes = self.project.add_class(action.name or "", uuid=action.uuid)
            self.on_change()
            return {"classes": classes}
        if action.verb == "undo":
            return self._undo(action)
        written = self._answer(action)
        self.on_change()
        return {"saved": written.sequence}

    def confirm(self, given: Confirmation) -> Facts:
        """Confirm a class for many images, or undo that."""
        items = [self.images.item(name) for name in given.items]
        known = [item for item in items if item is not None]
        who: Facts = {"annotator": given.annotator, "uuid": given.uuid}
        if given.undoes is not None:
            done = self.project.take_back(known, given.undoes, **who)
        elif given.name is None:
            raise UsageError("A confirmation needs the name of a class.")
        else:
            who["is_correction"] = given.is_correction
            done = self.project.confirm(known, given.name, **who)
        self.on_change()
        return {"items": [self.images.name_of(item) for item in done]}

    def import_labels(self, wish: Import, content: bytes) -> Facts:
        """Import a file of labels, or return what that would do."""
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
            facts[f"num_{name}"] = len(getattr(done, name))
            facts[name] = [str(fault) for fault in getattr(done, name)[:MOST_FAULTS]]
        return facts

    def undo_import(self, wish: ImportUndo) -> Facts:
        """Undo an import."""
        undone = self.project.undo_import(wish.uuid)
        self.on_change()
        return asdict(undone)

    def letters(self, given: Letters) -> Facts:
        """Store the letters that somebody gave to classes."""
        store_letters(self.project, given.letters)
        self.on_change()
        return {"letters": given.letters}

    def tiles(self, entries: Sequence[Facts]) -> list[Facts]:
        """Return entries with what the page shows of their images."""
        seen = self._seen([entry["item"] for entry in entries])
        known = [entry for entry in entries if entry["item"] in seen]
        return [{**entry, "item": None, **seen[entry["item"]]} for entry in known]

    def _answer(self, action: Action) -> StoredEvent:
        """Store an answer about an image."""
        if action.item is None:
            raise UsageError(f"The action '{action.verb}' needs an image.")
        item = self.images.item(action.item)
        if item is None:
            raise UsageError("There is no such image in this project any more.")
        project = self.project
        who: Facts = {"annotator": action.annotator, "uuid": action.uuid}
        if action.verb == "change":
            return project.change(item, action.name, **who)
        who["in_turn"] = True  # a tab that was asleep may have lost it
        if action.verb == "skip":
            return project.skip(item, **who)
        if action.verb == "unsure":
            return project.unsure(item, **who)
        if action.name is None:
            raise UsageError("A label needs the name of a class.")
        return project.label(item, action.name, lead_time=action.lead_time, **who)

    def _undo(self, action: Action) -> Facts:
        """Undo an answer, and lease its image to the tab that did so."""
        who: Facts = {"annotator": action.annotator, "uuid": action.uuid}
        done = self.project.undo(target=action.target, token=action.tab, **who)
        self.on_change()
        shown = self._shown([str(done.event.item)])
        return {"saved": done.sequence, "item": shown[0] if shown else None}

    def _shown(self, items: list[str]) -> list[Facts]:
        """Return what the page shows with each image."""
        seen = self._seen(items)
        with self._counted() as tally:  # later: all that was leased is in a round
            return [facts | self._place(item, tally) for item, facts in seen.items()]

    def _place(self, item: str, tally: Tally) -> Facts:
        """Return the place of an image in the latest round that asked about it."""
        if item not in tally.places:
            return {"round": None, "number": 0, "of": 0, "why": ""}
        step, rank = tally.places[item]
        asked = tally.rounds[step]
        if step not in self._reasons:
            self._reasons[step] = reason_of(asked)
        place = {"round": step, "number": rank + 1, "of": len(asked.items)}
        return place | {"why": self._reasons[step]}

    def _seen(self, items: Sequence[str]) -> dict[str, Facts]:
        """Return what the page shows of images, without those that are gone."""
        self.images.know(items)
        seen: dict[str, Facts] = {}
        for item in items:
            name = self.images.name_of(item)
            file = self.images.file(name)
            if file is not None:
                size = {"width": file.width, "height": file.height}
                seen[item] = {"id": name, "file": file.name, **size}
        return seen

    # -------------------------------------------------------------------- overview

    @contextmanager
    def _counted(self) -> Iterator[Tally]:
        """Yield the current counts, to one thread at a time."""
        with self._lock:
            self._tally.update(self.project.store)
            yield self._tally

    def state(self) -> Facts:
        """Return how far the labeling is; cheap, whatever the number of images."""
        letters = letters_of(self.project.folder)
        with self._counted() as tally:
            latest = None
            if tally.rounds:
                last = tally.rounds[-1]
                latest = {"number": last.step, "size": len(last.items)}
                latest["open"] = tally.num_open_since(last.step)
            return {
                "sequence": tally.sequence,
                "classes": [
                    {
                        "name": entry.name,
                        "count": tally.class_counts[entry.number],
                        "letter": letters.get(entry.number, ""),
                    }
                    for entry in tally.classes
                    if entry.is_active
                ],
                "budget": self.project.settings.budget,
                **{kind: tally.num_items[kind] for kind in _COUNTED},
                "round": latest,
                "open": tally.num_open,
                "waiting": len(tally.waiting),
                "people": tally.people,
            }


# ------------------------------------------------------------------- letters of classes


def letters_of(folder: Path) -> dict[int, str]:
    """Return the letter of each class that was given one; a damaged file gives none."""
    with suppress(OSError, ValueError):
        content = parse_json(read_regular(folder / LETTERS_FILE, _MOST_LETTER_BYTES))
        if isinstance(content, dict):
            return {
                int(number): letter
                for number, letter in content.items()
                if isinstance(letter, str) and is_letter(letter)
            }
    return {}


def is_letter(text: str) -> bool:
    """Return whether one key types a text without Shift."""
    return len(text) == 1 and text.isascii() and text.islower()


def store_letters(project: Project, wanted: Mapping[str, str]) -> None:
    """Give letters to classes by their names, and take those of all others.

    Args:
        project: The project.
        wanted: A letter from a to z for each class, no two the same.
    """
    number_of = {entry.name: entry.number for entry in project.store.classes()}
    for name, letter in wanted.items():
        if name not in number_of:
            raise UnknownNameError("class", name, number_of)
        if not is_letter(letter):
            raise UsageError(f"'{name}' has the letter '{letter}'; give one of a to z.")
    for letter, times in Counter(wanted.values()).items():
        if times > 1:
            raise UsageError(
                f"{times} classes have the letter '{letter}'; give each its own."
            )
    numbered = {str(number_of[name]): letter for name, letter in wanted.items()}
    replace_text(project.folder / LETTERS_FILE, json.dumps(numbered, indent=1) + "\n")


def reason_of(asked: StoredRound) -> str:
    """Return why a round asks about its images, without a hint at their classes.

    Images that measure get the same words: whoever knew which they are might look at
    them differently.

    Args:
        asked: The round.

    Returns:
        A sentence or two.
    """
    others = sum(entry.role == "query" for entry in asked.items) - 1
    by = asked.model or "an untrained network"
    kind = "random" if asked.strategy == "random" else family(asked.strategy)
    text = f"Chosen by the strategy {asked.strategy}, looking at {by}."
    if kind == "random":
        text = "Drawn at random."
    elif asked.strategy == "npc":
        text = (
            f"Chosen together with {others} others: as a set, they tell {by} most that "
            "its labels do not tell yet."
        )
    elif kind == "explanation":
        text = (
            f"Chosen together with {others} others: as a set, they explain most of "
            f"what {by} cannot tell about the rest yet."
        )
    elif kind == "uncertainty":
        text = f"Chosen because {by} is least sure about such images."
    elif kind == "coverage":
        text = f"Chosen with {others} others because together they stand for the rest."
    if any(entry.role == "audit" for entry in asked.items):
        text += " Some images of this round only measure how good the model is."
    return text
