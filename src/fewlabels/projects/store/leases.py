"""Who labels what: leases that several annotators hold at the same time.

An item is handed to an annotator while its answers (:func:`records.num_answers`) and
the others who hold it are fewer than ``overlap``. It never comes back to an annotator
who has spoken about it. A lease ends when its holder answers, releases it, or lets it
expire.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    case,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    update,
)

from fewlabels.errors import UsageError, check_range
from fewlabels.projects.store.database import Database, chunked
from fewlabels.projects.store.records import VERDICTS as VERDICT_KINDS
from fewlabels.projects.store.records import Lease, Leased, new_uuid, num_answers
from fewlabels.projects.store.schema import (
    ITEMS,
    LEASES,
    PRESENT,
    ROUND_ITEMS,
    ROUNDS,
    VERDICTS,
)

LEASE_SECONDS = 120.0
"""How long a lease holds without a sign of life."""

MOST_LISTED = 10_000
"""Most items that a lease chooses from a list, or hands out."""

MOST_SECONDS = 7 * 24 * 3600
"""Longest time that a lease lasts without a sign of life."""


class Leases(Database):
    """Verbs about leases."""

    def lease(
        self,
        annotator: str,
        count: int,
        *,
        overlap: int = 1,
        ttl: float = LEASE_SECONDS,
        among: int | Sequence[str] | None = None,
        token: str | None = None,
    ) -> Leased:
        """Hand out items to label, so that no item goes to more people than wanted.

        Args:
            annotator: Who labels.
            count: How many items, at most.
            overlap: How many annotators shall label each item.
            ttl: Seconds until the lease ends by itself; :meth:`heartbeat` prolongs it.
            among: Step of a round, ids of items, or None: all by path. -1: the last
                round, after those that its option ``since`` keeps open.
            token: Of an earlier lease of the same tab or process: what it still holds
                comes first. Without it nothing is handed out that the annotator holds
                elsewhere, so that two tabs never show the same item.

        Returns:
            The leases, and how many more items others hold.
        """
        check_range("count", count, at_least=0, at_most=MOST_LISTED)
        check_range("overlap", overlap, at_least=1)
        check_range("ttl", ttl, above=0, at_most=MOST_SECONDS)
        token = token or new_uuid()
        with self.write_connection() as connection:
            now = self.now(connection)
            expires = now + timedelta(seconds=ttl)
            terms: dict[str, Any] = {"granted": now, "expires": expires}
            connection.execute(delete(LEASES).where(LEASES.c.expires <= now))
            # Where the clock was set back, leases begin now and last as long as before.
            early = select(LEASES).where(LEASES.c.granted > now)
            for row in connection.execute(early).all():
                same = LEASES.c.item == row.item, LEASES.c.annotator == row.annotator
                end = now + (row.expires - row.granted)
                shorter = update(LEASES).where(*same).values(granted=now, expires=end)
                connection.execute(shorter)

            candidates = _candidates(connection, among)
            mine = LEASES.c.item == ITEMS.c.id, LEASES.c.annotator == annotator
            is_held_here = exists().where(*mine, LEASES.c.token == token)
            query = candidates.where(is_held_here)
            held = _in_order(connection, query, among, count)
            for some in chunked(held):
                own = LEASES.c.annotator == annotator, LEASES.c.item.in_(some)
                connection.execute(update(LEASES).where(*own).values(terms))

            has_spoken = exists().where(
                VERDICTS.c.item == ITEMS.c.id, VERDICTS.c.annotator == annotator
            )
            worth = {kind.value: num_answers(kind, overlap) for kind in VERDICT_KINDS}
            answers = func.coalesce(func.sum(case(worth, value=VERDICTS.c.kind)), 0)
            is_answer = VERDICTS.c.item == ITEMS.c.id
            num_given = select(answers).where(is_answer).scalar_subquery()
            is_lease = LEASES.c.item == ITEMS.c.id
            num_holding = select(func.count()).where(is_lease).scalar_subquery()
            fresh: list[str] = []
            if len(held) < count:
                query = candidates.where(
                    ~has_spoken,
                    ~exists().where(*mine),
                    num_given + num_holding < overlap,  # nobody does both
                )
                fresh = _in_order(connection, query, among, count - len(held))
            if fresh:
                terms |= {"annotator": annotator, "token": token}
                rows = [terms | {"item": item} for item in fresh]
                connection.execute(LEASES.insert(), rows)

            num_held, frees_at = 0, None
            if len(held) + len(fresh) < count:
                waiting = candidates.where(~has_spoken, num_given < overlap).subquery()
                num_held, frees_at = connection.execute(
                    select(
                        func.count(LEASES.c.item.distinct()),
                        func.min(LEASES.c.expires),
                    ).where(
                        LEASES.c.item.in_(select(waiting.c.id)), LEASES.c.token != token
                    )
                ).one()
        leases = [Lease(item, annotator, token, expires) for item in (*held, *fresh)]
        return Leased(tuple(leases), token, num_held, frees_at)

    def heartbeat(self, token: str, *, ttl: float = LEASE_SECONDS) -> tuple[Lease, ...]:
        """Prolong the leases of a token and return those it still holds."""
        check_range("ttl", ttl, above=0, at_most=MOST_SECONDS)
        with self.write_connection() as connection:
            now = self.now(connection)
            mine = LEASES.c.token == token, LEASES.c.expires > now
            terms = {"granted": now, "expires": now + timedelta(seconds=ttl)}
            connection.execute(update(LEASES).where(*mine).values(terms))
            query = select(LEASES).where(*mine).order_by(LEASES.c.item)
            rows = connection.execute(query)
            return tuple(Lease(r.item, r.annotator, r.token, r.expires) for r in rows)

    def holders(self, item: str) -> tuple[str, ...]:
        """Return who holds an item."""
        query = select(LEASES.c.annotator).where(LEASES.c.item == item)
        with self.read_connection() as connection:
            current = query.where(LEASES.c.expires > self.now(connection))
            return tuple(connection.execute(current).scalars())

    def release(self, token: str, items: Sequence[str] | None = None) -> int:
        """Give back the leases of a token, or those on some items; return how many."""
        query = delete(LEASES).where(LEASES.c.token == token)
        with self.write_connection() as connection:
            if items is None:
                return connection.execute(query).rowcount
            return sum(
                connection.execute(query.where(LEASES.c.item.in_(some))).rowcount
                for some in chunked(items)
            )


def _candidates(
    connection: Connection, among: int | Sequence[str] | None
) -> Select[Any]:
    """Select the items of a wish that are there, in their order."""
    query = select(ITEMS.c.id).where(ITEMS.c.state == PRESENT)
    if among is None:
        return query.order_by(ITEMS.c.path)
    if isinstance(among, int):
        query = query.join(ROUND_ITEMS, ROUND_ITEMS.c.item == ITEMS.c.id)
        query = query.order_by(ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
        if among != -1:
            return query.where(ROUND_ITEMS.c.round == among)
        # A round that was chosen ahead says in its options which others stay open.
        steps = select(ROUNDS.c.step, ROUNDS.c.options).order_by(ROUNDS.c.step.desc())
        last = connection.execute(steps.limit(1)).first()
        since = 0 if last is None else int(last.options.get("since", last.step))
        earlier = ROUND_ITEMS.alias()  # an item may be in several of them
        is_repeated = exists().where(
            earlier.c.item == ROUND_ITEMS.c.item,
            earlier.c.round >= since,
            earlier.c.round < ROUND_ITEMS.c.round,
        )
        return query.where(ROUND_ITEMS.c.round >= since, ~is_repeated)
    if isinstance(among, str):
        raise UsageError(f"among='{among}' is one id; give a list of ids or a round.")
    if len(among) > MOST_LISTED:
        raise UsageError(
            f"among lists {len(among)} items; at most {MOST_LISTED} can be compared at "
            "once. Add them as a round and give its step."
        )
    return query.where(or_(false(), *(ITEMS.c.id.in_(s) for s in chunked(among))))


def _in_order(
    connection: Connection,
    query: Select[Any],
    among: int | Sequence[str] | None,
    count: int,
) -> list[str]:
    """Return the first items of a query, in the order of the list if there is one."""
    if among is None or isinstance(among, int):
        return list(connection.execute(query.limit(count)).scalars())
    place = {item: number for number, item in enumerate(among)}
    return sorted(connection.execute(query).scalars(), key=place.__getitem__)[:count]
