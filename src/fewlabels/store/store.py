"""The label store: everything that people said about the images, kept safe."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from fewlabels.store import (
    appending,
    checksums,
    copies,
    indexing,
    leasing,
    reading,
    rounding,
    undoing,
)
from fewlabels.store.database import Clock, Database, connect
from fewlabels.store.failures import explained
from fewlabels.store.locations import Mounts, system_mounts
from fewlabels.store.opening import make_ready
from fewlabels.store.records import (
    LABELS,
    Annotation,
    Asking,
    Event,
    Indexed,
    Item,
    Kind,
    LabelClass,
    Lease,
    Leased,
    ListedFile,
    StoredEvent,
    StoredRound,
    new_uuid,
)
from fewlabels.store.schema import ITEMS

LEASE_SECONDS = 120.0
"""How long a lease holds without a sign of life."""

BUSY_SECONDS = 20.0
"""How long to wait for another writer."""


@dataclass(frozen=True)
class Store:
    """All labels of a project, on SQLite or PostgreSQL.

    What a method returned is on the disk. Threads may share a store; a process that was
    forked needs its own.

    Example:
        >>> from fewlabels.store import Kind
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> store = Store.open(Path(folder.name) / "labels.sqlite")
        >>> store.add_classes(["cat", "dog"], annotator="ann")
        (0, 1)
        >>> file = ListedFile(path="a.png", digest="0f", size=1, mtime_ns=0)
        >>> store.index([file]).num_new
        1
        >>> label = Event(
        ...     kind=Kind.LABEL, annotator="ann", item="a.png@0f", class_number=1
        ... )
        >>> store.append([label]), store.append([label])
        ((3,), (3,))
        >>> {label.item: label.class_number for label in store.labels()}
        {'a.png@0f': 1}
        >>> undone = store.undo("ann")
        >>> store.labels()
        ()
        >>> store.close(); folder.cleanup()
    """

    database: Database

    # ------------------------------------------------------------- open and close

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        create: bool = True,
        busy_seconds: float = BUSY_SECONDS,
        mounts: Mounts = system_mounts,
        clock: Clock | None = None,
    ) -> Self:
        """Open a store; make it where there is none, and bring an older one up to date.

        Args:
            place: A file for SQLite, or the address of a PostgreSQL server.
            create: Whether to make a store where there is none.
            busy_seconds: How long to wait for another writer.
            mounts: Lists the mounted file systems, to refuse network drives.
            clock: Tells the time; None: the server where there is one, else here.

        Returns:
            The store.
        """
        database = connect(place, busy_seconds=busy_seconds, mounts=mounts, clock=clock)
        try:
            make_ready(database, create=create)
        except BaseException:
            database.engine.dispose()
            raise
        return cls(database)

    def close(self) -> None:
        """Let go of all connections."""
        self.database.engine.dispose()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    # -------------------------------------------------------------- transactions

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """Yield this store as of one moment: all that is read of it fits together.

        Others may write meanwhile; the block does not see it, and cannot write.
        """
        with self.database.reading() as connection:
            yield replace(self, database=replace(self.database, joined=connection))

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Yield this store for one transaction, so that nobody writes in between.

        All that the block wrote becomes durable at its end or, where it raises an
        error, none of it.
        """
        with self.database.writing() as connection:
            yield replace(self, database=replace(self.database, joined=connection))

    # -------------------------------------------------------------------- events

    def append(self, events: Iterable[Event]) -> tuple[int, ...]:
        """Write events down: all of them or, where one is refused, none.

        Args:
            events: What happened, in order.

        Returns:
            A sequence number per event. They are durable now. An event that was sent
            before, known by its UUID, gets its first number and changes nothing.
        """
        given = tuple(events)
        with self.database.writing() as connection:
            return appending.append(connection, given, self.database.now(connection))

    def undo(
        self, annotator: str, *, target: str | None = None, uuid: str | None = None
    ) -> StoredEvent:
        """Cancel a verdict, or bring back what an undo had canceled.

        Args:
            annotator: Who undoes; each annotator her own events.
            target: UUID of the event to cancel; None: the annotator's last verdict
                that holds and was asked for.
            uuid: Names this undo; the same one again changes nothing. None: a new one.

        Returns:
            The undo as stored.
        """
        wish = undoing.Wish(annotator, target, uuid or new_uuid())
        with self.database.writing() as connection:
            return undoing.undo(connection, wish, self.database.now(connection))

    def redo(self, annotator: str, *, uuid: str | None = None) -> StoredEvent:
        """Bring back what was undone last, unless something new was said since."""
        wish = undoing.Wish(annotator, None, uuid or new_uuid(), is_redo=True)
        with self.database.writing() as connection:
            return undoing.undo(connection, wish, self.database.now(connection))

    def events(
        self, *, after: int = 0, item: str | None = None, kinds: Collection[Kind] = ()
    ) -> Iterator[StoredEvent]:
        """Yield events in their order, undone or not.

        Args:
            after: Only those with a higher sequence number.
            item: Only those about this item.
            kinds: Only those of these kinds; none given: of all.

        Yields:
            Each event.
        """
        with self.database.reading() as connection:
            yield from reading.events(connection, after=after, item=item, kinds=kinds)

    def changes(self, *, after: int) -> tuple[int, set[str]]:
        """Return the number of the last event, and the items of those since one."""
        with self.database.reading() as connection:
            return reading.changes(connection, after)

    def event(self, uuid: str) -> StoredEvent | None:
        """Return the event of this name; None where there is none."""
        with self.database.reading() as connection:
            return next(reading.events(connection, uuid=uuid), None)

    # -------------------------------------------------------------------- labels

    def labels(self, *, with_missing: bool = False) -> tuple[Annotation, ...]:
        """Return the current labels: those verdicts that have a class."""
        found = self.verdicts(with_missing=with_missing)
        return tuple(one for one in found if one.kind in LABELS)

    def verdicts(
        self, *, with_missing: bool = False, items: Sequence[str] | None = None
    ) -> tuple[Annotation, ...]:
        """Return the current labels, and what was skipped or not known.

        Args:
            with_missing: Also those of images that are not there any more.
            items: Only those on these few items; None: on all.

        Returns:
            One per item and annotator, by item.
        """
        with self.database.reading() as connection:
            found = reading.verdicts(connection, with_missing=with_missing, items=items)
            return tuple(found)

    # ------------------------------------------------------------------- classes

    def classes(self) -> tuple[LabelClass, ...]:
        """Return all classes, those not in use any more included."""
        with self.database.reading() as connection:
            return reading.classes(connection)

    def add_classes(self, names: Iterable[str], *, annotator: str) -> tuple[int, ...]:
        """Add classes and return their numbers; a known name keeps its number.

        Args:
            names: Names of the classes.
            annotator: Who wants them.

        Returns:
            A number per name.
        """
        wanted = tuple(names)
        with self.database.writing() as connection:
            now = self.database.now(connection)
            numbers = appending.add_classes(connection, wanted, annotator, now)
        return tuple(numbers[name] for name in wanted)

    def begin(self, names: Iterable[str], *, annotator: str) -> str:
        """Make an empty store that of one project, by its first classes.

        Args:
            names: Names of the classes.
            annotator: Whose project it is.

        Returns:
            What :attr:`identity` will be from now on.
        """
        with self.database.writing() as connection:
            reading.check_empty(connection)
            now = self.database.now(connection)
            appending.add_classes(connection, tuple(names), annotator, now)
            return reading.identity(connection) or ""

    @property
    def identity(self) -> str | None:
        """UUID of the first event, which no other store has; None where there is none.

        A backup is the same store at an earlier moment and has it too.
        """
        with self.database.reading() as connection:
            return reading.identity(connection)

    # -------------------------------------------------------------- items, rounds

    def index(self, found: Iterable[ListedFile]) -> Indexed:
        """Take in a complete list of the image files; see ``indexing``.

        Others may label while the list is read, and it is never held as a whole.

        Args:
            found: Every file there is now.

        Returns:
            What changed.
        """
        with explained(self.database.place):
            return indexing.index(self.database, found)

    def items(
        self, *, with_missing: bool = False, ids: Sequence[str] | None = None
    ) -> Iterator[Item]:
        """Yield all items by path, or these few; also missing ones, if wanted."""
        with self.database.reading() as one:
            yield from indexing.items(one, with_missing=with_missing, ids=ids)

    @property
    def items_checksum(self) -> str:
        """A checksum over all items: another one when any of them has changed."""
        with self.database.reading() as connection:
            return checksums.written(connection)[ITEMS.name]

    def add_round(self, given: StoredRound) -> StoredRound:
        """Store a round for good.

        Args:
            given: The round; its ``created`` is filled in here.

        Returns:
            The round as stored. The same one again changes nothing; another one of the
            same step is refused.
        """
        with self.database.writing() as connection:
            return rounding.add_round(connection, given, self.database.now(connection))

    def rounds(self, *, after: int = -1) -> tuple[StoredRound, ...]:
        """Return all rounds, or those after a step, in the order of their steps."""
        with self.database.reading() as connection:
            return rounding.rounds(connection, after)

    def asked(self, items: Sequence[str] | None = None) -> dict[str, Asking]:
        """Return the latest round that asked about each item; None: about any."""
        with self.database.reading() as connection:
            return rounding.asked(connection, items)

    # -------------------------------------------------------------------- leases

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
        wish = leasing.Wish(
            annotator=annotator,
            count=count,
            overlap=overlap,
            ttl=ttl,
            among=among,
            token=token,
        )
        with self.database.writing() as connection:
            return leasing.lease(connection, wish, self.database.now(connection))

    def heartbeat(self, token: str, *, ttl: float = LEASE_SECONDS) -> tuple[Lease, ...]:
        """Prolong the leases of a token and return those it still holds."""
        with self.database.writing() as one:
            return leasing.heartbeat(one, token, ttl, self.database.now(one))

    def holders(self, item: str) -> tuple[str, ...]:
        """Return who holds an item."""
        with self.database.reading() as one:
            return leasing.holders(one, item, self.database.now(one))

    def release(self, token: str, items: Sequence[str] | None = None) -> int:
        """Give back the leases of a token, or those on some items; return how many."""
        with self.database.writing() as connection:
            return leasing.release(connection, token, items)

    # -------------------------------------------------------------------- copies

    def backup(self, path: Path) -> int:
        """Copy all of it, as of one moment, into a new SQLite file, while others write.

        Args:
            path: The file, also where the store is on PostgreSQL; opened like a store.

        Returns:
            How many events the copy holds.
        """
        copies.check_free(path)
        if self.database.path:
            return copies.copy_file(self.database, path)
        with TemporaryDirectory() as own, Store.open(Path(own) / "copy") as target:
            copies.copy_tables(self.database, target.database)
            return copies.copy_file(target.database, path)

    def export_events(self, path: Path) -> int:
        """Write all events to a file with one JSON object per line; return how many."""
        return copies.export_events(self.database, path)
