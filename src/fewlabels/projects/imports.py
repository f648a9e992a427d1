"""Labels that exist already: brought into a project, and taken out again.

They are ordinary label events without a round, whose strategy is ``imported``. They
train, cost no budget and never measure: no image of the audit slice, and no copy of
one, gets such a label, and none that has one is drawn into the slice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from uuid import UUID, uuid5

from fewlabels.data.folder import folder_labels, image_names
from fewlabels.data.unreadable import printable
from fewlabels.errors import AnswersError, DataError, Fault, UsageError
from fewlabels.files import read_regular
from fewlabels.progress import track
from fewlabels.projects import classes
from fewlabels.projects.exchange.label_files import (
    Columns,
    label_rows,
    plain_path,
    shared_root,
)
from fewlabels.projects.exchange.matching import (
    Classes,
    FaultyRowError,
    Images,
    quoted,
    text_of,
)
from fewlabels.projects.exchange.reading import content_of, in_order
from fewlabels.projects.exchange.records import NAMES, SAYINGS, Numbered
from fewlabels.projects.folder import ProjectFolder, inside
from fewlabels.store import Annotation, Event, Item, Kind, Store
from fewlabels.store.records import IMPORTED, LABELS, new_uuid

_MOST_NEW_CLASSES = 1_000
_MOST_ROWS, _MOST_ROWS_PER_IMAGE = 100_000, 4
_LONGEST_NAME = 200
_KEY = "import"
_CLASS = "\0class "  # no id of an item begins so
_ADDING = frozenset({Kind.CLASS_ADDED, Kind.CLASS_RESTORED})


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What came of an import, or would come of it."""

    uuid: str
    """Names the import, for undoing it."""
    num_new: int
    """Labels that were not there before."""
    num_same: int
    """Rows that say what was known already, or say it twice."""
    num_blank: int
    """Rows, or images, without a class."""
    class_counts: Mapping[str, int]
    """New labels of each class."""
    new_classes: tuple[str, ...] = ()
    """Classes that were added."""
    unknown_classes: tuple[str, ...] = ()
    """Classes that the project does not have, and that were not added."""
    left_out: tuple[Fault, ...] = ()
    """Images that measure, and their copies; this is no fault of the file."""
    faults: tuple[Fault, ...] = ()
    """Rows that cannot be imported, and why: conflicts, unknown files and classes."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of a table that held ``file_name`` and ``label``."""


@dataclass(frozen=True, kw_only=True)
class UndoneImport:
    """What was taken out of a project again."""

    uuid: str
    """Of the import."""
    num_labels: int
    """Labels that hold no longer; what was changed since the import stays."""
    retired_classes: tuple[str, ...] = ()
    """Classes that it had added and that no label names any more."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where labels come from, and how to read them."""

    path: Path
    """A file, or a folder with a folder for each class."""
    content: bytes | None = None
    """What the file holds, if it is not on this disk: its name is never opened."""
    file_column: str | None = None
    class_column: str | None = None


def import_labels(
    project: ProjectFolder,
    source: Source,
    *,
    annotator: str,
    add_classes: bool,
    partial: bool,
    dry_run: bool,
    uuid: str | None,
) -> Imported:
    """Return what was imported; see :meth:`Project.import_labels`."""
    name, own = source.path.name or source.path.resolve().name, uuid or new_uuid()
    columns = Columns(source.file_column, source.class_column)
    items = {item.id: item for item in project.store.items()}
    rows = _Rows.of(_entries(project, source, columns, tuple(items.values())), items)
    access = project.store.reading if dry_run else project.store.writing
    with access() as store:
        plan = _Plan(store, items, own, add_classes=add_classes)
        for entry, item in rows.matched:
            plan.take(entry, item)
        accepted = plan.accepted()
        faults = in_order([*rows.faults, *plan.faults])
        if faults and not (partial or dry_run):
            raise AnswersError(source.path, faults)
        new_classes = plan.new_classes(accepted.values())
        if accepted and not dry_run:
            _write(store, accepted, new_classes, annotator, own, name)
            if uuid is not None:  # sent again, it may have been undone
                held = {verdict.uuid for verdict in store.verdicts(with_missing=True)}
                accepted = {
                    item: label
                    for item, label in accepted.items()
                    if _event_uuid(own, item) in held
                }
    return Imported(
        uuid=own,
        num_new=len(accepted),
        num_same=plan.num_same,
        num_blank=rows.num_blank,
        class_counts=dict(Counter(accepted.values())),
        new_classes=new_classes,
        unknown_classes=tuple(plan.unknown_classes),
        left_out=in_order(plan.left_out),
        faults=faults,
        columns=columns.used,
    )


def undo_import(project: ProjectFolder, uuid: str | None) -> UndoneImport:
    """Return what was undone of an import; see :meth:`Project.undo_import`."""
    with project.store.writing() as store:
        verdicts = store.verdicts(with_missing=True)
        # A label that was changed since is of another kind.
        held = [v for v in verdicts if v.is_imported and v.kind is Kind.LABEL]
        if uuid is None:
            if not held:
                raise UsageError(
                    "No imported label is in force, so there is nothing to undo."
                )
            last = store.event(max(held, key=lambda verdict: verdict.sequence).uuid)
            assert last is not None
            uuid = str(last.event.payload[_KEY])
        mine = [v for v in held if v.uuid == _event_uuid(uuid, v.item)]
        store.append(
            Event(kind=Kind.UNDO, annotator=verdict.annotator, target=verdict.uuid)
            for verdict in mine
        )
        undone = {verdict.uuid for verdict in mine}
        named = {v.class_number for v in verdicts if v.uuid not in undone}
        retired = []
        active = {
            entry.number: entry.name for entry in store.classes() if entry.is_active
        }
        for added in list(store.events(kinds=_ADDING)):
            number = added.event.class_number or 0
            own = _event_uuid(uuid, f"{_CLASS}{added.event.payload.get('name')}")
            if added.event.uuid == own and number in active and number not in named:
                classes.retire(store, number)
                retired.append(active.pop(number))
    return UndoneImport(uuid=uuid, num_labels=len(mine), retired_classes=tuple(retired))


def _event_uuid(uuid: str, part: str) -> str:
    """Return the UUID of what an import does to an item, or to a class."""
    try:
        return str(uuid5(UUID(uuid), part))
    except ValueError as error:
        msg = f"'{uuid}' is not a UUID; let fewlabels.store.new_uuid() make one."
        raise UsageError(msg) from error


def _write(
    store: Store,
    accepted: Mapping[str, str],
    new_classes: Sequence[str],
    annotator: str,
    uuid: str,
    name: str,
) -> None:
    """Add classes and labels, inside a transaction."""
    for label in new_classes:
        classes.add(store, label, _event_uuid(uuid, f"{_CLASS}{label}"))
    number_of = {entry.name: entry.number for entry in store.classes()}
    payload = {_KEY: uuid, "file": printable(name)[:_LONGEST_NAME]}
    store.append(
        Event(
            kind=Kind.LABEL,
            annotator=annotator,
            uuid=_event_uuid(uuid, item),
            item=item,
            class_number=number_of[label],
            strategy=IMPORTED,
            payload=payload,
        )
        for item, label in accepted.items()
    )


# ------------------------------------------------------------------------- reading


def _entries(
    project: ProjectFolder, source: Source, columns: Columns, items: Sequence[Item]
) -> list[Numbered | Fault]:
    """Return the rows of a file, or a row per image of a folder."""
    path = source.path
    if source.content is None and path.is_dir():
        inner = inside(path, project.images_folder)
        is_whole = path.resolve() == project.images_folder.resolve()
        rows: Iterator[Numbered | Fault]
        if inner is not None or is_whole:
            rows = _own_folder("" if is_whole else f"{inner}/", items)
        else:
            rows = _other_folder(path, items)
        found = list(rows)
        if not any(isinstance(e, Fault) or e.row["label"] for e in found):
            told = (
                f"'{path}' has no folders with images in them that would name a class"
            )
            raise DataError(f"{told}; give a folder with a folder for each class.")
        return found
    content = content_of(path) if source.content is None else source.content
    if isinstance(content, Fault):
        return [content]
    most = max(_MOST_ROWS, _MOST_ROWS_PER_IMAGE * len(items))
    found = list(islice(label_rows(path.name, content, columns), most + 1))
    if len(found) > most:
        return [Fault(1, f"the file has more than {most:,} rows; split it.")]
    return found or [Fault(1, "there is no row in the file.")]


def _own_folder(prefix: str, items: Iterable[Item]) -> Iterator[Numbered]:
    """Yield the images of a project below a folder, with the class they lie in."""
    names = [
        item.path.removeprefix(prefix) for item in items if item.path.startswith(prefix)
    ]
    for name, label in zip(names, folder_labels(names), strict=True):
        yield Numbered(0, {NAMES[0]: prefix + name, "label": label})


def _other_folder(folder: Path, items: Iterable[Item]) -> Iterator[Numbered | Fault]:
    """Yield images of another folder by their content, with the class they lie in."""
    from fewlabels.data.decode import MAX_BYTES, digest_of

    path_of: dict[str, str] = {}
    for item in items:
        path_of.setdefault(item.digest, item.path)
    names, _ = image_names(folder)
    with track("Reading images", len(names)) as advance:
        for name, label in zip(names, folder_labels(names), strict=True):
            advance(1)
            if label is None:
                yield Numbered(0, {NAMES[0]: name, "label": None})
                continue
            try:
                digest = digest_of(read_regular(folder / name, MAX_BYTES))
            except OSError as error:
                yield Fault(0, f"{quoted(name)} cannot be read: {error.strerror}.")
                continue
            if digest in path_of:
                yield Numbered(0, {NAMES[0]: path_of[digest], "label": label})
            else:
                told = f"no image of this project has the content of {quoted(name)}"
                yield Fault(0, f"{told}; images of another folder count by content.")


@dataclass(frozen=True)
class _Rows:
    """Rows that name a class, each with the image it is about."""

    matched: list[tuple[Numbered, str]]
    faults: list[Fault]
    num_blank: int

    @classmethod
    def of(
        cls, entries: Sequence[Numbered | Fault], items: Mapping[str, Item]
    ) -> "_Rows":
        """Find the image that each row means."""
        known = {item.path: item.id for item in items.values()}
        images = Images(known, None)
        named = [_name(entry) for entry in entries if isinstance(entry, Numbered)]
        root = shared_root(named, known)
        matched, faults, num_blank = [], [], 0
        for entry in entries:
            if isinstance(entry, Fault):
                faults.append(entry)
                continue
            try:
                word = text_of(entry.row, "label")
                if word is None or word.casefold() in SAYINGS:
                    num_blank += 1
                    continue
                name = _name(entry)
                if root and name:
                    name = plain_path(name).removeprefix(root)
                matched.append((entry, images.find({NAMES[0]: name})))
            except FaultyRowError as error:
                faults.append(entry.fault(error))
        return cls(matched, faults, num_blank)


def _name(entry: Numbered) -> str:
    name = entry.row.get(NAMES[0])
    return "" if name is None else str(name)


# ------------------------------------------------------------------------ deciding


class _Plan:
    """Which labels to add, judged by what a project holds at this moment."""

    def __init__(
        self, store: Store, items: Mapping[str, Item], uuid: str, *, add_classes: bool
    ) -> None:
        self._items, self._uuid = items, uuid
        listed = store.classes()
        self._names = {entry.number: entry.name for entry in listed}
        self._active = [entry.name for entry in listed if entry.is_active]
        self._in_use = frozenset(self._active)
        self._classes = Classes(self._active)
        self._adds_classes = add_classes
        self._verdicts: dict[str, list[Annotation]] = defaultdict(list)
        for verdict in store.verdicts(with_missing=True):
            self._verdicts[verdict.item].append(verdict)
        self._audit = {
            entry.item
            for asked in store.rounds()
            for entry in asked.items
            if entry.role == "audit"
        }
        self._audit_groups = {
            items[item].group for item in self._audit if item in items
        }
        self._said: dict[str, list[tuple[Numbered, str]]] = defaultdict(list)
        self.unknown_classes: dict[str, None] = {}
        self.faults: list[Fault] = []
        self.left_out: list[Fault] = []
        self.num_same = 0

    def take(self, entry: Numbered, item: str) -> None:
        """Take a row about an image, unless its class is not known."""
        path = quoted(self._items[item].path)
        if item in self._audit or self._items[item].group in self._audit_groups:
            is_copy = "" if item in self._audit else "is a copy of an image that "
            told = f"{path} {is_copy}measures how good the model is"
            self.left_out.append(entry.fault(f"{told}, so its label is not imported."))
            return
        try:
            label = str(self._classes.find(entry.row))
        except FaultyRowError as error:
            word = str(text_of(entry.row, "label"))
            if not self._adds_classes:
                self.unknown_classes[word] = None
                file = "" if entry.line else f"{path}: "
                self.faults.append(entry.fault(f"{file}{error}"))
                return
            label = classes.free_name(word, self._active)
            self._active.append(label)
            self._classes = Classes(self._active)
            if len(self._active) > len(self._in_use) + _MOST_NEW_CLASSES:
                raise UsageError(
                    f"The file names more than {_MOST_NEW_CLASSES:,} new classes. Is "
                    "its class column the right one? Nothing was imported."
                ) from error
        self._said[item].append((entry, label))

    def accepted(self) -> dict[str, str]:
        """Return the class of each image that gets a label; note what is at odds."""
        accepted: dict[str, str] = {}
        for item, said in self._said.items():
            labels = list(dict.fromkeys(label for _, label in said))
            reason = self._conflict(item, labels[0])
            if len(labels) > 1:
                for entry, label in said:
                    other, different = next(o for o in said if o[1] != label)
                    self.faults.append(
                        entry.fault(
                            f"{quoted(self._items[item].path)} has the class "
                            f"{quoted(label)} here and {quoted(different)} "
                            f"{other.where}; keep one of them."
                        )
                    )
            elif reason:
                self.faults += [entry.fault(reason) for entry, _ in said]
            elif self._is_known(item):
                self.num_same += len(said)
            else:
                self.num_same += len(said) - 1
                accepted[item] = labels[0]
        return accepted

    def new_classes(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return those of some classes that are not in use yet, in their order."""
        return tuple(
            label for label in dict.fromkeys(labels) if label not in self._in_use
        )

    def _is_known(self, item: str) -> bool:
        """Whether an image has a label, of another import than this one."""
        labels = [v for v in self._verdicts[item] if v.kind in LABELS]
        return any(v.uuid != _event_uuid(self._uuid, item) for v in labels)

    def _conflict(self, item: str, label: str) -> str:
        """Say why an image cannot have a class; nothing if it can."""
        path = quoted(self._items[item].path)
        for verdict in self._verdicts[item]:
            who = quoted(verdict.annotator)
            if verdict.kind is Kind.SKIP:
                return f"{path} was skipped by {who}; take the row out."
            if verdict.class_number is None:
                continue
            before = self._names[verdict.class_number]
            if before != label:
                return (
                    f"{path} is labeled {quoted(before)} already, by {who}, and "
                    f"{quoted(label)} here; change that label or take the row out."
                )
        return ""
