"""All images of a project in a table that filters read: columns, updated by event.

The table is made once and then follows the labels that the page counts anyway (see
:class:`fewlabels.projects.snapshot.Tally`), so that a filter takes milliseconds
whatever the number of images. Predictions come from the process that guesses.

Shapes: N images, K answers in force about an image, at most.
"""

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.projects.labels import annotator_name
from fewlabels.projects.snapshot import Tally
from fewlabels.projects.store import (
    Kind,
    Store,
    StoredEvent,
    StoredRound,
    consensus,
    records,
)
from fewlabels.projects.store.records import LABELS, Verdict
from fewlabels.web.background import Background
from fewlabels.web.messages import AnswerChange, Facts, Filter, ItemWish
from fewlabels.web.pictures import ordered_digest
from fewlabels.web.session import Session

STATUSES = ("none", "labeled", "undecided", "skipped", "unsure")
SOURCES = ("asked", "confirmed", "corrected", "imported")
MOST_EVENTS = 200
"""Events in the history of an image that are shown."""

_NOWHERE = -1
_NOBODY = -2
_ANSWER = np.dtype([("person", "i4"), ("source", "i1"), ("time", "f8")], align=True)
_NO_ANSWER = np.array((_NOWHERE, _NOWHERE, 0), _ANSWER)

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(eq=False, kw_only=True)
class ImageTable:
    """Columns over all images that are there, by path; not safe for several threads."""

    overlap: int
    version: int = 0
    """Grows with every change."""
    ids: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """Paths of the files in lower case."""
    rows: dict[str, int] = field(default_factory=dict)
    classes: tuple[records.LabelClass, ...] = ()
    people: dict[str, int] = field(default_factory=dict)
    predictions: Facts = field(default_factory=dict)
    """As of :func:`fewlabels.web.guesses.guess`."""
    by: str | None = None
    """Name of the model that predicts."""
    places: NDArray[np.float32] | None = None
    """Places on the map from 0 to 1, shape (2, N); None: they are not known."""

    def __post_init__(self) -> None:
        """Begin without images."""
        self._sequence, self._num_rounds, self._checksum = 0, 0, ""
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
        self.answers = np.full((1, size), _NO_ANSWER)
        """Answers in force, shape (K, N)."""

    # ------------------------------------------------------------------------ updating

    def update(self, tally: Tally, store: Store) -> None:
        """Take over what a tally has read since the last time."""
        is_new = tally.items_checksum != self._checksum
        rounds = tally.rounds[0 if is_new else self._num_rounds :]
        if not (is_new or rounds or tally.sequence != self._sequence):
            return
        changed: Iterable[str] = tally.verdicts
        if is_new:
            items = store.paths()
            self.ids = [name for name, _ in items]
            self.paths = [path.casefold() for _, path in items]
            self.rows = {item: row for row, item in enumerate(self.ids)}
            self._resize()
        else:
            _, changed = store.changes(after=self._sequence)
        self.version += 1
        self._sequence, self._checksum = tally.sequence, tally.items_checksum
        self._num_rounds, self.classes = len(tally.rounds), tally.classes
        for item in self.rows.keys() & changed:
            self._place(self.rows[item], tally.verdicts.get(item, []))
        for asked in rounds:
            self._mark(asked)
        if is_new:
            self.predict(self.predictions)

    def _mark(self, asked: StoredRound) -> None:
        """Note which images of a round measure, and which look just like them."""
        roles = [(self.rows.get(e.item, _NOWHERE), e.role) for e in asked.items]
        measuring = [row for row, role in roles if role == "audit" and row >= 0]
        if any(role == "audit" for _, role in roles):
            self.hides[[row for row, _ in roles if row >= 0]] = True
            self.measures[measuring] = True

    def _place(self, row: int, verdicts: Sequence[Verdict]) -> None:
        """Write the answers about an image into its row."""
        for _ in range(len(self.answers), len(verdicts)):
            empty = np.full((1, len(self.ids)), _NO_ANSWER)
            self.answers = np.vstack([self.answers, empty])
        self.answers[:, row] = _NO_ANSWER
        for place, verdict in enumerate(verdicts):
            who = self.people.setdefault(verdict.annotator, len(self.people))
            source = SOURCES.index(source_of(verdict))
            time = verdict.server_time.timestamp()
            self.answers[place, row] = (who, source, time)
        self.label[row], self.status[row] = self._joint(verdicts)

    def _joint(self, verdicts: Sequence[Verdict]) -> tuple[int, int]:
        """Return the class that answers agree on, and the number of their status."""
        labels = [verdict for verdict in verdicts if verdict.kind in LABELS]
        if len(labels) == self.overlap == 1 and labels[0].class_number is not None:
            return labels[0].class_number, 1  # as the consensus would be, but faster
        if labels:
            (agreed,) = consensus(labels, self.overlap)
            number = agreed.class_number
            return (_NOWHERE, 2) if number is None else (number, 1)
        kinds = {verdict.kind for verdict in verdicts}
        return _NOWHERE, 3 if Kind.SKIP in kinds else 4 if kinds else 0

    def predict(self, predictions: Facts) -> None:
        """Take over predictions, unless they are for other images."""
        self.predictions = predictions
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

    def select(
        self, wish: Filter, who: str, items: Collection[str] | None = None
    ) -> Rows:
        """Return the rows that meet all conditions, in the order that is wanted.

        Args:
            wish: The conditions.
            who: Who looks at them.
            items: Only these; None: all.
        """
        has_answered, shows = self._seen_by(who)
        kept = np.ones(len(self.ids), np.bool_)
        if items is not None:
            kept[:] = False
            kept[[self.rows[item] for item in items if item in self.rows]] = True
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
            kept &= shows & (self.label >= 0) & (is_same == (wish.agreement == "same"))
        kept &= self._answered(wish)
        if wish.source == "measuring":
            kept &= self.measures & has_answered
        if wish.text:
            text = wish.text.casefold()
            others = [
                r for r in np.flatnonzero(kept).tolist() if text not in self.paths[r]
            ]
            kept[others] = False
        if wish.region:
            kept &= self.inside(wish.region)
        rows = np.flatnonzero(kept)
        if wish.order == "newest":
            newest = self.answers["time"][:, rows].max(axis=0)
            return rows[np.argsort(-newest, kind="stable")]
        if wish.order == "doubt":
            doubt = np.where(shows[rows], self.sure[rows], 2)
            return rows[np.argsort(doubt, kind="stable")]
        return rows

    def _seen_by(self, who: str) -> tuple[Mask, Mask]:
        """Return what a person has answered about, and whose prediction may be seen."""
        is_own = self.answers["person"] == self.people.get(who, _NOBODY)
        has_answered = is_own.any(axis=0)
        return has_answered, (self.predicted >= 0) & (~self.hides | has_answered)

    def _answered(self, wish: Filter) -> Mask:
        """Return which images have an answer of a source, a person and a time."""
        person, source, time = (self.answers[n] for n in ("person", "source", "time"))
        meets = np.ones(self.answers.shape, np.bool_)
        if wish.source not in {None, "measuring"}:
            meets &= source == SOURCES.index(str(wish.source))
        if wish.person is not None:
            meets &= person == self.people.get(wish.person, _NOBODY)
        if wish.since is not None:
            meets &= (time >= wish.since) & (person >= 0)
        if wish.until is not None:
            meets &= (time < wish.until) & (person >= 0)
        return np.asarray(meets.any(axis=0))

    def inside(self, region: Sequence[float]) -> Mask:
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

    def points(self, rows: Rows, who: str) -> Facts:
        """Return what the map shows of some images, as numbers of 16 bits."""
        assert self.places is not None
        _, shows = self._seen_by(who)
        x, y = np.rint(self.places * 65_535)
        columns = {
            "x": x,
            "y": y,
            "label": self.label,
            "predicted": np.where(shows, self.predicted, _NOWHERE),
            "sure": np.where(shows, np.rint(self.sure * 65_534), _NOWHERE),
        }
        return {
            name: b64encode(column[rows].astype(np.int64).astype("<u2")).decode()
            for name, column in columns.items()
        }

    def _number(self, name: str) -> int:
        number_of = {entry.name: entry.number for entry in self.classes}
        if name not in number_of:
            raise UnknownNameError("class", name, number_of)
        return number_of[name]

    def entries(self, rows: Iterable[int], who: str) -> list[Facts]:
        """Return what tiles show of images to a person."""
        has_answered, shows = self._seen_by(who)
        names = [entry.name for entry in self.classes]
        return [
            {
                "item": self.ids[row],
                "label": names[self.label[row]] if self.label[row] >= 0 else None,
                "answer": STATUSES[self.status[row]],
                "predicted": names[self.predicted[row]] if shows[row] else None,
                "sure": round(float(self.sure[row]), 3) if shows[row] else None,
                "measures": bool(has_answered[row] and self.measures[row]),
            }
            for row in rows
        ]

    def matches(self, items: Iterable[str], name: str) -> list[str]:
        """Return those of some images that are predicted to be of a class."""
        number, known = self._number(name), self.rows.keys() & items
        return [item for item in known if self.predicted[self.rows[item]] == number]


def source_of(answer: StoredEvent) -> str:
    """Return where an answer comes from."""
    return "asked" if answer.is_asked else str(answer.strategy)


class Browse:
    """The images of a project, filtered, changed, and their history."""

    def __init__(self, session: Session, background: Background) -> None:
        self._session, self._background = session, background
        self._lock = Lock()
        self._table: ImageTable | None = None
        self._latest: tuple[Any, Rows] | None = None

    def page(self, wish: Filter) -> Facts:
        """Return a page of the images that meet a filter, and how many do."""
        if wish.region:
            self._lay_out()
        who = annotator_name(wish.annotator)
        with self._lock:
            table, rows = self._select(wish, who)
            part = rows[wish.offset : wish.offset + wish.count]
            entries = table.entries(part.tolist(), who)
            facts = {"total": len(rows), "num_images": len(table.ids), "by": table.by}
            people = sorted(table.people)
        return {**facts, "people": people, "tiles": self._session.tiles(entries)}

    def inside(self, region: Sequence[float]) -> list[str]:
        """Return the images in a part of the map."""
        self._lay_out()
        with self._lock:
            table = self._updated()
            return [table.ids[row] for row in np.flatnonzero(table.inside(region))]

    def predictions(self, items: Collection[str]) -> dict[str, Facts]:
        """Return entries of images whose prediction anybody may see, by item."""
        with self._lock:
            table = self._updated()
            rows = [table.rows[item] for item in items if item in table.rows]
            entries = table.entries(rows, "")
        return {entry["item"]: entry for entry in entries if entry["predicted"]}

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

    def change(self, given: AnswerChange) -> Facts:
        """Change the answers about some images, or undo that."""
        session, project = self._session, self._session.project
        items = session.images.items(given.items)
        who: Facts = {"annotator": given.annotator, "uuid": given.uuid}
        if given.undoes is not None:
            done: Facts = {"items": project.restore(items, given.undoes, **who)}
        elif given.verb == "undo":
            if given.target is None:
                raise UsageError("An undo needs the answer that it takes back.")
            undone = project.undo(target=given.target, **who)
            done = {"items": [str(undone.item)]}
        elif given.verb in {"unlabel", "skip"}:
            done = asdict(project.revise(items, skip=given.verb == "skip", **who))
        elif given.name is None:
            raise UsageError("A label needs the name of a class.")
        else:
            who["unanswered"] = given.verb in {"confirm", "correct"}
            predicted = items if given.verb == "confirm" else []
            if given.verb == "label":
                with self._lock:
                    predicted = self._updated().matches(items, given.name)
            done = asdict(project.revise(items, given.name, predicted=predicted, **who))
        return {**done, "items": [session.images.name_of(i) for i in done["items"]]}

    def history(self, wish: ItemWish) -> Facts:
        """Return who said what about an image, and when; the newest first."""
        session, who = self._session, annotator_name(wish.annotator)
        item = session.images.item(wish.item)
        with self._lock:
            table = self._updated()
            if item is None or item not in table.rows:
                raise UsageError("There is no such image in this project any more.")
            (entry,) = table.entries([table.rows[item]], who)
            names: dict[int | None, str] = {e.number: e.name for e in table.classes}
        events = list(session.project.store.events(item=item))
        has_answered = any(stored.annotator == who for stored in events)
        if entry["answer"] == "undecided" and not has_answered:
            events = []  # the answers of others would sway one that is still wanted
        tiles = session.tiles([entry])
        return {
            "tile": tiles[0] if tiles else None,
            "events": _event_facts(events, names)[:MOST_EVENTS],
        }

    # ------------------------------------------------------------------------- inside

    def _updated(self) -> ImageTable:
        """Return the table as of now."""
        project, predictions = self._session.project, self._background.predictions
        if self._table is None:
            self._table = ImageTable(overlap=project.settings.overlap)
        with self._session.counted() as tally:
            self._table.update(tally, project.store)
        if self._table.predictions is not predictions:
            self._table.predict(predictions)
        return self._table

    def _select(self, wish: Filter, who: str) -> tuple[ImageTable, Rows]:
        """Return the rows of a filter, which the pages of it share."""
        table = self._updated()
        conditions = wish.model_dump(exclude={"tab", "annotator", "offset", "count"})
        key = (table.version, who, conditions)
        if self._latest is None or self._latest[0] != key:
            images = self._session.images
            items = None if wish.items is None else images.items(wish.items)
            self._latest = key, table.select(wish, who, items)
        return table, self._latest[1]


def _event_facts(
    events: Sequence[StoredEvent], names: Mapping[int | None, str]
) -> list[Facts]:
    """Return events as the page shows them; undos switch what they lead to."""
    root_of: dict[str, str] = {}
    is_undone: dict[str, bool] = defaultdict(bool)
    for stored in events:
        if stored.target is not None:
            target = stored.target
            root = root_of[stored.uuid] = root_of.get(target, target)
            is_undone[root] = not is_undone[root]
    return [
        {
            "uuid": stored.uuid,
            "person": stored.annotator,
            "kind": stored.kind.value,
            "label": names.get(stored.class_number),
            "source": source_of(stored),
            "time": stored.server_time.timestamp(),
            "is_undone": is_undone[stored.uuid],
        }
        for stored in reversed(events)
    ]
