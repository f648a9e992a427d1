"""Events, and what follows from them: current labels, classes, undo and redo.

An undo names the event that it cancels. What it leads to in the end is its *root*: an
undo of an undo of a label has the label. Each undo in the store switches its root off
or on, because only two kinds are accepted: one that names the root while it holds, and
one that names the last switch. A verdict therefore holds exactly while an even number
of undos lead to it, and that is how the view counts.

Undo and redo go step by step and per annotator, as in an editor. What they mean without
a target is found in the same transaction that writes it, so that two browser tabs of
one person never undo the same thing twice.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import UTC
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)

from fewlabels.errors import ReplayError, StoreError, UsageError
from fewlabels.projects.store.database import (
    Database,
    chunked,
    count_anew,
    streamed,
    unknown_of,
)
from fewlabels.projects.store.records import (
    CLASS_EVENTS,
    IMPORTED,
    LABELS,
    UNASKED,
    Annotation,
    Event,
    Kind,
    LabelClass,
    StoredEvent,
    canonical,
    new_uuid,
)
from fewlabels.projects.store.records import VERDICTS as VERDICT_KINDS
from fewlabels.projects.store.schema import (
    CLASSES,
    EVENTS,
    IN_FORCE,
    ITEMS,
    LEASES,
    PRESENT,
    ROUNDS,
    VERDICTS,
    extend_checksum,
    renew_checksums,
)

_MANY = 500
_NOTHING = "Nothing of this call was written."
_FIELDS = tuple(field.name for field in fields(Event))
_CANCELED = EVENTS.alias()
_WITH_TARGETS = select(EVENTS, _CANCELED.c.uuid.label("target_uuid")).select_from(
    EVENTS.outerjoin(_CANCELED, EVENTS.c.target == _CANCELED.c.sequence)
)


class Events(Database):
    """Verbs about events."""

    def append(self, events: Iterable[Event]) -> tuple[int, ...]:
        """Write events down: all of them or, where one is refused, none.

        Args:
            events: What happened, in order.

        Returns:
            A sequence number per event. They are durable now. An event that was sent
            before, known by its UUID, gets its first number and changes nothing.
        """
        given = tuple(events)
        with self.write_connection() as connection:
            stored = {}
            for some in chunked(event.uuid for event in given):
                query = _WITH_TARGETS.where(EVENTS.c.uuid.in_(some))
                for row in connection.execute(query):
                    stored[row.uuid] = (row.sequence, _event(row))
            fresh = [event for event in given if event.uuid not in stored]
            _check_names(connection, fresh)
            first = last = connection.scalar(select(func.max(EVENTS.c.sequence))) or 0
            now = self.now(connection)
            rows: list[dict[str, Any]] = []  # many events cost few statements
            for event in given:
                if event.uuid in stored:
                    _check_replay(event, *stored[event.uuid])
                    continue
                values = {name: getattr(event, name) for name in _FIELDS}
                values |= {"kind": event.kind.value, "root": None, "server_time": now}
                if event.kind not in VERDICT_KINDS:  # these look at what came before
                    _insert(connection, rows)
                if event.kind is Kind.UNDO:
                    values |= _switched(connection, event)
                elif event.kind in CLASS_EVENTS:
                    _change_class(connection, event)
                last += 1
                rows.append(values | {"sequence": last})
                stored[event.uuid] = (last, event)
            _insert(connection, rows)
            if last > first:
                extend_checksum(connection, first)
            if any(event.kind in CLASS_EVENTS for event in fresh):
                renew_checksums(connection, CLASSES)
            _end_leases(connection, fresh)
            if last // _MANY > first // _MANY:
                count_anew(connection, EVENTS)
        return tuple(stored[event.uuid][0] for event in given)

    def undo(
        self, annotator: str, *, target: str | None = None, uuid: str | None = None
    ) -> StoredEvent:
        """Cancel a verdict, or bring back what an undo had canceled.

        Args:
            annotator: Who undoes; each annotator her own events.
            target: UUID of the event to cancel; None: the annotator's last verdict
                that holds and was asked for.
            uuid: Names this undo; the same one again changes nothing. None: a new one.

        Returns:
            The undo as stored.
        """
        return self._cancel(annotator, target, uuid or new_uuid(), is_redo=False)

    def redo(self, annotator: str, *, uuid: str | None = None) -> StoredEvent:
        """Bring back what was undone last, unless something new was said since."""
        return self._cancel(annotator, None, uuid or new_uuid(), is_redo=True)

    def _cancel(
        self, annotator: str, target: str | None, uuid: str, *, is_redo: bool
    ) -> StoredEvent:
        with self.writing() as store, store.write_connection() as connection:
            earlier = store.event(uuid)
            if target is None and earlier and earlier.event.target:
                before = store.event(earlier.event.target)
                if before and (before.event.kind is Kind.UNDO) == is_redo:
                    target = before.event.uuid  # as the first time
            if target is None:
                find = _last_undo if is_redo else _last_verdict
                target = find(connection, annotator)
            if target is None:
                verb = "redo" if is_redo else "undo"
                raise UsageError(f"'{annotator}' has nothing to {verb}.")
            undo = Event(kind=Kind.UNDO, annotator=annotator, uuid=uuid, target=target)
            store.append([undo])
            return next(_events(connection, EVENTS.c.uuid == uuid))

    def events(
        self, *, after: int = 0, item: str | None = None, kinds: Collection[Kind] = ()
    ) -> Iterator[StoredEvent]:
        """Yield events in their order, undone or not.

        Args:
            after: Only those with a higher sequence number.
            item: Only those about this item.
            kinds: Only those of these kinds; none given: of all.

        Yields:
            Each event.
        """
        conditions = [EVENTS.c.sequence > after]
        if item is not None:
            conditions.append(EVENTS.c.item == item)
        if kinds:
            conditions.append(EVENTS.c.kind.in_(sorted(kinds)))
        with self.read_connection() as connection:
            yield from _events(connection, *conditions)

    def event(self, uuid: str) -> StoredEvent | None:
        """Return the event of this name; None where there is none."""
        with self.read_connection() as connection:
            return next(_events(connection, EVENTS.c.uuid == uuid), None)

    def changes(self, *, after: int) -> tuple[int, set[str]]:
        """Return the number of the last event, and the items of those since one."""
        query = select(EVENTS.c.sequence, EVENTS.c.item)
        with self.read_connection() as connection:
            rows = connection.execute(query.where(EVENTS.c.sequence > after)).all()
        last = max((row.sequence for row in rows), default=after)
        return last, {row.item for row in rows} - {None}

    @property
    def identity(self) -> str | None:
        """UUID of the first event, which no other store has; None where there is none.

        A backup is the same store at an earlier moment and has it too.
        """
        with self.read_connection() as connection:
            return connection.scalar(
                select(EVENTS.c.uuid).where(EVENTS.c.sequence == 1)
            )

    # ------------------------------------------------------------------- labels

    def labels(self, *, with_missing: bool = False) -> tuple[Annotation, ...]:
        """Return the current labels: those verdicts that have a class."""
        verdicts = self.verdicts(with_missing=with_missing)
        return tuple(verdict for verdict in verdicts if verdict.kind in LABELS)

    def verdicts(
        self, *, with_missing: bool = False, items: Sequence[str] | None = None
    ) -> tuple[Annotation, ...]:
        """Return the current labels, and what was skipped or not known.

        Args:
            with_missing: Also those of images that are not there any more.
            items: Only those on these few items; None: on all.

        Returns:
            One per item and annotator, by item.
        """
        query = select(VERDICTS).order_by(VERDICTS.c.item, VERDICTS.c.annotator)
        if items is not None:
            query = query.where(VERDICTS.c.item.in_(items))
        if not with_missing:
            present = select(ITEMS.c.id).where(ITEMS.c.state == PRESENT)
            query = query.where(VERDICTS.c.item.in_(present))
        with self.read_connection() as connection:
            return tuple(
                Annotation(**(dict(row._mapping) | {"kind": Kind(row.kind)}))
                for row in streamed(connection, query)
            )

    # ------------------------------------------------------------------ classes

    def classes(self) -> tuple[LabelClass, ...]:
        """Return all classes, those not in use any more included."""
        with self.read_connection() as connection:
            rows = connection.execute(select(CLASSES).order_by(CLASSES.c.number))
            return tuple(LabelClass(row.number, row.name, row.active) for row in rows)

    def add_classes(self, names: Iterable[str], *, annotator: str) -> tuple[int, ...]:
        """Add classes and return their numbers; a known name keeps its number.

        Args:
            names: Names of the classes.
            annotator: Who wants them.

        Returns:
            A number per name.
        """
        wanted = tuple(names)
        with self.writing() as store:
            numbers = {known.name: known.number for known in store.classes()}
            fresh = [name for name in dict.fromkeys(wanted) if name not in numbers]
            numbers |= {name: number for number, name in enumerate(fresh, len(numbers))}
            store.append(
                Event(
                    kind=Kind.CLASS_ADDED,
                    annotator=annotator,
                    class_number=numbers[name],
                    payload={"name": name},
                )
                for name in fresh
            )
        return tuple(numbers[name] for name in wanted)

    def begin(self, names: Iterable[str], *, annotator: str) -> str:
        """Make an empty store that of one project, by its first classes.

        Args:
            names: Names of the classes.
            annotator: Whose project it is.

        Returns:
            What :attr:`identity` will be from now on.
        """
        tables: dict[str, Table] = {
            "classes": CLASSES,
            "images": ITEMS,
            "rounds": ROUNDS,
            "events": EVENTS,
        }
        with self.writing() as store, store.write_connection() as connection:
            counts = {
                name: connection.scalar(select(func.count()).select_from(table))
                for name, table in tables.items()
            }
            if any(counts.values()):
                held = ", ".join(f"{count} {name}" for name, count in counts.items())
                raise StoreError(
                    "The label store belongs to another project, or to one whose "
                    f"beginning was interrupted: it holds {held}. Nothing was touched; "
                    "give this project an empty database."
                )
            store.add_classes(names, annotator=annotator)
            return store.identity or ""


# -------------------------------------------------------------------- reading events


def _events(
    connection: Connection, *conditions: ColumnElement[bool]
) -> Iterator[StoredEvent]:
    """Yield the events that meet all conditions, in their order."""
    query = _WITH_TARGETS.where(*conditions).order_by(EVENTS.c.sequence)
    for row in streamed(connection, query):
        yield StoredEvent(row.sequence, row.server_time, _event(row))


def _event(row: Row[Any]) -> Event:
    """Return the event in a row; an undo has the UUID of the event that it cancels."""
    content = {name: getattr(row, name) for name in _FIELDS}
    return Event(**(content | {"kind": Kind(row.kind), "target": row.target_uuid}))


def _last_verdict(connection: Connection, annotator: str) -> str | None:
    """Return the UUID of an annotator's last verdict that holds, if there is one.

    What was confirmed at a glance or imported does not count: nobody was asked.
    """
    query = select(IN_FORCE.c.uuid).where(
        IN_FORCE.c.annotator == annotator, _is_asked(IN_FORCE)
    )
    return connection.scalar(query.order_by(IN_FORCE.c.sequence.desc()).limit(1))


def _last_undo(connection: Connection, annotator: str) -> str | None:
    """Return the UUID of the undo that a redo takes back; None: there is none.

    Of the answers that are canceled it is the one canceled last, and only what was
    canceled since the annotator's last verdict counts: a new one ends all redoing.
    """
    mine = EVENTS.c.annotator == annotator
    spoke = select(func.coalesce(func.max(EVENTS.c.sequence), 0))
    spoke = spoke.where(mine, EVENTS.c.kind.in_(sorted(VERDICT_KINDS)))
    last = func.max(EVENTS.c.sequence)
    root = EVENTS.alias()
    canceled = (
        select(last)
        .select_from(EVENTS.join(root, EVENTS.c.root == root.c.sequence))
        .where(mine, _is_asked(root))
        .group_by(EVENTS.c.root)
        .having(func.count() % 2 == 1, last > spoke.scalar_subquery())
        .order_by(last.desc())
        .limit(1)
    )
    latest = EVENTS.c.sequence == canceled.scalar_subquery()
    return connection.scalar(select(EVENTS.c.uuid).where(latest))


def _is_asked(verdicts: Any) -> ColumnElement[bool]:
    """Say that somebody was asked about the item alone."""
    return or_(
        verdicts.c.strategy.is_(None),
        verdicts.c.strategy.not_in(sorted(UNASKED)),
        verdicts.c.round.is_not(None),
    )


# -------------------------------------------------------------------- writing events


def _insert(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Put collected rows into the table of events."""
    if rows:
        connection.execute(EVENTS.insert(), rows)
        rows.clear()


def _check_replay(event: Event, number: int, known: Event) -> None:
    """Refuse an event whose UUID stands for something else already."""
    before, after = _content(known), _content(event)
    different = [name for name in _FIELDS if before[name] != after[name]]
    if different:
        name = different[0]
        raise ReplayError(
            f"The UUID {event.uuid} came again with another content: {name} was "
            f"{before[name]!r} in event {number} and is {after[name]!r} now. Make a "
            f"new UUID for a new action. {_NOTHING}"
        )


def _content(event: Event) -> dict[str, Any]:
    """Return what makes two events the same, in comparable form."""
    content = {name: getattr(event, name) for name in _FIELDS}
    content["payload"] = canonical(event.payload)
    if event.client_time:
        content["client_time"] = event.client_time.astimezone(UTC)
    if event.kind is Kind.UNDO:
        content["item"] = None  # the store fills it in
    return content


def _check_names(connection: Connection, events: Sequence[Event]) -> None:
    """Refuse events about items, classes or rounds that the store does not know."""
    for what, column, remedy in (
        ("item", ITEMS.c.id, "Index the images first."),
        ("round", ROUNDS.c.step, "Add the round first."),
    ):
        named = {getattr(event, what) for event in events} - {None}
        unknown = unknown_of(connection, column, named)
        if unknown:
            raise StoreError(
                f"{len(unknown)} of {len(named)} {what}s are not in the store, the "
                f"first is {min(unknown)!r}. {remedy} {_NOTHING}"
            )
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
            f" cannot undo it. {_NOTHING}"
        )
    is_root = target.root is None
    root = target.sequence if is_root else target.root
    query = select(EVENTS.c.sequence).where(EVENTS.c.root == root).order_by("sequence")
    switches = connection.execute(query).scalars().all()
    if len(switches) % 2 if is_root else target.sequence != switches[-1]:
        raise StoreError(
            f"Event {target.sequence} ({target.kind}) does not hold any more: event "
            f"{switches[-1]} came later. Undo that one to go back. {_NOTHING}"
        )
    return {"target": target.sequence, "root": root, "item": target.item}


def _change_class(connection: Connection, event: Event) -> None:
    """Bring the list of classes up to date with an event."""
    number, name = event.class_number, event.payload.get("name")
    rows = connection.execute(select(CLASSES.c.name, CLASSES.c.number))
    number_of = {row.name: row.number for row in rows}
    if name is not None and number_of.get(name, number) != number:
        raise StoreError(
            f"The class name '{name}' is taken by class {number_of[name]}; take "
            f"another. {_NOTHING}"
        )
    is_new, next_number = event.kind is Kind.CLASS_ADDED, len(number_of)
    if number != next_number if is_new else number not in number_of.values():
        raise StoreError(
            f"An event '{event.kind}' names class {number}; there are classes 0 to "
            f"{next_number - 1}, and a new one gets number {next_number}. {_NOTHING}"
        )
    change = update(CLASSES).where(CLASSES.c.number == number)
    if is_new:
        values = {"number": number, "name": name, "active": True}
        connection.execute(CLASSES.insert(), values)
    elif event.kind is Kind.CLASS_RENAMED:
        connection.execute(change.values(name=name))
    else:
        is_active = event.kind is Kind.CLASS_RESTORED
        connection.execute(change.values(active=is_active))


def _end_leases(connection: Connection, events: Iterable[Event]) -> None:
    """End leases on items that their holders answered, or whose label was imported."""
    imported = [event.item for event in events if event.strategy == IMPORTED]
    for some in chunked(imported):
        connection.execute(delete(LEASES).where(LEASES.c.item.in_(some)))
    answered = [
        {"answered": event.item, "by": event.annotator}
        for event in events
        if event.kind in VERDICT_KINDS
    ]
    if answered:
        held = (
            LEASES.c.item == bindparam("answered"),
            LEASES.c.annotator == bindparam("by"),
        )
        connection.execute(delete(LEASES).where(*held), answered)
