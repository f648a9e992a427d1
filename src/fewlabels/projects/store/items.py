"""Images, and the rounds in which strategies asked about them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fewlabels.errors import StoreError, UsageError
from fewlabels.projects.store import database, records, schema
from fewlabels.projects.store.database import Database, chunked, streamed
from fewlabels.projects.store.records import Item, ListedFile, RoundItem, StoredRound
from fewlabels.projects.store.schema import ITEMS, PRESENT, ROUND_ITEMS, ROUNDS

FILES_AT_ONCE = 2000
"""Files in memory while they are listed."""

_LISTED = sa.Table(
    "listed_files",
    sa.MetaData(),
    sa.Column("path", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("duplicates", sa.Text),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("mtime_ns", sa.BigInteger, nullable=False),
    sa.Column("details", schema.Json),
    sa.Column("item", sa.Text, index=True),
    prefixes=["TEMPORARY"],
)
_IS_NEW = _LISTED.c.item.is_(None)
_IS_LISTED = sa.exists().where(_LISTED.c.item == ITEMS.c.id)
_IS_SAME = (_LISTED.c.path == ITEMS.c.path) & (_LISTED.c.digest == ITEMS.c.digest)
_KNOWN_ID = sa.select(ITEMS.c.id).where(_IS_SAME).scalar_subquery()


class Items(Database):
    """Methods of a store about images and rounds."""

    def index(self, files: Iterable[ListedFile]) -> None:
        """Update the items from a complete list of the image files.

        The list goes to a temporary table first, some thousand files at a time, while
        others go on labeling. Then one short transaction compares it with the items:

        - same path, same content: the same item;
        - same content, new path, and the old path gone: the item has moved and keeps
          its id, its labels and its group;
        - any other file is a new item, also if its path is an old one;
        - an item without a file is missing. Its labels stay, and count again when the
          file comes back.

        Args:
            files: Every file there is now.
        """
        with database.explained(self.place), self.engine.connect() as connection:
            with connection.begin():
                _LISTED.drop(connection, checkfirst=True)
                _LISTED.create(connection)
            for some in chunked(files, FILES_AT_ONCE):
                rows = [vars(file) | {"duplicates": file.group} for file in some]
                try:
                    with connection.begin():
                        connection.execute(_LISTED.insert(), rows)
                except IntegrityError as error:
                    raise UsageError(
                        f"A path after '{some[0].path}' is listed twice; list it once."
                    ) from error
            with self.transaction(connection):
                connection.execute(sa.update(_LISTED).values(item=_KNOWN_ID))
                _update_known(connection)
                _move(connection)
                num_new = _add(connection)
                is_lost = ITEMS.c.state == PRESENT, ~_IS_LISTED
                lost = sa.update(ITEMS).where(*is_lost).values(state=schema.MISSING)
                connection.execute(lost)
                if num_new:
                    database.analyze(connection, ITEMS)
                schema.renew_checksums(connection, ITEMS)
            with connection.begin():
                _LISTED.drop(connection)

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
                    raise StoreError(
                        f"Round {given.step} is stored already ({known.strategy}, "
                        f"{len(known.items)} items, seed {known.seed}); add the next."
                    )
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

    def asked(self, items: Sequence[str] | None = None) -> dict[str, records.Asking]:
        """Return the latest round that asked about each item, or about some items."""
        columns = ROUND_ITEMS.c.item, ROUNDS.c.step, ROUNDS.c.strategy, ROUNDS.c.model
        query = sa.select(*columns).join_from(ROUND_ITEMS, ROUNDS)
        if items is not None:
            query = query.where(ROUND_ITEMS.c.item.in_(items))
        with self.read_connection() as connection:
            rows = connection.execute(query.order_by(ROUNDS.c.step))
            return {item: records.Asking(*asking) for item, *asking in rows}


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


# -------------------------------------------------------------------------- indexing


def _update_known(connection: sa.Connection) -> None:
    """Update items whose file is listed."""
    values: dict[str, Any] = {
        "size": _LISTED.c.size,
        "mtime_ns": _LISTED.c.mtime_ns,
        "state": sa.literal(PRESENT),
        "duplicates": sa.func.coalesce(_LISTED.c.duplicates, ITEMS.c.duplicates),
        "details": sa.func.coalesce(_LISTED.c.details, ITEMS.c.details),
    }
    differs = (new.is_distinct_from(ITEMS.c[name]) for name, new in values.items())
    changed = sa.update(ITEMS).where(_LISTED.c.item == ITEMS.c.id, sa.or_(*differs))
    connection.execute(changed.values(values))


def _move(connection: sa.Connection) -> None:
    """Pair new paths with items that are gone, by content; labeled items first."""
    is_labeled = sa.exists().where(schema.EVENTS.c.item == ITEMS.c.id)
    order = is_labeled.desc(), ITEMS.c.state.desc(), ITEMS.c.id
    new_contents = sa.select(_LISTED.c.digest).where(_IS_NEW)
    number = sa.func.row_number()
    rank = number.over(partition_by=ITEMS.c.digest, order_by=order).label("rank")
    is_gone = ITEMS.c.digest.in_(new_contents), ~_IS_LISTED
    gone = sa.select(ITEMS.c.id, ITEMS.c.digest, rank).where(*is_gone).subquery()
    by_path = number.over(partition_by=_LISTED.c.digest, order_by=_LISTED.c.path)
    columns = _LISTED.c.path, _LISTED.c.digest, by_path.label("rank")
    new = sa.select(*columns).where(_IS_NEW).subquery()
    pairs = sa.select(gone.c.id.label("item_id"), new.c.path.label("new_path"))
    pairs = pairs.where(gone.c.digest == new.c.digest, gone.c.rank == new.c.rank)
    rows = [dict(row) for row in connection.execute(pairs).mappings()]
    if rows:
        item = sa.bindparam("item_id", type_=sa.Text)
        path = sa.bindparam("new_path", type_=sa.Text)
        listed = sa.update(_LISTED).where(_LISTED.c.path == path).values(item=item)
        connection.execute(listed, rows)
        moved = sa.update(ITEMS).where(ITEMS.c.id == item).values(path=path)
        connection.execute(moved, rows)
        _update_known(connection)


def _add(connection: sa.Connection) -> int:
    """Add items for all other files and count them; an id in use gets a number."""
    num_new = _count(connection, _LISTED, _IS_NEW)
    name = (_LISTED.c.path + "@" + _LISTED.c.digest).label("id")
    empty = sa.literal({}, schema.Json)
    new = sa.select(
        name,
        *(_LISTED.c.path, _LISTED.c.digest, _LISTED.c.size, _LISTED.c.mtime_ns),
        sa.func.coalesce(_LISTED.c.details, empty).label("details"),
        sa.func.coalesce(_LISTED.c.duplicates, _LISTED.c.digest).label("duplicates"),
        sa.literal(PRESENT).label("state"),
    ).where(_IS_NEW)
    columns = list(new.selected_columns.keys())
    is_free = ~sa.exists().where(ITEMS.c.id == name.element)
    connection.execute(ITEMS.insert().from_select(columns, new.where(is_free)))
    left = new.where(~sa.exists().where(_IS_SAME))
    for row in connection.execute(left).mappings().all():
        number = 2
        while _count(connection, ITEMS, ITEMS.c.id == f"{row['id']}#{number}"):
            number += 1
        connection.execute(ITEMS.insert(), {**row, "id": f"{row['id']}#{number}"})
    connection.execute(sa.update(_LISTED).where(_IS_NEW).values(item=_KNOWN_ID))
    return num_new


def _count(
    connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]
) -> int:
    query = sa.select(sa.func.count()).select_from(table).where(*conditions)
    return connection.execute(query).scalar_one()
