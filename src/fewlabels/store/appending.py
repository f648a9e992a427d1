"""Adding events: all of a call or none of it, each UUID once.

An undo names the event that it cancels. What it leads to in the end is its *root*: an
undo of an undo of a label has the label. Each undo in the store switches its root off
or on, because only two kinds are accepted: one that names the root while it holds, and
one that names the last switch. A verdict therefore holds exactly while an even number
of undos lead to it, and that is how the view counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, select, update

from fewlabels.errors import ReplayError, StoreError
from fewlabels.store import checksums
from fewlabels.store.chunks import chunked, unknown_of
from fewlabels.store.database import count_anew
from fewlabels.store.records import (
    CLASS_EVENTS,
    IMPORTED,
    LABELS,
    VERDICTS,
    Event,
    Kind,
    canonical,
)
from fewlabels.store.schema import CLASSES, EVENTS, ITEMS, LEASES, ROUNDS

_MANY = 500
_NOTHING = "Nothing of this call was written."


def append(
    connection: Connection, events: Sequence[Event], now: datetime
) -> tuple[int, ...]:
    """Return a sequence number per event, added in a writing transaction or before."""
    stored = _stored(connection, [event.uuid for event in events])
    fresh = [event for event in events if event.uuid not in stored]
    _check_names(connection, fresh)
    last = connection.execute(select(func.max(EVENTS.c.sequence))).scalar() or 0
    writer = _Writer(connection, now, last)
    for event in events:
        _check_replay(event, stored.get(event.uuid))
        if event.uuid not in stored:
            stored[event.uuid] = (writer.write(event), event)
    writer.flush()
    if writer.last > last:
        checksums.extend(connection, last)
    if any(event.kind in CLASS_EVENTS for event in fresh):
        checksums.renew(connection, CLASSES)
    _release(connection, fresh)
    if writer.last // _MANY > last // _MANY:
        count_anew(connection, EVENTS)
    return tuple(stored[event.uuid][0] for event in events)


def add_classes(
    connection: Connection, wanted: Sequence[str], annotator: str, now: datetime
) -> dict[str, int]:
    """Add classes inside a writing transaction and return the numbers of all."""
    known = connection.execute(select(CLASSES.c.name, CLASSES.c.number))
    numbers = {row.name: row.number for row in known}
    fresh = [name for name in dict.fromkeys(wanted) if name not in numbers]
    numbers |= {name: number for number, name in enumerate(fresh, len(numbers))}
    added = [
        Event(
            kind=Kind.CLASS_ADDED,
            annotator=annotator,
            class_number=numbers[name],
            payload={"name": name},
        )
        for name in fresh
    ]
    append(connection, added, now)
    return numbers


@cache
def events_with_targets() -> Select[Any]:
    """Select events; an undo comes with the UUID of the event that it cancels."""
    canceled = EVENTS.alias()
    joined = EVENTS.outerjoin(canceled, EVENTS.c.target == canceled.c.sequence)
    uuid = canceled.c.uuid.label("target_uuid")
    return select(EVENTS, uuid).select_from(joined)


def event_of(row: Row[Any]) -> Event:
    """Return the event in a row of :func:`events_with_targets`."""
    names = [f.name for f in fields(Event) if f.name not in {"kind", "target"}]
    known = {name: getattr(row, name) for name in names}
    return Event(kind=Kind(row.kind), target=row.target_uuid, **known)


@dataclass
class _Writer:
    """Gives numbers and collects rows, so that many events cost few statements."""

    connection: Connection
    now: datetime
    last: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self, event: Event) -> int:
        """Take an event and return its number."""
        row = {f.name: getattr(event, f.name) for f in fields(Event)}
        row |= {"kind": event.kind.value, "root": None, "server_time": self.now}
        if event.kind is Kind.UNDO:
            self.flush()
            row |= _switched(self.connection, event)
        if event.kind in CLASS_EVENTS:
            self.flush()
            _change_class(self.connection, event)
        self.last += 1
        self.rows.append(row | {"sequence": self.last})
        return self.last

    def flush(self) -> None:
        """Put what was collected into the table."""
        if self.rows:
            self.connection.execute(EVENTS.insert(), self.rows)
            self.rows.clear()


def _stored(
    connection: Connection, uuids: Sequence[str]
) -> dict[str, tuple[int, Event]]:
    """Find the events that are in the store already, by UUID."""
    found = {}
    query = events_with_targets()
    for some in chunked(uuids):
        for row in connection.execute(query.where(EVENTS.c.uuid.in_(some))):
            found[row.uuid] = (row.sequence, event_of(row))
    return found


def _check_replay(event: Event, earlier: tuple[int, Event] | None) -> None:
    """Refuse an event whose UUID stands for something else already."""
    if earlier is None:
        return
    number, known = earlier
    before, after = _content(known), _content(event)
    different = [name for name, value in after.items() if before[name] != value]
    if different:
        name = different[0]
        raise ReplayError(
            f"The UUID {event.uuid} came again with another content: {name} was "
            f"{before[name]!r} in event {number} and is {after[name]!r} now. A UUID "
            f"stands for one action; make a new one for a new action. {_NOTHING}"
        )


def _content(event: Event) -> dict[str, Any]:
    """Return what makes two events the same, in comparable form."""
    content = {f.name: getattr(event, f.name) for f in fields(Event)}
    content["payload"] = canonical(event.payload)
    if event.client_time:
        content["client_time"] = event.client_time.astimezone(UTC)
    if event.kind is Kind.UNDO:
        content["item"] = None  # the store fills it in
    return content


def _check_names(connection: Connection, events: Sequence[Event]) -> None:
    """Refuse events about items, classes or rounds that the store does not know."""
    _check_known(connection, "item", ITEMS.c.id, events, "Index the images first.")
    _check_known(connection, "round", ROUNDS.c.step, events, "Add the round first.")
    rows = connection.execute(select(CLASSES.c.number).where(CLASSES.c.active))
    active = set(rows.scalars())
    active |= {e.class_number for e in events if e.kind is Kind.CLASS_ADDED}
    for event in events:
        if event.kind in LABELS and event.class_number not in active:
            raise StoreError(
                f"The label for '{event.item}' names class {event.class_number}; the "
                f"classes in use are {sorted(active)}. Add the class first, or bring "
                f"it back if it was retired. {_NOTHING}"
            )


def _check_known(
    connection: Connection, what: str, column: Any, events: Iterable[Event], do: str
) -> None:
    named = {getattr(event, what) for event in events} - {None}
    unknown = unknown_of(connection, column, named)
    if unknown:
        raise StoreError(
            f"{len(unknown)} of {len(named)} {what}s are not in the store, the first "
            f"is {min(unknown)!r}. {do} {_NOTHING}"
        )


def _switched(connection: Connection, undo: Event) -> dict[str, Any]:
    """Check an undo, and return the columns that only the store can fill in."""
    query = select(EVENTS).where(EVENTS.c.uuid == undo.target)
    target = connection.execute(query).one_or_none()
    if target is None:
        raise StoreError(f"There is no event {undo.target} to undo. {_NOTHING}")
    if Kind(target.kind) in CLASS_EVENTS:
        raise StoreError(
            f"Event {target.sequence} ({target.kind}) cannot be undone; rename, retire "
            f"or restore the class instead. {_NOTHING}"
        )
    if target.annotator != undo.annotator:
        raise StoreError(
            f"Event {target.sequence} is by '{target.annotator}', so '{undo.annotator}'"
            f" cannot undo it. Each annotator undoes her own events. {_NOTHING}"
        )
    root = target.sequence if target.root is None else target.root
    switches = connection.execute(
        select(EVENTS.c.sequence).where(EVENTS.c.root == root).order_by("sequence")
    )
    _check_undoable(target, switches.scalars().all())
    return {"target": target.sequence, "root": root, "item": target.item}


def _check_undoable(target: Row[Any], switches: Sequence[int]) -> None:
    is_root = target.root is None
    if (is_root and len(switches) % 2) or (
        not is_root and target.sequence != switches[-1]
    ):
        raise StoreError(
            f"Event {target.sequence} ({target.kind}) does not hold any more: event "
            f"{switches[-1]} came later. Undo that one to go back. {_NOTHING}"
        )


def _change_class(connection: Connection, event: Event) -> None:
    """Bring the list of classes up to date with an event."""
    number, name = event.class_number, event.payload.get("name")
    rows = connection.execute(select(CLASSES.c.name, CLASSES.c.number)).all()
    number_of = {row.name: row.number for row in rows}
    if name is not None and number_of.get(name, number) != number:
        raise StoreError(
            f"The class name '{name}' is taken by class {number_of[name]}; two classes "
            f"of one name could not be told apart. {_NOTHING}"
        )
    is_new = event.kind is Kind.CLASS_ADDED
    if is_new != (number not in number_of.values()) or (is_new and number != len(rows)):
        raise StoreError(
            f"An event '{event.kind}' names class {number}; there are classes 0 to "
            f"{len(rows) - 1}, and a new one gets number {len(rows)}. {_NOTHING}"
        )
    if is_new:
        values = {"number": number, "name": name, "active": True}
        connection.execute(CLASSES.insert(), values)
    else:
        change = (
            {"name": name}
            if event.kind is Kind.CLASS_RENAMED
            else {"active": event.kind is Kind.CLASS_RESTORED}
        )
        connection.execute(
            update(CLASSES).where(CLASSES.c.number == number).values(change)
        )


def _release(connection: Connection, events: Iterable[Event]) -> None:
    """End leases on items that their holders answered, or whose label was imported."""
    imported = [event.item for event in events if event.strategy == IMPORTED]
    for some in chunked(imported):
        connection.execute(delete(LEASES).where(LEASES.c.item.in_(some)))
    answered = [
        {"answered": event.item, "by": event.annotator}
        for event in events
        if event.kind in VERDICTS
    ]
    if answered:
        held = delete(LEASES).where(
            LEASES.c.item == bindparam("answered"),
            LEASES.c.annotator == bindparam("by"),
        )
        connection.execute(held, answered)
