"""Images, and the rounds in which strategies asked about them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from fewlabels.errors import StoreError, UsageError
from fewlabels.projects.store import database, records, schema
from fewlabels.projects.store.database import Database, chunked, streamed
from fewlabels.projects.store.records import Item, ListedFile, RoundItem, StoredRound
from fewlabels.projects.store.schema import ITEMS, PRESENT, ROUND_ITEMS, ROUNDS


class Items(Database):
    """Methods of a store about images and rounds."""

    def index(self, files: Iterable[ListedFile]) -> None:
        """Update the items from a complete list of the image files.

        In one transaction the list is compared with the items:

        - same path, same content: the same item;
        - same content, new path, and the old path gone: the item has moved and keeps
          its id, its labels and its group; labeled items are found again first;
        - any other file is a new item, also if its path is an old one;
        - an item without a file is missing. Its labels stay, and count again when the
          file comes back.

        Args:
            files: Every file there is now.
        """
        given = list(files)
        listed = {file.path: file for file in given}
        if len(listed) < len(given):
            raise UsageError("A path is listed twice; list each file once.")
        with self.write_connection() as connection:
            known = connection.execute(sa.select(ITEMS)).mappings()
            rows = [dict(row) for row in known]
            ids = {row["id"] for row in rows}
            others = {(row["path"], row["digest"]): row for row in rows}
            same = {p: others.pop((p, f.digest), None) for p, f in listed.items()}
            row: dict[str, Any] | None
            named = sa.select(schema.EVENTS.c.item).distinct()
            labeled = set(connection.execute(named).scalars())
            gone: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for old in sorted(others.values(), key=lambda row: row["id"], reverse=True):
                gone[old["digest"]].append(old)
            for some in gone.values():  # the last one is taken first
                some.sort(key=lambda row: (row["id"] in labeled, row["state"]))
            new: list[dict[str, Any]] = []
            changed: list[dict[str, Any]] = []
            for path, file in sorted(listed.items()):
                row = same[path]
                if row is None and gone.get(file.digest):  # it has moved
                    row = gone[file.digest].pop()
                before = row or {"duplicates": file.digest, "details": {}}
                details = before["details"] if file.details is None else file.details
                now = before | {
                    "path": path,
                    "size": file.size,
                    "mtime_ns": file.mtime_ns,
                    "state": PRESENT,
                    "duplicates": file.group or before["duplicates"],
                    "details": details,
                }
                if row is None:
                    name, number = f"{path}@{file.digest}", 2
                    while name in ids:  # of a file that was here and moved
                        name, number = f"{path}@{file.digest}#{number}", number + 1
                    ids.add(name)
                    new.append(now | {"id": name, "digest": file.digest})
                elif now != row:
                    changed.append(now)
            lost = [row for some in gone.values() for row in some]
            changed += [
                r | {"state": schema.MISSING} for r in lost if r["state"] == PRESENT
            ]
            if changed:
                is_item = ITEMS.c.id == sa.bindparam("item")
                rows = [row | {"item": row["id"]} for row in changed]
                connection.execute(sa.update(ITEMS).where(is_item), rows)
            if new:
                connection.execute(ITEMS.insert(), new)
                database.analyze(connection, ITEMS)
            if new or changed:
                schema.renew_checksums(connection, ITEMS)

    def items(self, *, ids: Sequence[str] | None = None) -> Iterator[Item]:
        """Yield all items whose file is there, by path, or those with some ids."""
        query = sa.select(ITEMS).where(ITEMS.c.state == PRESENT)
        query = query.order_by(ITEMS.c.path, ITEMS.c.id)
        parts = [query]
        if ids is not None:
            parts = [query.where(ITEMS.c.id.in_(some)) for some in chunked(ids)]
        with self.read_connection() as connection:
            for row in (row for part in parts for row in streamed(connection, part)):
                columns = dict(row._mapping)
                del columns["state"]
                yield Item(group=columns.pop("duplicates"), **columns)

    def paths(self) -> list[tuple[str, str]]:
        """Return id and path of all items whose file is there, by path."""
        query = sa.select(ITEMS.c.id, ITEMS.c.path).where(ITEMS.c.state == PRESENT)
        with self.read_connection() as connection:
            rows = connection.execute(query.order_by(ITEMS.c.path, ITEMS.c.id))
            return [(row.id, row.path) for row in rows]

    @property
    def items_checksum(self) -> str:
        """A checksum over all items, which changes with any of them."""
        with self.read_connection() as connection:
            return schema.written_checksums(connection)[ITEMS.name]

    def add_round(self, given: StoredRound) -> StoredRound:
        """Store a round for good.

        Args:
            given: The round; its ``created`` is filled in here.

        Returns:
            The round as stored. The same one again changes nothing; another one of the
            same step is refused.
        """
        with self.writing() as store, store.write_connection() as connection:
            rounds = {stored.step: stored for stored in store.rounds()}
            known = rounds.get(given.step)
            if known is not None:
                same = replace(given, created=known.created, options=known.options)
                texts = {records.canonical(r.options) for r in (known, given)}
                if known != same or len(texts) > 1:
                    raise StoreError(f"Round {given.step} is stored already.")
                return known
            if given.step != len(rounds):
                raise UsageError(f"The next round is {len(rounds)}; got {given.step}.")
            asked = [member.item for member in given.items]
            if len(set(asked)) < len(asked):
                raise UsageError(f"Round {given.step} names an item twice.")
            database.check_stored(connection, ITEMS.c.id, asked, "item")
            created = replace(given, created=self.now(connection))
            row = {column.name: getattr(created, column.name) for column in ROUNDS.c}
            connection.execute(ROUNDS.insert(), row)
            rows = [
                {"round": given.step, "rank": rank, **vars(member)}
                for rank, member in enumerate(given.items)
            ]
            if rows:
                connection.execute(ROUND_ITEMS.insert(), rows)
            schema.renew_checksums(connection, ROUNDS, ROUND_ITEMS)
            return created

    def rounds(self, *, after: int = -1) -> tuple[StoredRound, ...]:
        """Return all rounds, or those after a step, in the order of their steps."""
        members: dict[int, list[RoundItem]] = {}
        asked = sa.select(ROUND_ITEMS).where(ROUND_ITEMS.c.round > after)
        asked = asked.order_by(ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
        query = sa.select(ROUNDS).where(ROUNDS.c.step > after).order_by(ROUNDS.c.step)
        with self.read_connection() as connection:
            for row in connection.execute(asked):
                members.setdefault(row.round, []).append(RoundItem(row.item, row.role))
            return tuple(
                StoredRound(**row._mapping, items=tuple(members.get(row.step, ())))
                for row in connection.execute(query)
            )

    def audit_items(self) -> frozenset[str]:
        """Return the ids of all items that were drawn to measure on."""
        query = sa.select(ROUND_ITEMS.c.item).where(ROUND_ITEMS.c.role == "audit")
        with self.read_connection() as connection:
            return frozenset(connection.execute(query).scalars())

    def asked(self, items: Sequence[str] | None = None) -> dict[str, records.Asking]:
        """Return the latest round that asked about each item, or about some items."""
        columns = ROUND_ITEMS.c.item, ROUNDS.c.step, ROUNDS.c.strategy, ROUNDS.c.model
        query = sa.select(*columns).join_from(ROUND_ITEMS, ROUNDS)
        query = query.order_by(ROUNDS.c.step)
        parts = [query]
        if items is not None:
            parts = [query.where(ROUND_ITEMS.c.item.in_(s)) for s in chunked(items)]
        with self.read_connection() as connection:
            return {
                item: records.Asking(*asking)
                for part in parts
                for item, *asking in connection.execute(part)
            }


def candidates_digest(ids: Iterable[str]) -> str:
    """Return a digest of a set of items in any order: 32 hexadecimal digits.

    Example:
        >>> candidates_digest(["b", "a"]) == candidates_digest(["a", "b"])
        True
    """
    digest = blake2b(digest_size=16)
    for item in sorted(ids):
        digest.update(item.encode() + b"\n")
    return digest.hexdigest()
