"""All images of a project in a table that filters read: columns, updated by event.

The table is read once, and then only what was written since (as by
:class:`fewlabels.projects.snapshot.Tally`), so that a filter takes milliseconds
whatever the number of images. Predictions come from the process that guesses.

Shapes: N images, K answers in force about an image, at most.
"""

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from threading import Lock, Thread
from time import monotonic
from typing import Any

import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray

from fewlabels.errors import FewlabelsError, UnknownNameError, UsageError
from fewlabels.projects.labels import annotator_name
from fewlabels.projects.store import (
    Kind,
    Store,
    StoredEvent,
    StoredRound,
    consensus,
    records,
)
from fewlabels.projects.store.records import LABELS, Annotation
from fewlabels.web.background import Background
from fewlabels.web.messages import (
    Change,
    Facts,
    Filter,
    ItemWish,
    Listing,
)
from fewlabels.web.pictures import ordered_digest
from fewlabels.web.session import Session

STATUSES = ("none", "labeled", "undecided", "skipped", "unsure")
SOURCES = ("asked", "confirmed", "corrected", "imported")
MOST_EVENTS = 200
"""Events in the history of an image that are shown."""

_MOST_KEPT = 8  # results of filters
_PAUSE = 2.0  # seconds between two readings of all predictions
_NOWHERE = -1

Mask = NDArray[np.bool_]


@dataclass(eq=False, kw_only=True)
class ImageTable:
    """Columns over all images that are there, by path; not safe for several threads."""

    overlap: int
    name_of: Callable[[str], str]
    """Gives the name of an item on the page."""
    version: int = 0
    """Grows with every change."""
    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Names on the page."""
    paths: list[str] = field(default_factory=list)
    """Paths of the files in lower case."""
    rows: dict[str, int] = field(default_factory=dict)
    classes: tuple[records.LabelClass, ...] = ()
    people: dict[str, int] = field(default_factory=dict)
    by: str | None = None
    """Name of the model that predicts."""
    places: NDArray[np.float32] | None = None
    """Places on the map from 0 to 1, shape (2, N); None: they are not known."""

    def __post_init__(self) -> None:
        """Begin without images."""
        self._sequence, self.checksum = 0, ""
        self._rounds: list[StoredRound] = []
        self._verdicts: dict[str, list[Annotation]] = {}
        self._predictions: Facts = {}
        self._resize()

    def _resize(self) -> None:
        """Make empty columns."""
        size, self.places = len(self.ids), None
        self.label = np.full(size, _NOWHERE, np.int32)
        self.status = np.zeros(size, np.int8)
        self.measures = np.zeros(size, np.bool_)
        self.hides = np.zeros(size, np.bool_)
        """Whether a prediction would reveal which images measure, or sway answers."""
        self.predicted = np.full(size, _NOWHERE, np.int32)
        self.sure = np.zeros(size, np.float32)
        self.person = np.full((1, size), _NOWHERE, np.int32)
        self.source = np.full((1, size), _NOWHERE, np.int8)
        self.time = np.zeros((1, size), np.float64)

    # ------------------------------------------------------------------------ updating

    def update(self, store: Store) -> None:
        """Read what was written since the last time."""
        with store.reading() as moment:
            checksum = moment.items_checksum
            sequence, changed = moment.changes(after=self._sequence)
            rounds = moment.rounds(after=len(self._rounds) - 1)
            is_new = checksum != self.checksum
            if not (changed or rounds or is_new or sequence != self._sequence):
                return
            self.version += 1
            self.classes = moment.classes()
            now = moment.changed_verdicts(changed)
            for item in changed:
                self._verdicts.pop(item, None)
            self._verdicts |= now
            if is_new:
                items = moment.paths()
                self.ids = [name for name, _ in items]
                self.paths = [path.casefold() for _, path in items]
                self.names = [self.name_of(item) for item in self.ids]
                self.rows = {item: row for row, item in enumerate(self.ids)}
                self._resize()
        self._sequence, self.checksum = sequence, checksum
        self._rounds += rounds
        self._place(self._verdicts if is_new else changed)
        for asked in self._rounds if is_new else rounds:
            self._mark(asked)
        if is_new:
            self.predict(self._predictions)

    def _mark(self, asked: StoredRound) -> None:
        """Note which images of a round measure, and which look just like them."""
        roles = [(self.rows.get(e.item, _NOWHERE), e.role) for e in asked.items]
        measuring = [row for row, role in roles if role == "audit" and row >= 0]
        if any(role == "audit" for _, role in roles):
            self.hides[[row for row, _ in roles if row >= 0]] = True
            self.measures[measuring] = True

    def _place(self, items: Iterable[str]) -> None:
        """Write the answers about some images into their rows."""
        for item in items:
            row = self.rows.get(item, _NOWHERE)
            if row < 0:
                continue
            verdicts = self._verdicts.get(item, [])
            while len(self.person) < len(verdicts):
                self.person = np.pad(
                    self.person, ((0, 1), (0, 0)), constant_values=_NOWHERE
                )
                self.source = np.pad(
                    self.source, ((0, 1), (0, 0)), constant_values=_NOWHERE
                )
                self.time = np.pad(self.time, ((0, 1), (0, 0)))
            self.person[:, row] = self.source[:, row] = _NOWHERE
            self.time[:, row] = 0
            for place, verdict in enumerate(verdicts):
                who = self.people.setdefault(verdict.annotator, len(self.people))
                self.person[place, row] = who
                self.source[place, row] = SOURCES.index(source_of(verdict))
                self.time[place, row] = verdict.server_time.timestamp()
            self.label[row], self.status[row] = self._joint(verdicts)

    def _joint(self, verdicts: Sequence[Annotation]) -> tuple[int, int]:
        """Return the class that answers agree on, and the number of their status."""
        labels = [verdict for verdict in verdicts if verdict.kind in LABELS]
        if labels:
            (agreed,) = consensus(labels, self.overlap)
            number = agreed.class_number
            return (_NOWHERE, 2) if number is None else (number, 1)
        kinds = {verdict.kind for verdict in verdicts}
        return _NOWHERE, 3 if Kind.SKIP in kinds else 4 if kinds else 0

    def predict(self, predictions: Facts) -> None:
        """Take over predictions, unless they are for other images."""
        self._predictions = predictions
        is_known = predictions.get("items") == ordered_digest(self.ids)
        self.by = predictions["by"] if is_known else None
        self.predicted[:] = _NOWHERE
        self.sure[:] = 0
        if is_known:
            numbers = np.frombuffer(b64decode(predictions["classes"]), "<u2")
            shares = np.frombuffer(b64decode(predictions["sure"]), "<u2")
            self.predicted[:], self.sure[:] = numbers, shares / np.float32(65_535)
        self.version += 1

    def lay_out(self, layout: Facts) -> None:
        """Take over places on the map, unless they are for other images."""
        if layout["items"] == ordered_digest(self.ids):
            numbers = [np.frombuffer(b64decode(layout[name]), "<u2") for name in "xy"]
            self.places = np.stack(numbers).astype(np.float32) / np.float32(65_535)
            self.version += 1

    # ----------------------------------------------------------------------- filtering

    def select(self, wish: Filter, who: str) -> NDArray[np.int64]:
        """Return the rows that meet all conditions, in the order that is wanted."""
        person = self.people.get(who, -2)
        has_answered = (self.person == person).any(axis=0)
        shows = (self.predicted >= 0) & (~self.hides | has_answered)
        kept = np.ones(len(self.ids), np.bool_)
        if wish.label is not None:
            kept &= self.label == self._number(wish.label)
        if wish.answer is not None:
            kept &= self.status == STATUSES.index(wish.answer)
        if wish.predicted is not None:
            kept &= shows & (self.predicted == self._number(wish.predicted))
        if wish.sure_from > 0 or wish.sure_to < 1:
            kept &= shows & (self.sure >= wish.sure_from) & (self.sure <= wish.sure_to)
        if wish.agreement is not None:
            is_same = self.label == self.predicted
            is_same = is_same if wish.agreement == "same" else ~is_same
            kept &= shows & (self.label >= 0) & is_same
        kept &= self._answered(wish)
        if wish.source == "measuring":
            kept &= self.measures & has_answered
        if wish.text:
            text, places = wish.text.casefold(), np.flatnonzero(kept)
            kept[[row for row in places.tolist() if text not in self.paths[row]]] = (
                False
            )
        if wish.region:
            kept &= self._inside(wish.region)
        rows = np.flatnonzero(kept)
        if wish.order == "newest":
            return rows[np.argsort(-self.time[:, rows].max(axis=0), kind="stable")]
        if wish.order == "doubt":
            doubt = np.where(shows[rows], self.sure[rows], 2)
            return rows[np.argsort(doubt, kind="stable")]
        return rows

    def _answered(self, wish: Filter) -> Mask:
        """Return which images have an answer of a source, a person and a time."""
        meets = np.ones(self.person.shape, np.bool_)
        source = None if wish.source == "measuring" else wish.source
        if source is not None:
            meets &= self.source == SOURCES.index(source)
        if wish.person is not None:
            meets &= self.person == self.people.get(wish.person, -2)
        if wish.since is not None:
            meets &= (self.time >= wish.since) & (self.person >= 0)
        if wish.until is not None:
            meets &= (self.time < wish.until) & (self.person >= 0)
        return np.asarray(meets.any(axis=0))

    def _inside(self, region: Sequence[float]) -> Mask:
        """Return which images lie in a part of the map, by the even-odd rule."""
        if self.places is None or len(region) < 6 or len(region) % 2:
            raise UsageError("A part of the map needs a map, and three corners.")
        x, y = self.places
        corners = np.asarray(region, np.float32).reshape(-1, 2)
        is_inside = np.zeros(len(self.ids), np.bool_)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, 1, 0), strict=True):
            if y0 != y1:
                crosses = (y0 > y) != (y1 > y)
                is_inside ^= crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
        return is_inside

    def points(self, rows: NDArray[np.int64], who: str) -> Facts:
        """Return what the map shows of some images, as numbers of 16 bits."""
        assert self.places is not None
        has_answered = (self.person == self.people.get(who, -2)).any(axis=0)
        shows = (self.predicted >= 0) & (~self.hides | has_answered)
        predicted = np.where(shows, self.predicted, _NOWHERE)
        sure = np.where(shows, np.rint(self.sure * 65_534), _NOWHERE)
        x, y = np.rint(self.places * 65_535)
        columns = {"x": x, "y": y, "label": self.label, "predicted": predicted}
        return {
            name: b64encode(column[rows].astype(np.int64).astype("<u2")).decode()
            for name, column in (columns | {"sure": sure}).items()
        }

    def _number(self, name: str) -> int:
        number_of = {entry.name: entry.number for entry in self.classes}
        if name not in number_of:
            raise UnknownNameError("class", name, number_of)
        return number_of[name]

    def entry(self, row: int, who: str) -> Facts:
        """Return what a tile shows of an image to a person."""
        has_answered = bool((self.person[:, row] == self.people.get(who, -2)).any())
        shows = self.predicted[row] >= 0 and (has_answered or not self.hides[row])
        label = int(self.label[row])
        return {
            "item": self.ids[row],
            "label": self.classes[label].name if label >= 0 else None,
            "answer": STATUSES[self.status[row]],
            "predicted": self.classes[self.predicted[row]].name if shows else None,
            "sure": round(float(self.sure[row]), 3) if shows else None,
            "measures": has_answered and bool(self.measures[row]),
        }

    def matches(self, items: Iterable[str], name: str) -> list[str]:
        """Return those of some images that are predicted to be of a class."""
        number_of = {entry.name: entry.number for entry in self.classes}
        number = number_of.get(name)
        rows = {item: self.rows[item] for item in items if item in self.rows}
        return [item for item, row in rows.items() if self.predicted[row] == number]


def source_of(verdict: Annotation | Any) -> str:
    """Return where an answer comes from."""
    is_unasked = verdict.round is None and verdict.strategy in records.UNASKED
    return str(verdict.strategy) if is_unasked else "asked"


class Browse:
    """The images of a project, filtered, changed, and their history."""

    def __init__(self, session: Session, background: Background) -> None:
        self._session, self._background = session, background
        self._lock = Lock()
        self._table: ImageTable | None = None
        self._results: dict[tuple[Any, ...], NDArray[np.int64]] = {}
        self._is_reading, self._read_at = False, -_PAUSE
        self._seen: Any = None

    def page(self, wish: Filter) -> Facts:
        """Return a page of the images that meet a filter, and how many do."""
        if wish.region:
            self._lay_out()
        who = annotator_name(wish.annotator)
        with self._lock:
            table, rows = self._select(wish, who)
            part = rows[wish.offset : wish.offset + wish.count].tolist()
            entries = [table.entry(row, who) for row in part]
            facts: Facts = {
                "total": len(rows),
                "num_images": len(table.ids),
                "by": table.by,
            }
            facts |= {"people": sorted(table.people), "is_pending": self._is_reading}
        return {**facts, "tiles": self._session.tiles(entries)}

    def map(self, wish: Filter) -> Facts:
        """Return where the images that meet a filter lie on the map."""
        who, reason = annotator_name(wish.annotator), self._lay_out()
        if reason:
            return {"reason": reason}
        with self._lock:
            table, rows = self._select(wish, who)
            if table.places is None:  # images have come meanwhile
                return {"reason": "The images are still being looked at."}
            names = [entry.name for entry in table.classes]
            facts: Facts = {"total": len(rows), "classes": names, "reason": None}
            return facts | table.points(rows, who)

    def _lay_out(self) -> str | None:
        """Have places on the map, or return why there are none."""
        with self._lock:
            table = self._updated()
            if table.places is not None:
                return None
        layout: Facts = self._background.ask("layout")
        if "reason" not in layout:
            with self._lock:
                table.lay_out(layout)
        return layout.get("reason")

    def names(self, wish: Listing) -> Facts:
        """Return the names of images that meet a filter, and how many do."""
        if wish.region:
            self._lay_out()
        with self._lock:
            table, rows = self._select(wish, annotator_name(wish.annotator))
            part = rows[wish.offset : wish.offset + wish.count].tolist()
            return {"total": len(rows), "items": [table.names[row] for row in part]}

    def change(self, given: Change) -> Facts:
        """Change the answers about some images, or undo that."""
        session = self._session
        known = [session.images.item(name) for name in given.items]
        items = [item for item in known if item is not None]
        who: Facts = {"annotator": given.annotator, "uuid": given.uuid}
        if given.undoes is not None:
            done: Facts = {"items": session.project.restore(items, given.undoes, **who)}
        elif given.verb == "undo":
            if given.target is None:
                raise UsageError("An undo needs the answer that it takes back.")
            undone = session.project.undo(target=given.target, **who)
            done = {"items": [str(undone.event.item)]}
        elif given.verb == "label" and given.name is None:
            raise UsageError("A label needs the name of a class.")
        else:
            name = given.name if given.verb == "label" else None
            with self._lock:
                table = self._updated()
                predicted = [] if name is None else table.matches(items, name)
            revised = session.project.revise(
                items, name, skip=given.verb == "skip", predicted=predicted, **who
            )
            done = asdict(revised)
        session.on_change()
        return {**done, "items": [session.images.name_of(i) for i in done["items"]]}

    def history(self, wish: ItemWish) -> Facts:
        """Return who said what about an image, and when; the newest first."""
        session, who = self._session, annotator_name(wish.annotator)
        item = session.images.item(wish.item)
        if item is None:
            raise UsageError("There is no such image in this project any more.")
        with self._lock:
            table = self._updated()
            row = table.rows.get(item)
            entry = {} if row is None else table.entry(row, who)
            names = {known.number: known.name for known in table.classes}
        events = list(session.project.store.events(item=item))
        has_answered = any(stored.event.annotator == who for stored in events)
        if entry.get("answer") == "undecided" and not has_answered:
            events = []  # the answers of others would sway one that is still wanted
        tiles = session.tiles([{**entry, "item": item}])
        return {
            "tile": tiles[0] if tiles else None,
            "events": _event_facts(events, names)[:MOST_EVENTS],
        }

    # ------------------------------------------------------------------------- inside

    def _updated(self) -> ImageTable:
        """Return the table as of now."""
        project = self._session.project
        if self._table is None:
            name_of = self._session.images.name_of
            self._table = ImageTable(overlap=project.settings.overlap, name_of=name_of)
        self._table.update(project.store)
        self._refresh()
        return self._table

    def _select(self, wish: Filter, who: str) -> tuple[ImageTable, NDArray[np.int64]]:
        """Return the rows of a filter, which several pages share."""
        table = self._updated()
        conditions = wish.model_dump(exclude={"tab", "annotator", "offset", "count"})
        key = (table.version, who, str(conditions))
        if key not in self._results:
            while len(self._results) >= _MOST_KEPT:
                del self._results[next(iter(self._results))]
            self._results[key] = table.select(wish, who)
        return table, self._results[key]

    def _refresh(self) -> None:
        """Read predictions behind the page, if there are new ones."""
        job = self._background.status()["guesses"]
        latest = (job.get("result"), self._table and self._table.checksum)
        is_due = job["status"] == "done" and latest != self._seen
        is_due &= monotonic() - self._read_at > _PAUSE
        if is_due and not self._is_reading and self._background.is_ready:
            self._is_reading = True
            Thread(target=self._read, args=(latest,), daemon=True).start()

    def _read(self, latest: Any) -> None:
        """Read predictions."""
        found: Facts = {}
        with suppress(FewlabelsError):
            found = self._background.ask("predictions")
        with self._lock:
            self._is_reading, self._read_at = False, monotonic()
            if self._table is not None and found:
                self._seen = latest
                self._table.predict(found)


def _event_facts(
    events: Sequence[StoredEvent], names: Mapping[int, str]
) -> list[Facts]:
    """Return events as the page shows them; undos switch what they lead to."""
    root_of: dict[str, str] = {}
    is_undone: dict[str, bool] = defaultdict(bool)
    for stored in events:
        if stored.event.target is not None:
            target = stored.event.target
            root = root_of[stored.event.uuid] = root_of.get(target, target)
            is_undone[root] = not is_undone[root]
    return [
        {
            "uuid": stored.event.uuid,
            "person": stored.event.annotator,
            "kind": stored.event.kind.value,
            "label": names.get(_or_none(stored.event.class_number)),
            "source": source_of(stored.event),
            "time": stored.server_time.timestamp(),
            "is_undone": is_undone[stored.event.uuid],
        }
        for stored in reversed(events)
    ]


def _or_none(number: int | None) -> int:
    return _NOWHERE if number is None else number


def add_browse(app: FastAPI, session: Session, background: Background) -> None:
    """Add the addresses of the view that shows all images."""
    browse = app.state.browse = Browse(session, background)
    app.post("/api/browse")(browse.page)
    app.post("/api/browse/names")(browse.names)
    app.post("/api/map")(browse.map)
    app.post("/api/change")(browse.change)
    app.post("/api/history")(browse.history)
