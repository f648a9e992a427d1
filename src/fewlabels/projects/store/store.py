"""The label store: events, and the labels, classes and undos that follow from them.

An undo names the event that it cancels. What it leads to in the end is its *root*: an
undo of an undo of a label has the label. Each undo in the store switches its root off
or on, because only two kinds are accepted: one that names the root while it is in
force, and one that names the last switch. A verdict is therefore in force exactly while
an even number of undos lead to it, and that is how the view counts.

Undo goes step by step and per annotator, as in an editor. What it means without a
target is decided in the transaction that writes it, so that two browser tabs of one
person never undo the same event twice.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import sqlalchemy as sa

from fewlabels.errors import ReplayError, StoreError, UsageError, check_range
from fewlabels.files import replace_file
from fewlabels.projects.store import database, records, schema
from fewlabels.projects.store.database import Database, rows_with, streamed
from fewlabels.projects.store.records import LABELS, Event, Kind, StoredEvent, Verdict
from fewlabels.projects.store.schema import (
    CLASSES,
    EVENTS,
    ITEMS,
    LEASES,
    ROUND_ITEMS,
    ROUNDS,
    VERDICTS,
)

LEASE_SECONDS = 120.0
"""How long a lease lasts without a heartbeat."""

MOST_LEASED = 10_000
"""Most items that a lease chooses from a list, or hands out."""

MOST_SECONDS = 7 * 24 * 3600
"""Longest time that a lease can last without a heartbeat."""

_MANY = 500
_MOST_LISTED = 2_000  # items whose verdicts are read by id; for more, all are read
_FIELDS = tuple(field.name for field in fields(Event))
_STORED = tuple(field.name for field in fields(StoredEvent))
_CANCELED = EVENTS.alias()
_WITH_TARGETS = sa.select(EVENTS, _CANCELED.c.uuid.label("target_uuid")).select_from(
    EVENTS.outerjoin(_CANCELED, EVENTS.c.target == _CANCELED.c.sequence)
)


class Store(Database):
    """All labels of a project, on SQLite or PostgreSQL.

    When a method returns, what it wrote is on the disk. Threads may share a store; a
    forked process needs its own.

    Example:
        >>> from fewlabels.projects.store import Event, Kind, ListedFile
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> store = Store.open(Path(folder.name) / "labels.sqlite")
        >>> store.add_classes(["cat", "dog"], annotator="ann")
        >>> file = ListedFile(path="a.png", digest="0f", size=1, mtime_ns=0)
        >>> store.index([file])
        >>> label = Event(
        ...     kind=Kind.LABEL, annotator="ann", item="a.png@0f", class_number=1
        ... )
        >>> tuple(event.sequence for _ in range(2) for event in store.append([label]))
        (3, 3)
        >>> {label.item: label.class_number for label in store.labels()}
        {'a.png@0f': 1}
        >>> undone = store.undo("ann")
        >>> store.labels()
        ()
        >>> store.close(); folder.cleanup()
    """

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        create: bool = True,
        busy_seconds: float = 20.0,
        clock: database.Clock | None = None,
    ) -> Self:
        """Open a store, or create it.

        Args:
            place: A file for SQLite, or the address of a PostgreSQL server.
            create: Whether to create the store if there is none.
            busy_seconds: How long to wait for another writer.
            clock: Returns the time; None for the clock of the server or this machine.

        Returns:
            The store.
        """
        engine, shown, path = database.connect(place, busy_seconds)
        store = cls(engine, shown, path, clock)
        try:
            schema.make_ready(store, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def backup(self, path: Path) -> int:
        """Copy the store, as of one moment, to a new SQLite file; others may write.

        Args:
            path: The file, also of a store on PostgreSQL; it opens like any store.

        Returns:
            How many events the copy holds.
        """
        if path.exists():
            raise UsageError(f"'{path}' exists already. Give the backup a new name.")
        if self.path is None:
            with TemporaryDirectory() as own, Store.open(Path(own) / "copy") as copy:
                with self.read_connection() as source, copy.write_connection() as new:
                    for table in (*schema.CHECKED, LEASES):
                        query = sa.select(table).order_by(*table.primary_key.columns)
                        rows = database.streamed(source, query)
                        for some in database.chunked(dict(r._mapping) for r in rows):
                            new.execute(table.insert(), some)
                    schema.renew_checksums(new)
                return copy.backup(path)
        with (
            database.translate_errors(self.place),
            replace_file(path) as partial,
            closing(sqlite3.connect(str(self.path))) as source_file,
            closing(sqlite3.connect(partial)) as target_file,
        ):
            source_file.backup(target_file)
            # Without a write-ahead log of its own the copy is a single file.
            target_file.execute("PRAGMA journal_mode=DELETE")
            count = "SELECT count(*) FROM events"
            number: int = target_file.execute(count).fetchone()[0]
        return number

    # ------------------------------------------------------------------- events

    def append(self, events: Iterable[Event]) -> tuple[StoredEvent, ...]:
        """Write events: all of them or, if one is refused, none.

        Args:
            events: The events, in order.

        Returns:
            The events as stored. They are durable now. An event that was sent before,
            known by its UUID, has its first number and changes nothing.
        """
        given = tuple(events)
        with self.writing() as store, store.write_connection() as connection:
            sent = store.events(uuids=[event.uuid for event in given])
            stored = {known.uuid: known for known in sent}
            new = [event for event in given if event.uuid not in stored]
            _check_classes(connection, new)
            query = sa.select(sa.func.max(EVENTS.c.sequence))
            first = last = connection.scalar(query) or 0
            now = self.now(connection)
            rows: list[dict[str, Any]] = []  # many events cost few statements
            for event in given:
                facts = {name: getattr(event, name) for name in _FIELDS}
                if event.uuid in stored:
                    _check_same(stored[event.uuid], facts)
                    continue
                values = facts | {"kind": event.kind.value, "root": None}
                if rows and event.kind not in records.VERDICTS:  # it reads earlier ones
                    connection.execute(EVENTS.insert(), rows)
                    rows = []
                if event.kind is Kind.UNDO:
                    values |= _switch(connection, event)
                elif event.kind in records.CLASS_EVENTS:
                    _change_class(connection, event)
                last += 1
                more = {"sequence": last, "server_time": now}
                rows.append(values | more)
                written = facts | more | {"item": values["item"]}
                stored[event.uuid] = StoredEvent(**written)
            if rows:
                connection.execute(EVENTS.insert(), rows)
            if last > first:
                schema.renew_checksums(connection, EVENTS, after=first)
            if any(event.kind in records.CLASS_EVENTS for event in new):
                schema.renew_checksums(connection, CLASSES)
            _end_leases(connection, new)
            if last // _MANY > first // _MANY:
                database.analyze(connection, EVENTS)
        return tuple(stored[event.uuid] for event in given)

    def undo(
        self, annotator: str, *, target: str | None = None, uuid: str | None = None
    ) -> StoredEvent:
        """Cancel a verdict, or restore what an undo had canceled.

        Args:
            annotator: Who undoes; each annotator her own events.
            target: UUID of the event to cancel; None for the annotator's last verdict
                in force on an item that she was asked about.
            uuid: UUID of this undo, for sending it again; None for a new one.

        Returns:
            The undo as stored.
        """
        uuid = uuid or records.new_uuid()
        with self.writing() as store, store.write_connection() as connection:
            sent = store.event(uuid)
            if target is None and sent is not None:
                target = sent.target  # as the first time
            if target is None:  # the last verdict in force that was asked for
                found = schema.IN_FORCE.c
                is_asked = sa.or_(
                    found.strategy.is_(None),
                    found.strategy.not_in(sorted(records.UNASKED)),
                    found.round.is_not(None),
                )
                query = sa.select(found.uuid).where(found.annotator == annotator)
                query = query.where(is_asked).order_by(found.sequence.desc())
                target = connection.scalar(query.limit(1))
            if target is None:
                raise UsageError(f"'{annotator}' has nothing to undo.")
            undo = Event(Kind.UNDO, annotator, uuid=uuid, target=target)
            return store.append([undo])[0]

    def events(
        self,
        *,
        after: int = 0,
        kinds: Collection[Kind] = (),
        item: str | None = None,
        uuids: Iterable[str] | None = None,
    ) -> Iterator[StoredEvent]:
        """Yield events in their order, undone or not.

        Args:
            after: Only those with a higher sequence number.
            kinds: Only those of these kinds; none for all.
            item: Only those about this item, with their undos.
            uuids: Only those with these UUIDs, some hundred at a time in their order.

        Yields:
            Each event.
        """
        query = _WITH_TARGETS.where(EVENTS.c.sequence > after)
        query = query.order_by(EVENTS.c.sequence)
        if kinds:
            query = query.where(EVENTS.c.kind.in_(sorted(kinds)))
        if item is not None:
            query = query.where(EVENTS.c.item == item)
        with self.read_connection() as connection:
            for row in rows_with(connection, query, EVENTS.c.uuid, uuids):
                columns = {name: getattr(row, name) for name in _STORED}
                columns |= {"kind": Kind(row.kind), "target": row.target_uuid}
                yield StoredEvent(**columns)

    def event(self, uuid: str | None) -> StoredEvent | None:
        """Return the event with this UUID; None if there is none."""
        return next(iter(self.events(uuids=[uuid])), None) if uuid else None

    def sent(
        self, uuid: str | None, *, payload: Mapping[str, Any] | None = None, **same: Any
    ) -> StoredEvent | None:
        """Return the event with a UUID, unless there is none.

        One with other content, or another entry of its payload, is a
        :class:`fewlabels.errors.ReplayError`.
        """
        stored = self.event(uuid)
        if stored is not None:
            entries = {**stored.payload, **(payload or {})}
            _check_same(stored, same | {"payload": entries})
        return stored

    def changes(self, *, after: int) -> tuple[int, set[str]]:
        """Return the number of the last event, and the items of events after one."""
        query = sa.select(EVENTS.c.sequence, EVENTS.c.item)
        with self.read_connection() as connection:
            rows = connection.execute(query.where(EVENTS.c.sequence > after)).all()
        last = max((row.sequence for row in rows), default=after)
        return last, {row.item for row in rows} - {None}

    @property
    def identity(self) -> str | None:
        """UUID of the first event, unique to this store and its backups."""
        query = sa.select(EVENTS.c.uuid).where(EVENTS.c.sequence == 1)
        with self.read_connection() as connection:
            return connection.scalar(query)

    # ------------------------------------------------------------------- labels

    def labels(self) -> tuple[Verdict, ...]:
        """Return the current labels: those verdicts that have a class."""
        return tuple(verdict for verdict in self.verdicts() if verdict.kind in LABELS)

    def verdicts(
        self, *, items: Collection[str] | None = None, with_replaced: bool = False
    ) -> tuple[Verdict, ...]:
        """Return the current labels, skips and *unsure* answers.

        Those of images that are not there any more are among them. Payloads and the
        clocks of annotators are left out.

        Args:
            items: Only those on these items; None for all.
            with_replaced: Include those that a later one replaces, should that be
                undone.

        Returns:
            One per item and annotator, or several, by item.
        """
        view = schema.IN_FORCE if with_replaced else VERDICTS
        query = sa.select(*(view.c[column.name] for column in VERDICTS.c))
        query = query.order_by(view.c.item, view.c.annotator, view.c.sequence)
        # To read all verdicts is quicker than a long list of ids.
        if items is not None and len(items) <= _MOST_LISTED:
            query = query.where(view.c.item.in_(items))
        wanted = None if items is None else set(items)
        with self.read_connection() as connection:
            return tuple(
                Verdict(**(dict(row._mapping) | {"kind": Kind(row.kind)}))
                for row in streamed(connection, query)
                if wanted is None or row.item in wanted
            )

    # -------------------------------------------------------- images and rounds

    def index(self, files: Iterable[records.ListedFile]) -> None:
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
        listed = {file.path: file for file in files}
        named = sa.select(EVENTS.c.item).distinct()
        with self.write_connection() as connection:
            labeled = set(connection.execute(named).scalars())
            known = connection.execute(sa.select(ITEMS).order_by(ITEMS.c.id.desc()))
            rows = [dict(row) for row in known.mappings()]
            rows.sort(key=lambda row: (row["id"] in labeled, row["state"]))
            ids = {row["id"] for row in rows}
            same: dict[str, dict[str, Any]] = {}
            gone: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for row in rows:
                file = listed.get(row["path"])
                if file is not None and file.digest == row["digest"]:
                    same[row["path"]] = row
                else:
                    gone[row["digest"]].append(row)
            new: list[dict[str, Any]] = []
            changed: list[dict[str, Any]] = []
            for path, file in sorted(listed.items()):
                before = same.get(path)
                if before is None and gone[file.digest]:  # it has moved
                    before = gone[file.digest].pop()
                given = {"path": path, "size": file.size, "mtime_ns": file.mtime_ns}
                given |= {"duplicates": file.group, "details": file.details}
                facts = {name: v for name, v in given.items() if v is not None}
                facts["state"] = schema.PRESENT
                if before is None:
                    name, number = f"{path}@{file.digest}", 2
                    while name in ids:  # of a file that was here and moved
                        name, number = f"{path}@{file.digest}#{number}", number + 1
                    ids.add(name)
                    own = {"id": name, "digest": file.digest, "details": {}}
                    new.append(own | {"duplicates": file.digest} | facts)
                elif before | facts != before:
                    changed.append(before | facts)
            missing = {"state": schema.MISSING}
            lost = (row for rows in gone.values() for row in rows)
            changed += [r | missing for r in lost if r["state"] == schema.PRESENT]
            if changed:
                is_item = ITEMS.c.id == sa.bindparam("item")
                rows = [row | {"item": row["id"]} for row in changed]
                connection.execute(sa.update(ITEMS).where(is_item), rows)
            if new:
                connection.execute(ITEMS.insert(), new)
                database.analyze(connection, ITEMS)
            if new or changed:
                schema.renew_checksums(connection, ITEMS)

    def items(self, *, ids: Sequence[str] | None = None) -> Iterator[records.Item]:
        """Yield all items whose file is there, by path, or those with some ids."""
        query = sa.select(ITEMS).where(ITEMS.c.state == schema.PRESENT)
        query = query.order_by(ITEMS.c.path, ITEMS.c.id)
        with self.read_connection() as connection:
            for row in rows_with(connection, query, ITEMS.c.id, ids):
                columns = dict(row._mapping)
                del columns["state"]
                yield records.Item(group=columns.pop("duplicates"), **columns)

    def paths(self) -> list[tuple[str, str]]:
        """Return id and path of all items whose file is there, by path."""
        query = sa.select(ITEMS.c.id, ITEMS.c.path).order_by(ITEMS.c.path, ITEMS.c.id)
        with self.read_connection() as connection:
            rows = connection.execute(query.where(ITEMS.c.state == schema.PRESENT))
            return [tuple(row) for row in rows]

    @property
    def items_checksum(self) -> str:
        """A checksum over all items, which changes with any of them."""
        with self.read_connection() as connection:
            return schema.written_checksums(connection)[ITEMS.name]

    def add_round(self, given: records.StoredRound) -> records.StoredRound:
        """Store the next round for good, with the time of now.

        Returns:
            The round as stored. The database refuses a step that is stored already, and
            an item that is not stored or twice in the round.
        """
        with self.write_connection() as connection:
            created = replace(given, created=self.now(connection))
            row = {column.name: getattr(created, column.name) for column in ROUNDS.c}
            connection.execute(ROUNDS.insert(), row)
            rows = [vars(m) | {"round": given.step} for m in given.items]
            rows = [row | {"rank": rank} for rank, row in enumerate(rows)]
            if rows:
                connection.execute(ROUND_ITEMS.insert(), rows)
            schema.renew_checksums(connection, ROUNDS, ROUND_ITEMS)
        return created

    def rounds(self, *, after: int = -1) -> tuple[records.StoredRound, ...]:
        """Return all rounds, or those after a step, in the order of their steps."""
        members: dict[int, list[records.RoundItem]] = defaultdict(list)
        asked = sa.select(ROUND_ITEMS).where(ROUND_ITEMS.c.round > after)
        asked = asked.order_by(ROUND_ITEMS.c.round, ROUND_ITEMS.c.rank)
        query = sa.select(ROUNDS).where(ROUNDS.c.step > after).order_by(ROUNDS.c.step)
        with self.read_connection() as connection:
            for row in connection.execute(asked):
                members[row.round].append(records.RoundItem(row.item, row.role))
            return tuple(
                records.StoredRound(**row._mapping, items=tuple(members[row.step]))
                for row in connection.execute(query)
            )

    def asked(self, items: Iterable[str] | None = None) -> dict[str, records.Asking]:
        """Return the latest round that asked about each item, or about some items."""
        columns = ROUND_ITEMS.c.item, ROUNDS.c.step, ROUNDS.c.strategy, ROUNDS.c.model
        query = sa.select(*columns).join_from(ROUND_ITEMS, ROUNDS)
        query = query.order_by(ROUNDS.c.step)
        with self.read_connection() as connection:
            rows = rows_with(connection, query, ROUND_ITEMS.c.item, items)
            return {r.item: records.Asking(r.step, r.strategy, r.model) for r in rows}

    # ------------------------------------------------------------------- leases

    # An item is handed to an annotator while its answers (:func:`records.num_answers`)
    # and the others who hold it are fewer than ``overlap``. It never comes back to an
    # annotator who has spoken about it. A lease ends when its holder answers, releases
    # it, or lets it expire.

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
    ) -> records.Leased:
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
            The items, and how many more others hold.
        """
        check_range("count", count, at_least=0, at_most=MOST_LEASED)
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
        return records.Leased((*held, *new), token, num_held, frees_at)

    def heartbeat(self, token: str, *, ttl: float = LEASE_SECONDS) -> tuple[str, ...]:
        """Prolong the leases of a token and return the items that it still holds."""
        check_range("ttl", ttl, above=0, at_most=MOST_SECONDS)
        with self.write_connection() as connection:
            now = self.now(connection)
            mine = LEASES.c.token == token, LEASES.c.expires > now
            terms = {"granted": now, "expires": now + timedelta(seconds=ttl)}
            connection.execute(sa.update(LEASES).where(*mine).values(terms))
            query = sa.select(LEASES.c.item).where(*mine).order_by(LEASES.c.item)
            return tuple(connection.execute(query).scalars())

    def holders(self, items: Iterable[str]) -> dict[str, list[str]]:
        """Return the annotators who hold items, by item."""
        held: dict[str, list[str]] = defaultdict(list)
        with self.read_connection() as connection:
            query = sa.select(LEASES).where(LEASES.c.expires > self.now(connection))
            for row in rows_with(connection, query, LEASES.c.item, items):
                held[row.item].append(row.annotator)
        return held

    def release(self, token: str) -> int:
        """End the leases of a token; return how many."""
        query = sa.delete(LEASES).where(LEASES.c.token == token)
        with self.write_connection() as connection:
            return connection.execute(query).rowcount

    # ------------------------------------------------------------------ classes

    def classes(self) -> tuple[records.LabelClass, ...]:
        """Return all classes, including retired ones."""
        with self.read_connection() as connection:
            rows = connection.execute(sa.select(CLASSES).order_by(CLASSES.c.number))
            return tuple(records.LabelClass(*row) for row in rows)

    def add_classes(self, names: Iterable[str], *, annotator: str) -> None:
        """Add classes, numbered on from those that there are."""
        with self.writing() as store:
            store.append(
                Event(Kind.CLASS_ADDED, annotator, None, number, payload={"name": name})
                for number, name in enumerate(names, len(store.classes()))
            )

    def begin(self, names: Iterable[str], *, annotator: str) -> str:
        """Add the first classes of a project to an empty store; return its identity."""
        with self.writing() as store:
            if store.identity:
                raise StoreError(
                    f"The label store '{self.place}' belongs to another project."
                )
            store.add_classes(names, annotator=annotator)
            return next(store.events()).uuid


def _asked(connection: sa.Connection) -> sa.Select[Any]:
    """Select the items of the last round and of those that it keeps open."""
    # A round that was chosen ahead names in its options the first one still open.
    rounds = sa.select(ROUNDS).order_by(ROUNDS.c.step.desc())
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


# -------------------------------------------------------------------- writing events


def _check_same(stored: StoredEvent, expected: Mapping[str, Any]) -> None:
    """Refuse a UUID that was sent before with other content."""
    for name, value in expected.items():
        before = getattr(stored, name)
        is_filled_in = name == "item" and stored.kind is Kind.UNDO  # by the store
        if before != value and not is_filled_in:
            raise ReplayError(
                f"The UUID {stored.uuid} came again with another content: {name} "
                f"was {before!r} in event {stored.sequence} and is {value!r}."
            )


def _check_classes(connection: sa.Connection, events: Sequence[Event]) -> None:
    """Refuse labels of classes that are not in use."""
    query = sa.select(CLASSES.c.number).where(CLASSES.c.active)
    active = set(connection.execute(query).scalars())
    active |= {e.class_number for e in events if e.kind is Kind.CLASS_ADDED}
    for event in events:
        if event.kind in LABELS and event.class_number not in active:
            raise StoreError(f"Class {event.class_number} of a label is not in use.")


def _switch(connection: sa.Connection, undo: Event) -> dict[str, Any]:
    """Check an undo, and return the columns that only the store can fill in."""
    query = sa.select(EVENTS).where(EVENTS.c.uuid == undo.target)
    target = connection.execute(query).one_or_none()
    if target is None:
        raise StoreError(f"There is no event {undo.target} to undo.")
    name = f"Event {target.sequence} ({target.kind})"
    if Kind(target.kind) in records.CLASS_EVENTS:
        raise StoreError(f"{name} cannot be undone; change the class instead.")
    if target.annotator != undo.annotator:
        raise StoreError(f"{name} is by '{target.annotator}', who alone can undo it.")
    is_root = target.root is None
    root = target.sequence if is_root else target.root
    query = sa.select(EVENTS.c.sequence).where(EVENTS.c.root == root)
    switches = connection.execute(query.order_by("sequence")).scalars().all()
    if len(switches) % 2 if is_root else target.sequence != switches[-1]:
        raise StoreError(f"{name} does not hold; undo event {switches[-1]} instead.")
    return {"target": target.sequence, "root": root, "item": target.item}


def _change_class(connection: sa.Connection, event: Event) -> None:
    """Bring the table of classes up to date; the database refuses a name twice."""
    change = sa.update(CLASSES).where(CLASSES.c.number == event.class_number)
    if event.kind is Kind.CLASS_ADDED:
        values = {"number": event.class_number, "name": event.payload["name"]}
        connection.execute(CLASSES.insert(), values | {"active": True})
    elif event.kind is Kind.CLASS_RENAMED:
        connection.execute(change.values(name=event.payload["name"]))
    else:
        is_active = event.kind is Kind.CLASS_RESTORED
        connection.execute(change.values(active=is_active))


def _end_leases(connection: sa.Connection, events: Iterable[Event]) -> None:
    """End leases on items that their holders answered, or whose label was imported."""
    ended = [
        {"ended": e.item, "by": e.annotator, "all": e.strategy == records.IMPORTED}
        for e in events
        if e.kind in records.VERDICTS
    ]
    if ended:
        is_item = LEASES.c.item == sa.bindparam("ended")
        is_holder = LEASES.c.annotator == sa.bindparam("by")
        is_meant = sa.or_(is_holder, sa.bindparam("all", type_=sa.Boolean))
        connection.execute(sa.delete(LEASES).where(is_item, is_meant), ended)
