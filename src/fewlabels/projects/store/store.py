"""The label store: everything that people said about the images, kept safe."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from sqlalchemy import select

from fewlabels.errors import UsageError
from fewlabels.files import replace_file
from fewlabels.projects.store.database import (
    Clock,
    chunked,
    connect,
    explained,
    streamed,
)
from fewlabels.projects.store.events import Events
from fewlabels.projects.store.items import Items
from fewlabels.projects.store.leases import Leases
from fewlabels.projects.store.schema import CHECKED, LEASES, make_ready, renew_checksums


class Store(Events, Items, Leases):
    """All labels of a project, on SQLite or PostgreSQL.

    What a method returned is on the disk. Threads may share a store; a process that was
    forked needs its own.

    Example:
        >>> from fewlabels.projects.store import Event, Kind, ListedFile
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

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        create: bool = True,
        busy_seconds: float = 20.0,
        clock: Clock | None = None,
    ) -> Self:
        """Open a store, or make one where there is none.

        Args:
            place: A file for SQLite, or the address of a PostgreSQL server.
            create: Whether to make a store where there is none.
            busy_seconds: How long to wait for another writer.
            clock: Gives the time; None: the server where there is one, else here.

        Returns:
            The store.
        """
        engine, shown, path = connect(place, busy_seconds)
        store = cls(engine, shown, path, clock)
        try:
            make_ready(store, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def backup(self, path: Path) -> int:
        """Copy all of it, as of one moment, into a new SQLite file, while others write.

        Args:
            path: The file, also where the store is on PostgreSQL; opened like a store.

        Returns:
            How many events the copy holds.
        """
        if path.exists():
            raise UsageError(
                f"'{path}' exists already, and a backup never replaces a file: it could"
                " be the last good one. Give another name."
            )
        if self.path is None:
            with TemporaryDirectory() as own, Store.open(Path(own) / "copy") as copy:
                with (
                    self.read_connection() as source,
                    copy.write_connection() as new,
                ):
                    for table in (*CHECKED, LEASES):
                        query = select(table).order_by(*table.primary_key.columns)
                        for rows in chunked(streamed(source, query)):
                            values = [dict(row._mapping) for row in rows]
                            new.execute(table.insert(), values)
                    renew_checksums(new)
                return copy.backup(path)
        with (
            explained(self.place),
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
