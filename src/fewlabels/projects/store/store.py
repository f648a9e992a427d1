"""Opening and copying a label store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import sqlalchemy as sa

from fewlabels.errors import UsageError
from fewlabels.files import replace_file
from fewlabels.projects.store import database, schema
from fewlabels.projects.store.events import Events
from fewlabels.projects.store.items import Items
from fewlabels.projects.store.leases import Leases


class Store(Events, Items, Leases):
    """All labels of a project, on SQLite or PostgreSQL.

    When a method returns, what it wrote is on the disk. Threads may share a store; a
    forked process needs its own.

    Example:
        >>> from fewlabels.projects.store import Event, Kind, ListedFile
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> store = Store.open(Path(folder.name) / "labels.sqlite")
        >>> store.add_classes(["cat", "dog"], annotator="ann")
        (0, 1)
        >>> file = ListedFile(path="a.png", digest="0f", size=1, mtime_ns=0)
        >>> store.index([file])
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
                    for table in (*schema.CHECKED, schema.LEASES):
                        query = sa.select(table).order_by(*table.primary_key.columns)
                        rows = database.streamed(source, query)
                        for some in database.chunked(dict(r._mapping) for r in rows):
                            new.execute(table.insert(), some)
                    schema.renew_checksums(new)
                return copy.backup(path)
        with (
            database.explained(self.place),
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
