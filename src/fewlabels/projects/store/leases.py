"""Who labels what: leases that several annotators hold at the same time.

An item is handed to an annotator while its answers (:func:`records.num_answers`) and
the others who hold it are fewer than ``overlap``. It never comes back to an annotator
who has spoken about it. A lease ends when its holder answers, releases it, or lets it
expire.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from fewlabels.errors import check_range
from fewlabels.projects.store import records, schema
from fewlabels.projects.store.database import Database, restricted
from fewlabels.projects.store.records import Lease, Leased
from fewlabels.projects.store.schema import ITEMS, LEASES, ROUND_ITEMS, VERDICTS

LEASE_SECONDS = 120.0
"""How long a lease lasts without a heartbeat."""

MOST_LISTED = 10_000
"""Most items that a lease chooses from a list, or hands out."""

MOST_SECONDS = 7 * 24 * 3600
"""Longest time that a lease can last without a heartbeat."""


class Leases(Database):
    """Methods of a store about leases."""

    def lease(
        self,
        annotator: str,
        count: int,
        *,
        overlap: int = 1,
        ttl: float = LEASE_SECONDS,
        among: Sequence[str] | None = None,
        asked: bool = False,
        token: str | None = None,
    ) -> Leased:
        """Lease items to an annotator, so that none goes to more people than wanted.

        Args:
            annotator: Who labels.
            count: How many items, at most.
            overlap: How many annotators label each item.
            ttl: Seconds until the lease expires; :meth:`heartbeat` prolongs it.
            among: Ids of items, or None for all by path.
            asked: Only items of the last round, after those of earlier rounds that its
                option ``since`` keeps open, in the order of asking.
            token: Token of an earlier lease of the same tab or process, whose items
                come first. Items that the annotator holds under another token are not
                returned, so that two tabs never show the same item.

        Returns:
            The leases, and how many more items others hold.
        """
        check_range("count", count, at_least=0, at_most=MOST_LISTED)
        check_range("overlap", overlap, at_least=1)
        check_range("ttl", ttl, above=0, at_most=MOST_SECONDS)
        token = token or records.new_uuid()
        with self.write_connection() as connection:
            now = self.now(connection)
            expires = now + timedelta(seconds=ttl)
            terms: dict[str, Any] = {"granted": now, "expires": expires}
            connection.execute(sa.delete(LEASES).where(LEASES.c.expires <= now))
            # If the clock was set back, leases begin now and last as long as before.
            early = sa.select(LEASES).where(LEASES.c.granted > now)
            for row in connection.execute(early).all():
                same = LEASES.c.item == row.item, LEASES.c.annotator == row.annotator
                times = {"granted": now, "expires": now + (row.expires - row.granted)}
                connection.execute(sa.update(LEASES).where(*same).values(times))

            candidates = _asked(connection) if asked else sa.select(ITEMS.c.id)
            is_listed = sa.true() if among is None else ITEMS.c.id.in_(among)
            candidates = candidates.where(ITEMS.c.state == schema.PRESENT, is_listed)
            candidates = candidates.order_by(ITEMS.c.path)
            mine = LEASES.c.item == ITEMS.c.id, LEASES.c.annotator == annotator
            query = candidates.where(sa.exists().where(*mine, LEASES.c.token == token))
            held = connection.execute(query.limit(count)).scalars().all()
            own = LEASES.c.annotator == annotator, LEASES.c.item.in_(held)
            connection.execute(sa.update(LEASES).where(*own).values(terms))

            on_item = VERDICTS.c.item == ITEMS.c.id
            has_spoken = sa.exists().where(on_item, VERDICTS.c.annotator == annotator)
            worth = {str(k): records.num_answers(k, overlap) for k in records.VERDICTS}
            answers = sa.func.sum(sa.case(worth, value=VERDICTS.c.kind))
            given = sa.select(sa.func.coalesce(answers, 0)).where(on_item)
            holding = sa.select(sa.func.count()).where(LEASES.c.item == ITEMS.c.id)
            num_given, num_holding = given.scalar_subquery(), holding.scalar_subquery()
            new: Sequence[str] = ()
            if len(held) < count:
                is_wanted = num_given + num_holding < overlap  # nobody does both
                is_mine = sa.exists().where(*mine)
                query = candidates.where(~has_spoken, ~is_mine, is_wanted)
                query = query.limit(count - len(held))
                new = connection.execute(query).scalars().all()
            if new:
                terms |= {"annotator": annotator, "token": token}
                rows = [terms | {"item": item} for item in new]
                connection.execute(LEASES.insert(), rows)

            num_held, frees_at = 0, None
            if len(held) + len(new) < count:
                waiting = candidates.where(~has_spoken, num_given < overlap).subquery()
                is_waiting = LEASES.c.item.in_(sa.select(waiting.c.id))
                num_items = sa.func.count(LEASES.c.item.distinct())
                held_elsewhere = sa.select(num_items, sa.func.min(LEASES.c.expires))
                others = held_elsewhere.where(is_waiting, LEASES.c.token != token)
                num_held, frees_at = connection.execute(others).one()
        leases = [Lease(item, annotator, token, expires) for item in (*held, *new)]
        return Leased(tuple(leases), token, num_held, frees_at)

    def heartbeat(self, token: str, *, ttl: float = LEASE_SECONDS) -> tuple[Lease, ...]:
        """Prolong the leases of a token and return those it still holds."""
        check_range("ttl", ttl, above=0, at_most=MOST_SECONDS)
        with self.write_connection() as connection:
            now = self.now(connection)
            mine = LEASES.c.token == token, LEASES.c.expires > now
            terms = {"granted": now, "expires": now + timedelta(seconds=ttl)}
            connection.execute(sa.update(LEASES).where(*mine).values(terms))
            query = sa.select(LEASES).where(*mine).order_by(LEASES.c.item)
            rows = connection.execute(query)
            return tuple(Lease(r.item, r.annotator, r.token, r.expires) for r in rows)

    def holders(self, items: Iterable[str]) -> dict[str, list[str]]:
        """Return the annotators who hold items, by item."""
        held: dict[str, list[str]] = defaultdict(list)
        with self.read_connection() as connection:
            query = sa.select(LEASES).where(LEASES.c.expires > self.now(connection))
            for part in restricted(query, LEASES.c.item, items):
                for row in connection.execute(part):
                    held[row.item].append(row.annotator)
        return held

    def release(self, token: str) -> int:
        """End the leases of a token; return how many."""
        query = sa.delete(LEASES).where(LEASES.c.token == token)
        with self.write_connection() as connection:
            return connection.execute(query).rowcount


def _asked(connection: sa.Connection) -> sa.Select[Any]:
    """Select the items of the last round and of those that it keeps open."""
    # A round that was chosen ahead names in its options the first one still open.
    rounds = sa.select(schema.ROUNDS).order_by(schema.ROUNDS.c.step.desc())
    last = connection.execute(rounds.limit(1)).first()
    since = 0 if last is None else int(last.options.get("since", last.step))
    earlier = ROUND_ITEMS.alias()  # an item may be in several of them
    is_repeated = sa.exists().where(
        earlier.c.item == ROUND_ITEMS.c.item,
        earlier.c.round >= since,
        earlier.c.round < ROUND_ITEMS.c.round,
    )
    query = sa.select(ITEMS.c.id).join(ROUND_ITEMS, ROUND_ITEMS.c.item == ITEMS.c.id)
    query = query.where(ROUND_ITEMS.c.round >= since, ~is_repeated)
    return query.order_by(ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
