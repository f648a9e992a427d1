"""Events, verdicts and classes as they are in the store."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from fewlabels.errors import StoreError
from fewlabels.store.appending import event_of, events_with_targets
from fewlabels.store.records import Annotation, Kind, LabelClass, StoredEvent
from fewlabels.store.schema import (
    CLASSES,
    EVENTS,
    ITEMS,
    PRESENT,
    ROUNDS,
    VERDICTS,
)

ROWS_AT_ONCE = 1000
"""Rows in memory while a table is read from one end to the other."""


def events(
    connection: Connection,
    *,
    after: int = 0,
    item: str | None = None,
    uuid: str | None = None,
    kinds: Collection[Kind] = (),
) -> Iterator[StoredEvent]:
    """Yield events in order: all, those after a number, of an item, UUID or kinds.

    Yields:
        An event.
    """
    query = events_with_targets().where(EVENTS.c.sequence > after)
    query = query.order_by(EVENTS.c.sequence)
    if item is not None:
        query = query.where(EVENTS.c.item == item)
    if uuid is not None:
        query = query.where(EVENTS.c.uuid == uuid)
    if kinds:
        query = query.where(EVENTS.c.kind.in_(sorted(kinds)))
    for row in streamed(connection, query):
        yield StoredEvent(row.sequence, row.server_time, event_of(row))


def changes(connection: Connection, after: int) -> tuple[int, set[str]]:
    """Return the number of the last event, and the items of those after a number."""
    query = select(EVENTS.c.sequence, EVENTS.c.item).where(EVENTS.c.sequence > after)
    rows = connection.execute(query).all()
    last = max((row.sequence for row in rows), default=after)
    return last, {row.item for row in rows} - {None}


def identity(connection: Connection) -> str | None:
    """Return the UUID of the first event; None where there is none."""
    return connection.execute(
        select(EVENTS.c.uuid).where(EVENTS.c.sequence == 1)
    ).scalar()


def check_empty(connection: Connection) -> None:
    """Raise unless nothing was ever written to a store, in a writing transaction."""
    counts = {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in (
            ("classes", CLASSES),
            ("images", ITEMS),
            ("rounds", ROUNDS),
            ("events", EVENTS),
        )
    }
    if any(counts.values()):
        found = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise StoreError(
            f"The label store belongs to another project, or to one whose beginning "
            f"was interrupted: it holds {found}. Nothing was touched; give this "
            "project an empty database."
        )


def verdicts(
    connection: Connection, *, with_missing: bool, items: Sequence[str] | None
) -> Iterator[Annotation]:
    """Yield the current word of each annotator on each item, by item and annotator.

    Yields:
        A verdict.
    """
    query = select(VERDICTS).order_by(VERDICTS.c.item, VERDICTS.c.annotator)
    if items is not None:
        query = query.where(VERDICTS.c.item.in_(items))
    if not with_missing:
        present = select(ITEMS.c.id).where(ITEMS.c.state == PRESENT)
        query = query.where(VERDICTS.c.item.in_(present))
    for row in streamed(connection, query):
        yield Annotation(**(dict(row._mapping) | {"kind": Kind(row.kind)}))


def classes(connection: Connection) -> tuple[LabelClass, ...]:
    """Return all classes in the order of their numbers."""
    rows = connection.execute(select(CLASSES).order_by(CLASSES.c.number))
    return tuple(LabelClass(row.number, row.name, row.active) for row in rows)


def streamed(connection: Connection, query: Select[Any]) -> Iterator[Row[Any]]:
    """Yield the rows of a query, a thousand in memory at a time."""
    options = {"yield_per": ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        yield from rows  # closed also where the reader stops halfway
