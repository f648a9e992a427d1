"""Undo and redo, step by step and per annotator, as an editor does it.

Both are an event of the same kind, an undo: it cancels a verdict, or another undo. What
an undo or a redo without a target means is found in the same transaction that writes
it, so that two browser tabs of one person never undo the same thing twice.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, or_, select

from fewlabels.errors import UsageError
from fewlabels.store.appending import append
from fewlabels.store.reading import events
from fewlabels.store.records import UNASKED, VERDICTS, Event, Kind, StoredEvent
from fewlabels.store.schema import EVENTS, IN_FORCE


@dataclass(frozen=True)
class Wish:
    """What an annotator wants undone or redone."""

    annotator: str
    target: str | None
    """UUID of an event; None: whatever is next."""
    uuid: str
    """Names the wish."""
    is_redo: bool = False


def undo(connection: Connection, wish: Wish, now: datetime) -> StoredEvent:
    """Undo or redo inside a writing transaction; see :meth:`Store.undo`."""
    target = wish.target or _meant_before(connection, wish)
    if target is None:
        find = _to_redo if wish.is_redo else _to_undo
        target = find(connection, wish.annotator)
    if target is None:
        verb = "redo" if wish.is_redo else "undo"
        raise UsageError(f"'{wish.annotator}' has nothing to {verb}.")
    done = Event(
        kind=Kind.UNDO, annotator=wish.annotator, uuid=wish.uuid, target=target
    )
    append(connection, [done], now)
    return next(events(connection, uuid=wish.uuid))


def _meant_before(connection: Connection, wish: Wish) -> str | None:
    """Return what the same wish undid, or redid, when it came the first time."""
    known = next(events(connection, uuid=wish.uuid), None)
    if known is None or known.event.target is None:
        return None
    target = next(events(connection, uuid=known.event.target))
    is_redo = target.event.kind is Kind.UNDO
    return target.event.uuid if is_redo == wish.is_redo else None


def _to_undo(connection: Connection, annotator: str) -> str | None:
    """Return the UUID of an annotator's last verdict that holds, if there is one.

    What was confirmed at a glance or imported does not count: nobody was asked.
    """
    is_asked = or_(
        IN_FORCE.c.strategy.is_(None),
        IN_FORCE.c.strategy.not_in(sorted(UNASKED)),
        IN_FORCE.c.round.is_not(None),
    )
    query = select(IN_FORCE.c.uuid).where(IN_FORCE.c.annotator == annotator, is_asked)
    query = query.order_by(IN_FORCE.c.sequence.desc()).limit(1)
    return connection.execute(query).scalar()


def _to_redo(connection: Connection, annotator: str) -> str | None:
    """Return the UUID of the undo that a redo takes back; None: there is none.

    Of the answers that are canceled it is the one canceled last, and only what was
    canceled since the annotator's last verdict counts: a new one ends all redoing.
    """
    mine = EVENTS.c.annotator == annotator
    spoke = select(func.coalesce(func.max(EVENTS.c.sequence), 0))
    spoke = spoke.where(mine, EVENTS.c.kind.in_(sorted(VERDICTS)))
    last = func.max(EVENTS.c.sequence)
    root = EVENTS.alias()
    asked = or_(root.c.strategy.is_(None), root.c.strategy.not_in(sorted(UNASKED)))
    joined = EVENTS.join(root, EVENTS.c.root == root.c.sequence)
    canceled = select(last).select_from(joined)
    canceled = canceled.where(mine, or_(asked, root.c.round.is_not(None)))
    canceled = canceled.group_by(EVENTS.c.root).having(
        func.count() % 2 == 1, last > spoke.scalar_subquery()
    )
    latest = canceled.order_by(last.desc()).limit(1).scalar_subquery()
    found = connection.execute(select(EVENTS.c.uuid).where(EVENTS.c.sequence == latest))
    return found.scalar()
