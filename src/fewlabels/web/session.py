"""The labeling of a project: requests of the page as verbs of the project."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from threading import Lock

from pydantic import TypeAdapter

from fewlabels.errors import JobError, UnknownNameError, UsageError, check_distinct
from fewlabels.experiments.evaluation import AuditedAccuracy, accuracy_interval
from fewlabels.files import read_regular, replace_text
from fewlabels.projects import Project
from fewlabels.projects.labels import annotator_name, removed_classes
from fewlabels.projects.snapshot import Tally
from fewlabels.projects.status import Status
from fewlabels.projects.store import Kind, Store, StoredRound, agreement, consensus
from fewlabels.projects.store.records import LABELS, REPEATED
from fewlabels.report.wording import project_explanation, project_headline
from fewlabels.strategies.registry import family
from fewlabels.web import messages
from fewlabels.web.messages import ClassLook, Facts
from fewlabels.web.pictures import ImageNames

MOST_FAULTS = 20
"""Rows of a file with labels that the page lists."""
CLASSES_FILE = "page-classes.json"
"""How classes are shown, by their numbers, which stay when one is renamed."""

MOST_DISPUTED = 60
"""Images with different labels that are shown."""

REPEATED_AFTER = 40
"""Events after which a confirmed image may come back."""
_LOOKS = TypeAdapter(dict[int, ClassLook])
_MOST_LOOK_BYTES = 4 * 1024**2
_FACTS = ("advice", "notes", "num_unused", "num_checks", "num_awaited")
_COUNTED = ("spent", "confirmed", "imported", "skipped")


@dataclass(eq=False)
class Session:
    """The labeling of one project, by one or several people; it stores nothing."""

    _project: Project | None
    """None: it is still being created."""
    on_shortage: Callable[[int], object] = field(default=lambda _: None)
    """Called with the last round when a tab gets fewer images than it asks for."""
    _importing: Lock = field(default_factory=Lock)
    _lock: Lock = field(default_factory=Lock)

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
            "overlap": settings.overlap,
            "user": annotator_name(None),  # whoever gives no other name
        }

    # -------------------------------------------------------------------- labeling

    def lease(self, turn: messages.Turn) -> Facts:
        """Lease the next images of the round to a tab."""
        leased = self.project.lease(
            turn.count, annotator=turn.annotator, token=turn.tab
        )
        shown = self.shown(list(leased.items))
        with self.counted() as tally:
            last = len(tally.rounds) - 1
            ready = sorted(
                (sequence, item)
                for (item, person), sequence in tally.repeats.items()
                if person == annotator_name(turn.annotator)
                and tally.sequence - sequence >= REPEATED_AFTER
            )
        if len(leased.items) < turn.count:
            self.on_shortage(last)
        if len(shown) > 1:  # one that the same person confirmed looks like the next one
            for facts in self._seen([item for _, item in ready[:1]]).values():
                shown.insert(-1, {**shown[-1], **facts, "is_repeat": True})
        return {
            "items": shown,
            "num_held": leased.num_held,
            "frees_at": leased.frees_at and leased.frees_at.isoformat(),
        }

    def stay(self, turn: messages.Turn) -> Facts:
        """Prolong the leases of a tab."""
        items = self.project.store.heartbeat(turn.tab)
        return {"items": [self.images.name_of(item) for item in items]}

    def leave(self, turn: messages.Turn) -> Facts:
        """Release the leases of a tab."""
        return {"num_released": self.project.store.release(turn.tab)}

    def import_labels(self, wish: messages.Import, content: bytes) -> Facts:
        """Import a file of labels, or return what that would do."""
        with self._importing:  # rows take many times the memory of their file
            done = self.project.import_labels(
                wish.name,
                content=content,
                scan=False,
                **wish.model_dump(exclude={"name", "tab"}),
            )
        facts = asdict(done)
        for name in ("faults", "left_out"):
            facts[f"num_{name}"] = len(getattr(done, name))
            facts[name] = [str(fault) for fault in getattr(done, name)[:MOST_FAULTS]]
        return facts

    def undo_import(self, wish: messages.ImportUndo) -> Facts:
        """Undo an import."""
        return asdict(self.project.undo_import(wish.uuid))

    def set_budget(self, wish: messages.Budget) -> Facts:
        """Change how many labels are to be given in all."""
        self._project = self.project.with_budget(wish.budget, wish.audit)
        return {"budget": wish.budget}

    def show_classes(self, given: messages.ClassLooks) -> Facts:
        """Store the order, letters, colors and descriptions of classes."""
        wanted = given.classes
        number_of = {entry.name: entry.number for entry in self.project.store.classes()}
        for look in wanted:
            if look.name not in number_of:
                raise UnknownNameError("class", look.name, number_of)
        check_distinct("class", [look.name for look in wanted])
        check_distinct("letter", [look.letter for look in wanted if look.letter])
        numbered: dict[int, ClassLook] = {number_of[look.name]: look for look in wanted}
        content = _LOOKS.dump_json(numbered, indent=1).decode()
        replace_text(self.project.folder / CLASSES_FILE, content + "\n")
        return {"num_classes": len(wanted)}

    def change_class(self, change: messages.ClassChange) -> Facts:
        """Rename, merge, delete or restore a class; return how many labels changed."""
        project, name, other = self.project, change.name, change.other
        if change.verb in {"rename", "merge"} and other is None:
            raise UsageError(f"To {change.verb} a class, give the other name.")
        num_labels = 0
        if change.verb == "rename":
            project.rename_class(name, other or "", uuid=change.uuid)
        elif change.verb == "restore":
            num_labels = project.restore_class(name, uuid=change.uuid)
        else:
            into = other if change.verb == "merge" else None
            num_labels = project.merge_classes(name, into, uuid=change.uuid)
        return {"num_labels": num_labels}

    def removed_classes(self) -> Facts:
        """Return the classes that were merged or deleted, the last one first."""
        with self.project.store.reading() as moment:
            removed = removed_classes(moment)
        return {
            "removed": [
                {
                    "name": name,
                    "into": stored.payload.get("into"),
                    "num_labels": stored.payload.get("num_labels", 0),
                }
                for name, stored in reversed(removed.items())
            ]
        }

    def tiles(self, entries: Sequence[Facts]) -> list[Facts]:
        """Return entries with what the page shows of their images."""
        seen = self._seen([entry["item"] for entry in entries])
        known = [entry for entry in entries if entry["item"] in seen]
        return [{**entry, "item": None, **seen[entry["item"]]} for entry in known]

    def shown(self, items: list[str]) -> list[Facts]:
        """Return what the page shows with each image."""
        seen = self._seen(items)
        with self.counted() as tally:  # later: all that was leased is in a round
            for item, facts in seen.items():
                facts |= {"round": None, "number": 0, "of": 0, "why": ""}
                if item in tally.places:  # in the latest round that asked about it
                    step, rank = tally.places[item]
                    asked = tally.rounds[step]
                    facts |= {"round": step, "number": rank + 1}
                    facts |= {"of": len(asked.items), "why": reason_of(asked)}
        return list(seen.values())

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
    def counted(self) -> Iterator[Tally]:
        """Yield the current counts, to one thread at a time."""
        with self._lock:
            self._tally.update(self.project.store)
            yield self._tally

    def state(self) -> Facts:
        """Return how far the labeling is; cheap, whatever the number of images."""
        looks = looks_of(self.project.folder)
        places = {number: place for place, number in enumerate(looks)}
        with self.counted() as tally:
            active = [entry for entry in tally.classes if entry.is_active]
            active.sort(key=lambda entry: places.get(entry.number, len(places)))
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
                        "number": entry.number,
                        "count": tally.class_counts[entry.number],
                        **looks.get(entry.number, ClassLook()).model_dump(),
                    }
                    for entry in active
                ],
                "budget": self.project.settings.budget,
                **{kind: tally.num_items[kind] for kind in _COUNTED},
                "round": latest,
                "open": tally.num_open,
                "waiting": len(tally.waiting),
            }

    def model_status(self) -> Facts:
        """Return how good the model is, its learning curve, and what it learned."""
        status = self.project.status()
        model, names = status.model, status.classes
        retired = {e.name for e in self.project.store.classes() if not e.is_active}
        learned = None
        if model is not None:
            counts = zip(model.classes, model.class_counts, strict=True)
            learned = {
                "name": model.name,
                "trainer": model.trainer,
                "num_labels": model.num_labeled,
                "classes": {name: count for name, count in counts if count},
            }
        return {
            "headline": project_headline(status),
            "explanation": " ".join(project_explanation(status)),
            "curve": [point for point in status.curve if point.audited.num_audited],
            "audit": max(self.project.settings.audit, status.audit_size),
            **{name: getattr(status, name) for name in _FACTS},
            "num_measuring": status.num_audited,
            "classes": class_measures(status, retired),
            "confusion": [
                {"label": names[label], "predicted": names[predicted], "count": count}
                for (label, predicted), count in sorted(status.confusion.items())
            ],
            "model": learned,
            "repeats": repeated_labels(self.project.store),
        }

    def people_status(self) -> Facts:
        """Return who labeled, how far each two agree, and what is to be settled.

        That is images with as many labels as were wanted and no majority: nobody is
        asked about them any more.
        """
        with self.project.store.reading() as moment:
            verdicts = moment.verdicts()
            names = {entry.number: entry.name for entry in moment.classes()}
        # Labels that a model suggested, or a file had, say little about agreement.
        given = [verdict for verdict in verdicts if verdict.is_asked]
        labels = [verdict for verdict in given if verdict.kind in LABELS]
        people = sorted({verdict.annotator for verdict in given})
        classes: dict[str, dict[str, str]] = {name: {} for name in people}
        for verdict in labels:
            classes[verdict.annotator][verdict.item] = names[verdict.class_number or 0]
        kinds = Counter((verdict.annotator, verdict.kind) for verdict in given)
        votes = consensus(labels, self.project.settings.overlap)
        apart = sorted(vote.item for vote in votes if vote.is_disputed)
        times: dict[str, list[float]] = {name: [] for name in people}
        for stored in self.project.store.events(kinds={Kind.LABEL}):
            if stored.annotator in times and "lead_time" in stored.payload:
                times[stored.annotator].append(stored.payload["lead_time"])

        def answers(item: str) -> list[Facts]:
            return [
                {"annotator": name, "label": classes[name][item]}
                for name in people
                if item in classes[name]
            ]

        return {
            "people": [
                {
                    "name": name,
                    "labels": len(classes[name]),
                    "skipped": kinds[name, Kind.SKIP],
                    "unsure": kinds[name, Kind.UNSURE],
                    "seconds": median(times[name]) if times[name] else None,
                }
                for name in people
            ],
            "pairs": [
                {
                    "first": first,
                    "other": other,
                    "shared": len(classes[first].keys() & classes[other].keys()),
                    "same": len(classes[first].items() & classes[other].items()),
                    "kappa": kappa,
                }
                for (first, other), kappa in sorted(agreement(labels).cohen.items())
            ],
            "num_apart": len(apart),
            "apart": self.tiles(
                [{"item": i, "answers": answers(i)} for i in apart[:MOST_DISPUTED]]
            ),
        }


def class_measures(status: Status, retired: Collection[str]) -> list[Facts]:
    """Return labels, predictions, recall and precision of each class.

    Retired classes are left out, unless the latest model still predicts them.
    """
    used = {number for pair in status.confusion for number in pair}
    predicted = status.model.predicted if status.model is not None else ()

    def share(number: int, side: int) -> AuditedAccuracy:
        pairs = status.confusion.items()
        total = sum(count for pair, count in pairs if pair[side] == number)
        return accuracy_interval(status.confusion.get((number, number), 0), total)

    return [
        {
            "name": name,
            "is_active": name not in retired,
            "labels": status.class_counts[number] + status.audit_counts[number],
            "measuring": status.audit_counts[number],
            "predicted": predicted[number] if number < len(predicted) else None,
            "recall": share(number, 0),
            "precision": share(number, 1),
        }
        for number, name in enumerate(status.classes)
        if name not in retired or number in used
    ]


def repeated_labels(store: Store) -> AuditedAccuracy:
    """Return how many confirmed labels were the same when they were given again."""
    repeats = [e for e in store.events(kinds={Kind.RELABEL}) if REPEATED in e.payload]
    held = {v.uuid for v in store.verdicts(items=[str(e.item) for e in repeats])}
    same = [e.class_number == e.payload[REPEATED] for e in repeats if e.uuid in held]
    return accuracy_interval(sum(same), len(same))


# ------------------------------------------------------------------- looks of classes


def looks_of(folder: Path) -> dict[int, ClassLook]:
    """Return how classes are shown, in their order; a damaged file says nothing."""
    with suppress(OSError, ValueError):
        content = read_regular(folder / CLASSES_FILE, _MOST_LOOK_BYTES)
        return _LOOKS.validate_json(content)
    return {}


def reason_of(asked: StoredRound) -> str:
    """Return why a round asks about its images, without a hint at their classes.

    Images that measure get the same words: whoever knew which they are might look at
    them differently.
    """
    others = sum(entry.role == "query" for entry in asked.items) - 1
    by = asked.model or "an untrained network"
    together = f"Chosen together with {others} others: as a set, they"
    reasons = {
        "random": "Drawn at random.",
        "npc": f"{together} add most to what {by} knows.",
        "explanation": f"{together} settle most of what {by} is still unsure about.",
        "uncertainty": f"Chosen because {by} is least sure about such images.",
        "coverage": f"{together} stand for the rest.",
    }
    is_named = asked.strategy in reasons
    text = reasons.get(
        asked.strategy if is_named else str(family(asked.strategy)),
        f"Chosen by the strategy {asked.strategy}, looking at {by}.",
    )
    if any(entry.role == "audit" for entry in asked.items):
        some = "All" if others < 0 else "Some"
        text += f" {some} images of this round only check how good the model is."
    return text
