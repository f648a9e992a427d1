"""Events, verdicts and classes as they are in the store."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from fewlabels.errors import StoreError, UsageError
from fewlabels.store.appending import event_of, events_with_targets
from fewlabels.store.records import (
    LABELS,
    Annotation,
    Kind,
    LabelClass,
    StoredEvent,
)
from fewlabels.store.schema import (
    CLASSES,
    EVENTS,
    IN_FORCE,
    ITEMS,
    PRESENT,
    ROUNDS,
    VERDICTS,
)

ROWS_AT_ONCE = 1000
"""Rows in memory while a table is read from one end to the other."""


def events(
    connection: Connection, *, item: str | None = None, after: int = 0
) -> Iterator[StoredEvent]:
    """Yield events in their order.

    Args:
        connection: Of a reading transaction.
        item: Only those about this item.
        after: Only those with a higher sequence number.

    Yields:
        Each event.
    """
    query = events_with_targets().where(EVENTS.c.sequence > after)
    query = query.order_by(EVENTS.c.sequence)
    if item is not None:
        query = query.where(EVENTS.c.item == item)
    for row in streamed(connection, query):
        yield StoredEvent(row.sequence, row.server_time, event_of(row))


def identity(connection: Connection) -> str | None:
    """Return the UUID of the first event; None where there is none."""
    return connection.execute(
        select(EVENTS.c.uuid).where(EVENTS.c.sequence == 1)
    ).scalar()


def check_empty(connection: Connection) -> None:
    """Raise unless nothing was ever written to a store.

    Args:
        connection: Of a writing transaction, so that nobody does so meanwhile.

    Raises:
        StoreError: If there is anything in it.
    """
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
        msg = (
            f"The label store belongs to another project, or to one whose beginning "
            f"was interrupted: it holds {found}. Nothing was touched; give this "
            "project an empty database."
        )
        raise StoreError(msg)


def verdicts(
    connection: Connection, *, labels_only: bool, with_missing: bool
) -> Iterator[Annotation]:
    """Yield the current word of each annotator on each item, by item and annotator.

    Args:
        connection: Of a reading transaction.
        labels_only: Leave out what was skipped or not known.
        with_missing: Also those on files that are not there any more.

    Yields:
        Each verdict.
    """
    query = select(VERDICTS).order_by(VERDICTS.c.item, VERDICTS.c.annotator)
    if labels_only:
        query = query.where(VERDICTS.c.kind.in_(sorted(LABELS)))
    if not with_missing:
        present = select(ITEMS.c.id).where(ITEMS.c.state == PRESENT)
        query = query.where(VERDICTS.c.item.in_(present))
    for row in streamed(connection, query):
        yield Annotation(**(dict(row._mapping) | {"kind": Kind(row.kind)}))


def last_verdict(connection: Connection, annotator: str) -> tuple[str, ...]:
    """Return the UUID of the last verdict of an annotator that holds.

    Args:
        connection: Of a transaction.
        annotator: Who.

    Returns:
        One UUID.

    Raises:
        UsageError: If there is none.
    """
    query = (
        select(IN_FORCE.c.uuid)
        .where(IN_FORCE.c.annotator == annotator)
        .order_by(IN_FORCE.c.sequence.desc())
        .limit(1)
    )
    found = connection.execute(query).scalar()
    if found is None:
        msg = f"'{annotator}' has no label to undo; nothing was changed."
        raise UsageError(msg)
    return (found,)


def classes(connection: Connection) -> tuple[LabelClass, ...]:
    """Return all classes in the order of their numbers."""
    rows = connection.execute(select(CLASSES).order_by(CLASSES.c.number))
    return tuple(LabelClass(row.number, row.name, row.active) for row in rows)


def streamed(connection: Connection, query: Select[Any]) -> Iterator[Row[Any]]:
    """Yield the rows of a query, a thousand in memory at a time."""
    options = {"yield_per": ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        yield from rows  # closed also where the reader stops halfway
