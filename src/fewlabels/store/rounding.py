"""Rounds: who proposed which items, and why; stored once and never changed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b

from sqlalchemy import Connection, select

from fewlabels.errors import StoreError, UsageError
from fewlabels.store import checksums
from fewlabels.store.chunks import unknown_of
from fewlabels.store.records import Asking, RoundItem, StoredRound, canonical
from fewlabels.store.schema import ITEMS, ROUND_ITEMS, ROUNDS


def candidates_digest(ids: Iterable[str]) -> str:
    """Return a digest of a set of items, whatever their order: 32 hexadecimal digits.

    Example:
        >>> candidates_digest(["b", "a"]) == candidates_digest(["a", "b"])
        True
    """
    digest = blake2b(digest_size=16)
    for item in sorted(ids):
        digest.update(item.encode() + b"\n")
    return digest.hexdigest()


def add_round(connection: Connection, given: StoredRound, now: datetime) -> StoredRound:
    """Store a round inside a writing transaction; see :meth:`Store.add_round`."""
    known = {one.step: one for one in rounds(connection)}
    if given.step in known:
        _check_same(known[given.step], given)
        return known[given.step]
    if given.step != len(known):
        raise UsageError(
            f"The next round is number {len(known)}; got step {given.step}. Rounds are "
            "numbered 0, 1, 2, ... without a gap."
        )
    _check_items(connection, given)
    columns = ("step", "strategy", "options", "seed", "model", "candidates_digest")
    row = {name: getattr(given, name) for name in columns}
    connection.execute(ROUNDS.insert(), row | {"created": now})
    rows = [
        {"round": given.step, "rank": rank, "item": one.item, "role": one.role}
        for rank, one in enumerate(given.items)
    ]
    if rows:
        connection.execute(ROUND_ITEMS.insert(), rows)
    checksums.renew(connection, ROUNDS, ROUND_ITEMS)
    return replace(given, created=now)


def rounds(connection: Connection, after: int = -1) -> tuple[StoredRound, ...]:
    """Return the rounds after a step, in the order of their steps."""
    members: dict[int, list[RoundItem]] = {}
    query = select(ROUND_ITEMS).where(ROUND_ITEMS.c.round > after)
    query = query.order_by(ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
    for row in connection.execute(query):
        members.setdefault(row.round, []).append(RoundItem(row.item, row.role))
    asked = select(ROUNDS).where(ROUNDS.c.step > after).order_by(ROUNDS.c.step)
    rows = connection.execute(asked)
    return tuple(
        StoredRound(**row._mapping, items=tuple(members.get(row.step, ())))
        for row in rows
    )


def asked(
    connection: Connection, items: Sequence[str] | None = None
) -> dict[str, Asking]:
    """Return the latest round that asked about each item.

    Args:
        connection: Of a transaction.
        items: Only about these few; None: about all that were asked about.

    Returns:
        Rounds by item.
    """
    query = select(ROUND_ITEMS.c.item, ROUNDS.c.step, ROUNDS.c.strategy, ROUNDS.c.model)
    query = query.join_from(ROUND_ITEMS, ROUNDS).order_by(ROUNDS.c.step)
    if items is not None:
        query = query.where(ROUND_ITEMS.c.item.in_(items))
    return {item: Asking(*one) for item, *one in connection.execute(query)}


def _check_same(known: StoredRound, given: StoredRound) -> None:
    """Refuse another round of the same step."""
    before = replace(known, created=None, options={})
    after = replace(given, created=None, options={})
    if before != after or canonical(known.options) != canonical(given.options):
        raise StoreError(
            f"Round {given.step} is in the store already ({known.strategy}, "
            f"{len(known.items)} items, seed {known.seed}), and is another than the "
            f"one given ({given.strategy}, {len(given.items)} items, seed "
            f"{given.seed}). Rounds never change; add the next one."
        )


def _check_items(connection: Connection, given: StoredRound) -> None:
    wanted = [one.item for one in given.items]
    if len(set(wanted)) < len(wanted):
        msg = f"Round {given.step} names an item twice; each is asked about once."
        raise UsageError(msg)
    unknown = unknown_of(connection, ITEMS.c.id, wanted)
    if unknown:
        raise StoreError(
            f"{len(unknown)} of {len(wanted)} items of round {given.step} are not in "
            f"the store, the first is '{min(unknown)}'. Index the images first."
        )
