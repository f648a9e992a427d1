"""The list of all images, brought up to date in one stroke.

What was found goes to a temporary table first, some thousand files at a time, while
others go on labeling. Then one short transaction compares it with what is known:

- same path, same content: the same item;
- same content, new path, and the old path gone: the item has moved and keeps its id,
  its labels and its group;
- anything else that was found is a new item, also where the path is an old one;
- what was not found is missing. Its labels stay, and count again when it comes back.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
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

from fewlabels.errors import UsageError
from fewlabels.store import checksums
from fewlabels.store.chunks import chunked
from fewlabels.store.database import Database, count_anew
from fewlabels.store.reading import streamed
from fewlabels.store.records import Indexed, Item, ListedFile
from fewlabels.store.schema import EVENTS, ITEMS, MISSING, PRESENT, Json

FILES_AT_ONCE = 2000
"""Files in memory while they are listed."""

_KEPT = ("size", "mtime_ns")

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


def index(database: Database, found: Iterable[ListedFile]) -> Indexed:
    """Return what changed with a complete list of the files.

    The list is read as it comes, and never held as a whole.
    """
    with database.engine.connect() as connection:
        with connection.begin():
            _SEEN.drop(connection, checkfirst=True)
            _SEEN.create(connection)
        for some in chunked(found, FILES_AT_ONCE):
            _take_in(connection, some)
        with database.transaction(connection):
            counts = _merge(connection)
            checksums.renew(connection, ITEMS)
        with connection.begin():
            _SEEN.drop(connection)
    return counts


def items(
    connection: Connection, *, with_missing: bool, ids: Sequence[str] | None = None
) -> Iterator[Item]:
    """Yield all items by path, or a few by their ids.

    On demand also those whose file is not there any more.

    Yields:
        An item.
    """
    query = select(ITEMS).order_by(ITEMS.c.path, ITEMS.c.id)
    if not with_missing:
        query = query.where(ITEMS.c.state == PRESENT)
    parts = [query]
    if ids is not None:
        parts = [query.where(ITEMS.c.id.in_(some)) for some in chunked(ids)]
    for row in chain.from_iterable(streamed(connection, part) for part in parts):
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


def _take_in(connection: Connection, some: Iterable[ListedFile]) -> None:
    rows = [
        {
            "path": one.path,
            "digest": one.digest,
            "duplicates": one.group,
            "size": one.size,
            "mtime_ns": one.mtime_ns,
            "details": one.details,
        }
        for one in some
    ]
    try:
        with connection.begin():
            connection.execute(_SEEN.insert(), rows)
    except IntegrityError as error:
        raise UsageError(
            f"A path was listed twice, somewhere from '{rows[0]['path']}' to "
            f"'{rows[-1]['path']}'; an item has one path. Nothing was changed."
        ) from error


def _merge(connection: Connection) -> Indexed:
    same = (_SEEN.c.path == ITEMS.c.path) & (_SEEN.c.digest == ITEMS.c.digest)
    known = select(ITEMS.c.id).where(same).scalar_subquery()
    connection.execute(update(_SEEN).values(item=known))
    num_back = _update_seen(connection)
    num_moved = _move(connection)
    num_new = _add(connection)
    lost = connection.execute(
        update(ITEMS)
        .where(ITEMS.c.state == PRESENT, ~exists().where(_SEEN.c.item == ITEMS.c.id))
        .values(state=MISSING)
    )
    if num_new:
        count_anew(connection, ITEMS)
    present = connection.execute(select(func.count()).select_from(_SEEN)).scalar_one()
    return Indexed(num_new, num_moved, num_back, lost.rowcount, present)


def _update_seen(connection: Connection) -> int:
    """Write what changed of files that are where they were; count those come back."""
    back = exists().where(_SEEN.c.item == ITEMS.c.id) & (ITEMS.c.state == MISSING)
    query = select(func.count()).select_from(ITEMS).where(back)
    num_back = connection.execute(query).scalar_one()
    differs = [_SEEN.c[name].is_distinct_from(ITEMS.c[name]) for name in _KEPT]
    differs.append(ITEMS.c.state == MISSING)
    differs.append(_group(ITEMS.c.duplicates).is_distinct_from(ITEMS.c.duplicates))
    details = func.coalesce(_SEEN.c.details, ITEMS.c.details)
    differs.append(details.is_distinct_from(ITEMS.c.details))
    values: dict[str, Any] = {name: _SEEN.c[name] for name in _KEPT}
    values |= {"state": PRESENT, "duplicates": _group(ITEMS.c.duplicates)}
    values["details"] = details
    connection.execute(
        update(ITEMS).where(_SEEN.c.item == ITEMS.c.id, or_(*differs)).values(values)
    )
    return int(num_back)


def _move(connection: Connection) -> int:
    """Pair new paths with items that are gone, by content; labeled items first."""
    is_labeled = exists().where(EVENTS.c.item == ITEMS.c.id)
    gone = (
        select(
            ITEMS.c.id,
            ITEMS.c.digest,
            _rank(ITEMS.c.digest, is_labeled.desc(), ITEMS.c.state.desc(), ITEMS.c.id),
        )
        .where(
            ITEMS.c.digest.in_(select(_SEEN.c.digest).where(_SEEN.c.item.is_(None))),
            ~exists().where(_SEEN.c.item == ITEMS.c.id),
        )
        .subquery()
    )
    fresh = (
        select(_SEEN.c.path, _SEEN.c.digest, _rank(_SEEN.c.digest, _SEEN.c.path))
        .where(_SEEN.c.item.is_(None))
        .subquery()
    )
    pairs = connection.execute(
        select(gone.c.id, fresh.c.path).where(
            gone.c.digest == fresh.c.digest, gone.c.place == fresh.c.place
        )
    ).all()
    if pairs:
        rows = [{"item_id": item, "new_path": path} for item, path in pairs]
        is_item, is_path = (
            ITEMS.c.id == bindparam("item_id"),
            _SEEN.c.path == bindparam("new_path"),
        )
        seen = update(_SEEN).where(is_path).values(item=bindparam("item_id"))
        moved = update(ITEMS).where(is_item).values(path=bindparam("new_path"))
        connection.execute(seen, rows)
        connection.execute(moved, rows)
        _update_seen(connection)
    return len(pairs)


def _add(connection: Connection) -> int:
    """Make items of all that is left; an id that is taken gets a number."""
    name = _SEEN.c.path + "@" + _SEEN.c.digest
    copied = ["path", "digest", *_KEPT]
    fresh = select(
        name,
        *(_SEEN.c[one] for one in copied),
        func.coalesce(_SEEN.c.details, literal({}, Json)),
        _group(_SEEN.c.digest),
        literal(PRESENT),
    ).where(_SEEN.c.item.is_(None))
    columns = ["id", *copied, "details", "duplicates", "state"]
    is_new = _SEEN.c.item.is_(None)
    count = select(func.count()).select_from(_SEEN).where(is_new)
    num_new = connection.execute(count).scalar_one()
    is_taken = exists().where(ITEMS.c.id == name)
    connection.execute(ITEMS.insert().from_select(columns, fresh.where(~is_taken)))
    same = (_SEEN.c.path == ITEMS.c.path) & (_SEEN.c.digest == ITEMS.c.digest)
    left = select(_SEEN).where(is_new, ~exists().where(same))
    for row in connection.execute(left).all():
        values = {one: getattr(row, one) for one in copied}
        values |= {"duplicates": row.duplicates or row.digest, "state": PRESENT}
        values["details"] = row.details or {}
        values["id"] = _free_id(connection, f"{row.path}@{row.digest}")
        connection.execute(ITEMS.insert(), values)
    made = select(ITEMS.c.id).where(same).scalar_subquery()
    connection.execute(update(_SEEN).where(is_new).values(item=made))
    return int(num_new)


def _free_id(connection: Connection, name: str) -> str:
    """Return the first of ``name#2``, ``name#3``, ... that names nothing."""
    number = 2
    query = select(ITEMS.c.id)
    while connection.execute(query.where(ITEMS.c.id == f"{name}#{number}")).first():
        number += 1
    return f"{name}#{number}"


def _group(otherwise: ColumnElement[str]) -> ColumnElement[str]:
    return func.coalesce(_SEEN.c.duplicates, otherwise)


def _rank(digest: ColumnElement[str], *order: Any) -> Any:
    return func.row_number().over(partition_by=digest, order_by=order).label("place")
