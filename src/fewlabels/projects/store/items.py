"""Images and rounds: what there is to label, and who proposed which items, and why."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Table,
    Text,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from fewlabels.errors import StoreError, UsageError
from fewlabels.projects.store.database import (
    Database,
    chunked,
    count_anew,
    explained,
    streamed,
    unknown_of,
)
from fewlabels.projects.store.records import (
    Asking,
    Indexed,
    Item,
    ListedFile,
    RoundItem,
    StoredRound,
    canonical,
)
from fewlabels.projects.store.schema import (
    EVENTS,
    ITEMS,
    MISSING,
    PRESENT,
    ROUND_ITEMS,
    ROUNDS,
    Json,
    renew_checksums,
    written_checksums,
)

FILES_AT_ONCE = 2000
"""Files in memory while they are listed."""

_SEEN = Table(
    "seen_files",
    MetaData(),
    Column("path", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("duplicates", Text),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("details", Json),
    Column("item", Text, index=True),
    prefixes=["TEMPORARY"],
)
_IS_NEW = _SEEN.c.item.is_(None)
_IS_SEEN = exists().where(_SEEN.c.item == ITEMS.c.id)
_IS_SAME = (_SEEN.c.path == ITEMS.c.path) & (_SEEN.c.digest == ITEMS.c.digest)
_KNOWN_ID = select(ITEMS.c.id).where(_IS_SAME).scalar_subquery()


class Items(Database):
    """Verbs about images and rounds."""

    def index(self, found: Iterable[ListedFile]) -> Indexed:
        """Take in a complete list of the image files.

        It goes to a temporary table first, some thousand files at a time, while others
        go on labeling. Then one short transaction compares it with what is known:

        - same path, same content: the same item;
        - same content, new path, and the old path gone: the item has moved and keeps
          its id, its labels and its group;
        - anything else that was found is a new item, also where the path is an old one;
        - what was not found is missing. Its labels stay, and count again when it comes
          back.

        Args:
            found: Every file there is now.

        Returns:
            What changed.
        """
        with explained(self.place), self.engine.connect() as connection:
            with connection.begin():
                _SEEN.drop(connection, checkfirst=True)
                _SEEN.create(connection)
            for some in chunked(found, FILES_AT_ONCE):
                _take_in(connection, some)
            with self.transaction(connection):
                connection.execute(update(_SEEN).values(item=_KNOWN_ID))
                num_back = _update_known(connection)
                num_moved = _move(connection)
                num_new = _add(connection)
                is_lost = ITEMS.c.state == PRESENT, ~_IS_SEEN
                lost = update(ITEMS).where(*is_lost).values(state=MISSING)
                num_missing = connection.execute(lost).rowcount
                num_present = _count(connection, _SEEN)
                if num_new:
                    count_anew(connection, ITEMS)
                renew_checksums(connection, ITEMS)
            with connection.begin():
                _SEEN.drop(connection)
        return Indexed(num_new, num_moved, num_back, num_missing, num_present)

    def items(
        self, *, with_missing: bool = False, ids: Sequence[str] | None = None
    ) -> Iterator[Item]:
        """Yield all items by path, or these few; also missing ones, if wanted."""
        query = select(ITEMS).order_by(ITEMS.c.path, ITEMS.c.id)
        if not with_missing:
            query = query.where(ITEMS.c.state == PRESENT)
        parts = [query]
        if ids is not None:
            parts = [query.where(ITEMS.c.id.in_(some)) for some in chunked(ids)]
        with self.read_connection() as connection:
            for part in parts:
                for row in streamed(connection, part):
                    yield Item(
                        id=row.id,
                        path=row.path,
                        digest=row.digest,
                        group=row.duplicates,
                        size=row.size,
                        mtime_ns=row.mtime_ns,
                        is_present=row.state == PRESENT,
                        details=row.details,
                    )

    @property
    def items_checksum(self) -> str:
        """A checksum over all items: another one when any of them has changed."""
        with self.read_connection() as connection:
            return written_checksums(connection)[ITEMS.name]

    def add_round(self, given: StoredRound) -> StoredRound:
        """Store a round for good.

        Args:
            given: The round; its ``created`` is filled in here.

        Returns:
            The round as stored. The same one again changes nothing; another one of the
            same step is refused.
        """
        with self.writing() as store, store.write_connection() as connection:
            known = {stored.step: stored for stored in store.rounds()}
            if given.step in known:
                _check_same(known[given.step], given)
                return known[given.step]
            if given.step != len(known):
                raise UsageError(
                    f"The next round is number {len(known)}; got step {given.step}. "
                    "Rounds are numbered 0, 1, 2, ... without a gap."
                )
            asked = [member.item for member in given.items]
            if len(set(asked)) < len(asked):
                msg = f"Round {given.step} names an item twice; each is asked once."
                raise UsageError(msg)
            unknown = unknown_of(connection, ITEMS.c.id, asked)
            if unknown:
                raise StoreError(
                    f"{len(unknown)} of {len(asked)} items of round {given.step} are "
                    f"not in the store, the first is '{min(unknown)}'. Index the "
                    "images first."
                )
            created = replace(given, created=self.now(connection))
            row = {column.name: getattr(created, column.name) for column in ROUNDS.c}
            connection.execute(ROUNDS.insert(), row)
            rows = [
                {"round": given.step, "rank": rank, "item": one.item, "role": one.role}
                for rank, one in enumerate(given.items)
            ]
            if rows:
                connection.execute(ROUND_ITEMS.insert(), rows)
            renew_checksums(connection, ROUNDS, ROUND_ITEMS)
            return created

    def rounds(self, *, after: int = -1) -> tuple[StoredRound, ...]:
        """Return all rounds, or those after a step, in the order of their steps."""
        members: dict[int, list[RoundItem]] = {}
        asked = select(ROUND_ITEMS).where(ROUND_ITEMS.c.round > after)
        asked = asked.order_by(ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
        query = select(ROUNDS).where(ROUNDS.c.step > after).order_by(ROUNDS.c.step)
        with self.read_connection() as connection:
            for row in connection.execute(asked):
                members.setdefault(row.round, []).append(RoundItem(row.item, row.role))
            return tuple(
                StoredRound(**row._mapping, items=tuple(members.get(row.step, ())))
                for row in connection.execute(query)
            )

    def asked(self, items: Sequence[str] | None = None) -> dict[str, Asking]:
        """Return the latest round that asked about each item; None: about any."""
        query = select(
            ROUND_ITEMS.c.item, ROUNDS.c.step, ROUNDS.c.strategy, ROUNDS.c.model
        )
        query = query.join_from(ROUND_ITEMS, ROUNDS).order_by(ROUNDS.c.step)
        if items is not None:
            query = query.where(ROUND_ITEMS.c.item.in_(items))
        with self.read_connection() as connection:
            rows = connection.execute(query)
            return {item: Asking(*asking) for item, *asking in rows}


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


# -------------------------------------------------------------------------- indexing


def _take_in(connection: Connection, listed: Sequence[ListedFile]) -> None:
    """Put listed files into the temporary table."""
    rows = [
        {
            "path": file.path,
            "digest": file.digest,
            "duplicates": file.group,
            "size": file.size,
            "mtime_ns": file.mtime_ns,
            "details": file.details,
        }
        for file in listed
    ]
    try:
        with connection.begin():
            connection.execute(_SEEN.insert(), rows)
    except IntegrityError as error:
        raise UsageError(
            f"A path was listed twice, somewhere from '{listed[0].path}' to "
            f"'{listed[-1].path}'; an item has one path. Nothing was changed."
        ) from error


def _update_known(connection: Connection) -> int:
    """Write what changed of files that are known; return how many came back."""
    num_back = _count(connection, ITEMS, _IS_SEEN, ITEMS.c.state == MISSING)
    values: dict[str, Any] = {
        "size": _SEEN.c.size,
        "mtime_ns": _SEEN.c.mtime_ns,
        "state": literal(PRESENT),
        "duplicates": func.coalesce(_SEEN.c.duplicates, ITEMS.c.duplicates),
        "details": func.coalesce(_SEEN.c.details, ITEMS.c.details),
    }
    differs = (new.is_distinct_from(ITEMS.c[name]) for name, new in values.items())
    changed = update(ITEMS).where(_SEEN.c.item == ITEMS.c.id, or_(*differs))
    connection.execute(changed.values(values))
    return num_back


def _move(connection: Connection) -> int:
    """Pair new paths with items that are gone, by content; labeled items first."""
    is_labeled = exists().where(EVENTS.c.item == ITEMS.c.id)
    order = is_labeled.desc(), ITEMS.c.state.desc(), ITEMS.c.id
    new_contents = select(_SEEN.c.digest).where(_IS_NEW)
    gone = (
        select(ITEMS.c.id, ITEMS.c.digest, _rank(ITEMS.c.digest, *order))
        .where(ITEMS.c.digest.in_(new_contents), ~_IS_SEEN)
        .subquery()
    )
    new_paths = (
        select(_SEEN.c.path, _SEEN.c.digest, _rank(_SEEN.c.digest, _SEEN.c.path))
        .where(_IS_NEW)
        .subquery()
    )
    pairs = select(gone.c.id.label("item_id"), new_paths.c.path.label("new_path"))
    pairs = pairs.where(
        gone.c.digest == new_paths.c.digest, gone.c.place == new_paths.c.place
    )
    rows = [dict(row) for row in connection.execute(pairs).mappings()]
    if rows:
        item, path = bindparam("item_id", type_=Text), bindparam("new_path", type_=Text)
        seen = update(_SEEN).where(_SEEN.c.path == path).values(item=item)
        connection.execute(seen, rows)
        moved = update(ITEMS).where(ITEMS.c.id == item).values(path=path)
        connection.execute(moved, rows)
        _update_known(connection)
    return len(rows)


def _add(connection: Connection) -> int:
    """Make items of all that is left; an id that is taken gets a number."""
    num_new = _count(connection, _SEEN, _IS_NEW)
    name = (_SEEN.c.path + "@" + _SEEN.c.digest).label("id")
    fresh = select(
        name,
        _SEEN.c.path,
        _SEEN.c.digest,
        _SEEN.c.size,
        _SEEN.c.mtime_ns,
        func.coalesce(_SEEN.c.details, literal({}, Json)).label("details"),
        func.coalesce(_SEEN.c.duplicates, _SEEN.c.digest).label("duplicates"),
        literal(PRESENT).label("state"),
    ).where(_IS_NEW)
    columns = list(fresh.selected_columns.keys())
    is_free = ~exists().where(ITEMS.c.id == name.element)
    connection.execute(ITEMS.insert().from_select(columns, fresh.where(is_free)))
    left = fresh.where(~exists().where(_IS_SAME))
    for row in connection.execute(left).mappings().all():
        number = 2
        while _count(connection, ITEMS, ITEMS.c.id == f"{row['id']}#{number}"):
            number += 1
        connection.execute(ITEMS.insert(), {**row, "id": f"{row['id']}#{number}"})
    connection.execute(update(_SEEN).where(_IS_NEW).values(item=_KNOWN_ID))
    return num_new


def _count(
    connection: Connection, table: Table, *conditions: ColumnElement[bool]
) -> int:
    query = select(func.count()).select_from(table).where(*conditions)
    return connection.execute(query).scalar_one()


def _rank(digest: ColumnElement[str], *order: Any) -> Any:
    return func.row_number().over(partition_by=digest, order_by=order).label("place")
