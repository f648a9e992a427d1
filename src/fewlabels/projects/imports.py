"""Import existing labels into a project, and undo an import.

Imported labels are label events without a round, whose strategy is ``imported``. They
train, cost no budget and never measure: images of the audit slice and their copies get
none, and images that have one are not drawn into the slice.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewlabels.data.folder import folder_labels, image_names
from fewlabels.data.untrusted import printable
from fewlabels.errors import AnswersError, DataError, Fault, UsageError
from fewlabels.files import digest_of, read_regular
from fewlabels.progress import track
from fewlabels.projects import exchange, labels
from fewlabels.projects.exchange import FaultyRowError, SourceRow, quoted, text_of
from fewlabels.projects.image_index import inside
from fewlabels.projects.labels import annotator_name, part_uuid
from fewlabels.projects.store import Event, Item, Kind, Store, Verdict, new_uuid
from fewlabels.projects.store.records import IMPORTED, LABELS, by_item, measuring_items

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

_MAX_NEW_CLASSES = 1_000
_MAX_ROWS, _MAX_ROWS_PER_IMAGE = 100_000, 4
_MAX_NAME = 200
_KEY = "import"
_CLASS = "class"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import, or of a dry run."""

    uuid: str
    """Names the import, for undoing it."""
    num_new: int
    """Labels that were not there before."""
    num_same: int
    """Rows whose label the project has already, and repeated rows."""
    num_blank: int
    """Rows, or images, without a class."""
    class_counts: Mapping[str, int]
    """New labels of each class."""
    new_classes: tuple[str, ...] = ()
    """Classes that were added."""
    unknown_classes: tuple[str, ...] = ()
    """Classes that the project does not have, and that were not added."""
    left_out: tuple[Fault, ...] = ()
    """Images of the audit slice and their copies; the file is not at fault."""
    faults: tuple[Fault, ...] = ()
    """Rows that cannot be imported, and why: conflicts, unknown files and classes."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of a table that held ``file_name`` and ``label``."""


@dataclass(frozen=True)
class UndoneImport:
    """The result of undoing an import."""

    uuid: str
    """Of the import."""
    num_labels: int
    """Labels that hold no longer; what was changed since the import stays."""
    retired_classes: tuple[str, ...] = ()
    """Classes that it had added and that no label names any more."""


def import_labels(
    project: "Project",
    source: str | PathLike[str],
    *,
    content: bytes | None = None,
    annotator: str | None = None,
    file_column: str | None = None,
    class_column: str | None = None,
    add_classes: bool = False,
    partial: bool = False,
    dry_run: bool = False,
    scan: bool = True,
    uuid: str | None = None,
) -> Imported:
    """Take labels that exist already: all of a file or, if a row is wrong, none.

    Such labels train. They cost no budget, their strategy is ``"imported"``, and
    they never measure: images of the audit slice and their copies are left out.

    Args:
        project: The project.
        source: A table (.csv, .jsonl or .parquet) with a file name and a class in
            each row, an export of Label Studio (.json), or a folder with a folder
            for each class. A folder that is not the project's own is compared by
            the content of its images.
        content: What the file holds, if it is not on this disk; then ``source`` is
            a name that tells the format, and is not opened.
        annotator: In whose name.
        file_column: Column that names the file; None: one with a usual name.
        class_column: Column that names the class; None: one with a usual name.
        add_classes: Add classes that the project does not have; otherwise they are
            faults.
        partial: Take the good rows and list the others.
        dry_run: Return what would be imported, with all faults; write nothing.
        scan: Look through the folder for new images first.
        uuid: Names this call, for sending it again; None: a new one.

    Returns:
        What was imported. The same file again changes nothing. A file with faults,
        unless ``partial`` or ``dry_run``, is a
        :class:`fewlabels.errors.AnswersError` that lists them.
    """
    path = Path(source)
    columns = exchange.Columns({"file_name": file_column, "label": class_column})
    who, own = annotator_name(annotator), uuid or new_uuid()
    if scan:
        project.index()
    items = {item.id: item for item in project.store.items()}
    if content is None and path.is_dir():
        rows = list(_folder_rows(project.images_folder, path, items.values()))
        if not any(isinstance(row, Fault) or row.row["label"] for row in rows):
            raise DataError(
                f"No image in '{path}' is in a subfolder named after its class."
            )
    else:
        most = max(_MAX_ROWS, _MAX_ROWS_PER_IMAGE * len(items))
        rows = list(islice(exchange.load_rows(path, columns, content), most + 1))
        if len(rows) > most:
            rows = [Fault(1, f"the file has more than {most:,} rows; split it.")]
        elif not rows:
            rows = [Fault(1, "there is no row in the file.")]
    faults = [row for row in rows if isinstance(row, Fault)]
    read = [row for row in rows if isinstance(row, SourceRow)]
    matched, num_blank = _match(read, items, faults)
    access = project.store.reading if dry_run else project.store.writing
    with access() as store:
        plan = _Plan(store, items, add_classes=add_classes)
        for entry, item in matched:
            plan.add(entry, item)
        uuid_of = {item: part_uuid(own, item, who) for _, item in matched}
        accepted = plan.resolve(uuid_of)
        faults = sorted([*faults, *plan.faults], key=lambda fault: fault.line)
        if faults and not (partial or dry_run):
            raise AnswersError(path, faults)
        names = dict.fromkeys(accepted.values())
        new_classes = tuple(name for name in names if name not in plan.in_use)
        if accepted and not dry_run:
            for label in new_classes:
                labels.add_class(store, label, part_uuid(own, _CLASS, label))
            number_of = {entry.name: entry.number for entry in store.classes()}
            name = printable(path.name or path.resolve().name)[:_MAX_NAME]
            more: dict[str, Any] = {"payload": {_KEY: own, "file": name}}
            more["strategy"] = IMPORTED
            store.append(
                Event(Kind.LABEL, who, i, number_of[label], uuid=uuid_of[i], **more)
                for i, label in accepted.items()
            )
    return Imported(
        uuid=own,
        num_new=len(accepted),
        num_same=plan.num_same,
        num_blank=num_blank,
        class_counts=dict(Counter(accepted.values())),
        new_classes=new_classes,
        unknown_classes=tuple(plan.unknown_classes),
        left_out=tuple(plan.left_out),
        faults=tuple(faults),
        columns=columns.used,
    )


def undo_import(project: "Project", uuid: str | None = None) -> UndoneImport:
    """Take back all labels of an import that still hold, and classes it added.

    Args:
        project: The project.
        uuid: Of the import; None: the last one that is in force.

    Returns:
        What was undone; labels that somebody changed since stay.
    """
    with project.store.writing() as store:
        if uuid is None:
            # A label that was changed since is of another kind.
            labeled = store.labels()
            held = [v for v in labeled if v.is_imported and v.kind is Kind.LABEL]
            if not held:
                raise UsageError("No imported label is in force to be undone.")
            last = max(held, key=lambda label: label.sequence)
            (stored,) = store.events(uuids=[last.uuid])
            uuid = str(stored.payload[_KEY])
        num_undone = labels.undo_written(store, uuid)
        named = {verdict.class_number for verdict in store.verdicts()}
        retired = []
        for entry in store.classes():
            added = store.event(part_uuid(uuid, _CLASS, entry.name))
            if added and entry.is_active and entry.number not in named:
                retiring, facts = Kind.CLASS_RETIRED, {"name": entry.name}
                labels.write_class(store, retiring, entry.number, facts, None)
                retired.append(entry.name)
    return UndoneImport(uuid, num_undone, tuple(retired))


def _folder_rows(
    images: Path, folder: Path, items: Collection[Item]
) -> Iterator[SourceRow | Fault]:
    """Yield a row for each image of a folder, with the class it lies in.

    Images of a folder that is not the project's own are identified by content.
    """
    inner = inside(folder, images)
    if inner is not None or folder.resolve() == images.resolve():
        prefix = "" if inner is None else f"{inner}/"
        paths = [item.path for item in items if item.path.startswith(prefix)]
        labels = folder_labels([path.removeprefix(prefix) for path in paths])
        for path, label in zip(paths, labels, strict=True):
            yield SourceRow(0, {"file_name": path, "label": label})
        return
    from fewlabels.data.decode import MAX_BYTES

    path_of = {item.digest: item.path for item in reversed([*items])}
    names, _ = image_names(folder)
    with track("Reading images", len(names)) as advance:
        for name, label in zip(names, folder_labels(names), strict=True):
            advance(1)
            place: str | None = name
            try:
                if label is not None:
                    content = read_regular(folder / name, MAX_BYTES)
                    place = path_of.get(digest_of(content))
            except OSError as error:
                yield Fault(0, f"{quoted(name)} cannot be read: {error.strerror}.")
                continue
            if place is not None:
                yield SourceRow(0, {"file_name": place, "label": label})
            else:
                missing = f"no image of this project has the content of {quoted(name)}"
                yield Fault(0, f"{missing}; add the image first.")


def _match(
    rows: Sequence[SourceRow], items: Mapping[str, Item], faults: list[Fault]
) -> tuple[list[tuple[SourceRow, str]], int]:
    """Return rows with the ids of their images, and how many rows have no class."""
    known = {item.path: item.id for item in items.values()}
    images = exchange.ImageFinder(known, None)
    cells = (entry.row.get("file_name") for entry in rows)
    names = ["" if cell is None else str(cell) for cell in cells]
    root = shared_root(names, known)
    if root:
        names = [n and exchange.plain_path(n).removeprefix(root) for n in names]
    matched: list[tuple[SourceRow, str]] = []
    num_blank = 0
    for entry, name in zip(rows, names, strict=True):
        try:
            word = text_of(entry.row, "label")
            if word is None or word.casefold() in exchange.STATUS_WORDS:
                num_blank += 1
                continue
            matched.append((entry, images.find({"file_name": name})))
        except FaultyRowError as error:
            faults.append(entry.fault(error))
    return matched, num_blank


def shared_root(names: Sequence[str], known: Container[str]) -> str:
    """Return the folders that come before the known path in most names.

    Labels made elsewhere name ``/data/pets/cat/1.jpg`` where a project knows
    ``cat/1.jpg``. A root counts if more than half of the names have it and are known
    without it.

    Example:
        >>> shared_root(["pets/1.png", "pets/2.png", "x.png"], {"1.png", "2.png"})
        'pets/'
    """
    roots: Counter[str] = Counter()
    for name in names:
        parts = exchange.plain_path(name).split("/")
        for depth in range(len(parts)):
            if "/".join(parts[depth:]) in known:
                roots["".join(f"{part}/" for part in parts[:depth])] += 1
    root, count = roots.most_common(1)[0] if roots else ("", 0)
    return root if 2 * count > len(names) else ""


class _Plan:
    """Which labels to add, by what a project holds at this moment."""

    def __init__(
        self, store: Store, items: Mapping[str, Item], *, add_classes: bool
    ) -> None:
        self._items, self._adds_classes = items, add_classes
        classes = store.classes()
        self._names = {entry.number: entry.name for entry in classes}
        self.in_use = frozenset(entry.name for entry in classes if entry.is_active)
        self._classes = exchange.ClassFinder(sorted(self.in_use))
        self._verdicts = by_item(store.verdicts())
        self._audit = measuring_items(store.rounds())
        self._audit_groups = {items[i].group for i in self._audit & items.keys()}
        self._rows_of: dict[str, list[tuple[SourceRow, str]]] = defaultdict(list)
        self.unknown_classes: dict[str, None] = {}
        self.faults: list[Fault] = []
        self.left_out: list[Fault] = []
        self.num_same = 0

    def add(self, entry: SourceRow, item: str) -> None:
        """Add a row about an image, unless it measures or its class is not known."""
        path = quoted(self._items[item].path)
        if item in self._audit or self._items[item].group in self._audit_groups:
            role = "measures" if item in self._audit else "is a copy of one that does"
            why = f"{path} {role}, so its label is not imported."
            self.left_out.append(entry.fault(why))
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
            label = labels.free_name(word, self._classes.names)
            self._classes = exchange.ClassFinder([*self._classes.names, label])
            if len(self._classes.names) > len(self.in_use) + _MAX_NEW_CLASSES:
                raise UsageError(
                    f"Over {_MAX_NEW_CLASSES:,} classes are new; check the column."
                ) from error
        self._rows_of[item].append((entry, label))

    def resolve(self, uuid_of: Mapping[str, str]) -> dict[str, str]:
        """Return the class of each image that gets a label; conflicts are faults.

        A label that this import gave when it was sent before counts once more.
        """
        accepted: dict[str, str] = {}
        for item, rows in self._rows_of.items():
            path, label = quoted(self._items[item].path), rows[0][1]
            held = self._verdicts[item]
            conflict = next(filter(None, (self._conflict(v, label) for v in held)), "")
            if any(other != label for _, other in rows):
                for entry, own in rows:
                    other, different = next(row for row in rows if row[1] != own)
                    why = f"{path} has the class {quoted(own)} here and"
                    why += f" {quoted(different)} {other.where}; keep one of them."
                    self.faults.append(entry.fault(why))
            elif conflict:
                self.faults += [entry.fault(f"{path} {conflict}") for entry, _ in rows]
            else:
                given = (verdict.uuid for verdict in held if verdict.kind in LABELS)
                is_known = any(uuid != uuid_of[item] for uuid in given)
                self.num_same += len(rows) - (not is_known)
                if not is_known:
                    accepted[item] = label
        return accepted

    def _conflict(self, verdict: Verdict, label: str) -> str:
        """Return why an image with a verdict cannot have a class; empty if it can."""
        who = quoted(verdict.annotator)
        if verdict.kind is Kind.SKIP:
            return f"was skipped by {who}; take the row out."
        before = self._names.get(verdict.class_number or 0, "")
        if verdict.class_number is None or before == label:
            return ""
        return f"is labeled {quoted(before)} already, by {who}, not {quoted(label)}."
