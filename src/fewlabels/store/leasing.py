"""Who labels what: leases that several annotators hold at the same time.

An item is handed to an annotator while its answers (:func:`records.num_answers`) and
the others who hold it are fewer than ``overlap``. It never comes back to an annotator
who has spoken about it. A lease ends when its holder answers, releases it, or lets it
expire.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    update,
)

from fewlabels.errors import UsageError
from fewlabels.store.chunks import chunked
from fewlabels.store.records import VERDICTS as ANSWERS
from fewlabels.store.records import Lease, Leased, new_uuid, num_answers
from fewlabels.store.schema import ITEMS, LEASES, PRESENT, ROUND_ITEMS, ROUNDS, VERDICTS

MOST_LISTED = 10_000
"""Most items that a lease chooses from a list, or hands out."""

MOST_SECONDS = 7 * 24 * 3600
"""Longest time that a lease lasts without a sign of life."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What an annotator asks for."""

    annotator: str
    count: int
    overlap: int
    ttl: float
    """Seconds until a lease ends by itself."""
    among: int | Sequence[str] | None
    """Step of a round (-1: the last), ids of items, or None: all items."""
    token: str | None
    since: int | None = None
    """Step of the first round that is handed out together with the last one."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 0 <= self.count <= MOST_LISTED or self.overlap < 1:
            raise UsageError(
                f"A lease needs a count of 0 to {MOST_LISTED} and overlap >= 1; got "
                f"count={self.count}, overlap={self.overlap}."
            )
        _check_ttl(self.ttl)
        if isinstance(self.among, str):
            msg = f"among='{self.among}' is one id; give a list of ids or a round."
            raise UsageError(msg)
        if isinstance(self.among, Sequence) and len(self.among) > MOST_LISTED:
            raise UsageError(
                f"among lists {len(self.among)} items; at most {MOST_LISTED} can be "
                "compared at once. Add them as a round and give its step."
            )


def lease(connection: Connection, wish: Wish, now: datetime) -> Leased:
    """Hand out items inside a writing transaction; see :meth:`Store.lease`."""
    connection.execute(delete(LEASES).where(LEASES.c.expires <= now))
    _shorten_future_leases(connection, now)
    if wish.among == -1:
        wish = replace(wish, since=_first_open(connection))
    token = wish.token or new_uuid()
    expires = now + timedelta(seconds=wish.ttl)
    given = _held(connection, wish, token)[: wish.count]
    _prolong(connection, wish.annotator, given, now, expires)
    fresh = _fresh(connection, wish, wish.count - len(given))
    terms: dict[str, Any] = {"annotator": wish.annotator, "token": token}
    terms |= {"granted": now, "expires": expires}
    if fresh:
        connection.execute(LEASES.insert(), [terms | {"item": item} for item in fresh])
    num_held, frees_at = 0, None
    if len(given) + len(fresh) < wish.count:
        num_held, frees_at = _held_by_others(connection, wish, token)
    leases = [Lease(item, wish.annotator, token, expires) for item in (*given, *fresh)]
    return Leased(tuple(leases), token, num_held, frees_at)


def heartbeat(
    connection: Connection, token: str, ttl: float, now: datetime
) -> tuple[Lease, ...]:
    """Prolong all leases of a token that have not expired, and return them."""
    _check_ttl(ttl)
    mine = and_(LEASES.c.token == token, LEASES.c.expires > now)
    values = {"granted": now, "expires": now + timedelta(seconds=ttl)}
    connection.execute(update(LEASES).where(mine).values(values))
    rows = connection.execute(select(LEASES).where(mine).order_by(LEASES.c.item))
    return tuple(Lease(r.item, r.annotator, r.token, r.expires) for r in rows)


def release(connection: Connection, token: str, items: Sequence[str] | None) -> int:
    """End leases of a token, all or those on some items; return how many."""
    query = delete(LEASES).where(LEASES.c.token == token)
    if items is None:
        return connection.execute(query).rowcount
    return sum(
        connection.execute(query.where(LEASES.c.item.in_(some))).rowcount
        for some in chunked(items)
    )


def holders(connection: Connection, item: str, now: datetime) -> tuple[str, ...]:
    """Return who holds an item."""
    query = select(LEASES.c.annotator).where(LEASES.c.item == item)
    return tuple(connection.execute(query.where(LEASES.c.expires > now)).scalars())


def _check_ttl(ttl: float) -> None:
    if not 0 < ttl <= MOST_SECONDS:  # nor is it, for what is no number
        raise UsageError(
            f"A lease cannot last ttl={ttl} seconds; give more than 0 and at most "
            f"{MOST_SECONDS}, and prolong it while somebody is at work."
        )


def _held(connection: Connection, wish: Wish, token: str) -> list[str]:
    """Return those items of the wish that the token holds, in the order of the wish."""
    query, order = _candidates(wish)
    held = select(LEASES.c.item).where(
        LEASES.c.item == ITEMS.c.id,
        LEASES.c.annotator == wish.annotator,
        LEASES.c.token == token,
    )
    rows = connection.execute(query.where(held.exists()).order_by(*order))
    return _in_order(wish, rows.scalars())


def _fresh(connection: Connection, wish: Wish, count: int) -> list[str]:
    """Find items that may be handed out now."""
    if count <= 0:
        return []
    query, order = _candidates(wish)
    query = query.where(_is_open(wish), _num_busy(wish) < wish.overlap)
    if isinstance(wish.among, Sequence):
        return _in_order(wish, connection.execute(query).scalars())[:count]
    rows = connection.execute(query.order_by(*order).limit(count))
    return list(rows.scalars())


def _held_by_others(
    connection: Connection, wish: Wish, token: str
) -> tuple[int, datetime | None]:
    """Count the items that only leases keep from the annotator, and when these end."""
    query, _ = _candidates(wish)
    waiting = query.where(
        _is_answerable(wish), _num_answers(wish) < wish.overlap
    ).subquery()
    rows = connection.execute(
        select(func.count(LEASES.c.item.distinct()), func.min(LEASES.c.expires)).where(
            LEASES.c.item.in_(select(waiting.c.id)), LEASES.c.token != token
        )
    )
    num_held, frees_at = rows.one()
    return num_held, frees_at


def _first_open(connection: Connection) -> int:
    """Return the step of the first round that the last one keeps open; see ``since``.

    A round that was chosen ahead says so in its options.
    """
    query = select(ROUNDS.c.step, ROUNDS.c.options).order_by(ROUNDS.c.step.desc())
    last = connection.execute(query.limit(1)).first()
    return 0 if last is None else int(last.options.get("since", last.step))


def _candidates(wish: Wish) -> tuple[Select[Any], tuple[Any, ...]]:
    """Return the query for all items of the wish, and their order."""
    query = select(ITEMS.c.id).where(ITEMS.c.state == PRESENT)
    if wish.among is None:
        return query, (ITEMS.c.path,)
    if isinstance(wish.among, int):
        query = query.join(ROUND_ITEMS, ROUND_ITEMS.c.item == ITEMS.c.id)
        if wish.since is None:
            query = query.where(ROUND_ITEMS.c.round == wish.among)
        else:
            earlier = ROUND_ITEMS.alias()  # an item may be in several of them
            query = query.where(
                ROUND_ITEMS.c.round >= wish.since,
                ~exists().where(
                    earlier.c.item == ROUND_ITEMS.c.item,
                    earlier.c.round >= wish.since,
                    earlier.c.round < ROUND_ITEMS.c.round,
                ),
            )
        return query, (ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
    parts = [ITEMS.c.id.in_(some) for some in chunked(wish.among)]
    return query.where(or_(false(), *parts)), (ITEMS.c.path,)


def _in_order(wish: Wish, found: Iterable[str]) -> list[str]:
    """Sort items like the list in the wish, where it is a list."""
    if not isinstance(wish.among, Sequence):
        return list(found)
    place = {item: number for number, item in enumerate(wish.among)}
    return sorted(found, key=lambda item: place[item])


def _is_answerable(wish: Wish) -> ColumnElement[bool]:
    """Say that the annotator has not spoken about the item yet."""
    spoken = select(VERDICTS.c.item).where(
        VERDICTS.c.item == ITEMS.c.id, VERDICTS.c.annotator == wish.annotator
    )
    return ~spoken.exists()


def _is_open(wish: Wish) -> ColumnElement[bool]:
    """Say that the annotator neither answered the item nor holds it anywhere."""
    holds = select(LEASES.c.item).where(
        LEASES.c.item == ITEMS.c.id, LEASES.c.annotator == wish.annotator
    )
    return and_(_is_answerable(wish), ~holds.exists())


def _num_answers(wish: Wish) -> ColumnElement[int]:
    worth = {kind.value: num_answers(kind, wish.overlap) for kind in sorted(ANSWERS)}
    total = func.coalesce(func.sum(case(worth, value=VERDICTS.c.kind)), 0)
    return select(total).where(VERDICTS.c.item == ITEMS.c.id).scalar_subquery()


def _num_busy(wish: Wish) -> ColumnElement[int]:
    """Count others who answered the item or hold it; nobody does both."""
    holding = select(func.count()).where(LEASES.c.item == ITEMS.c.id)
    return _num_answers(wish) + holding.scalar_subquery()


def _prolong(
    connection: Connection,
    annotator: str,
    items: Sequence[str],
    now: datetime,
    expires: datetime,
) -> None:
    for some in chunked(items):
        mine = and_(LEASES.c.annotator == annotator, LEASES.c.item.in_(some))
        values = {"granted": now, "expires": expires}
        connection.execute(update(LEASES).where(mine).values(values))


def _shorten_future_leases(connection: Connection, now: datetime) -> None:
    """Let leases granted before the clock was set back begin now and last as long."""
    rows = connection.execute(select(LEASES).where(LEASES.c.granted > now)).all()
    for row in rows:
        values = {"granted": now, "expires": now + (row.expires - row.granted)}
        same = and_(LEASES.c.item == row.item, LEASES.c.annotator == row.annotator)
        connection.execute(update(LEASES).where(same).values(values))
