"""Looking at a place before anything is written there; then tables of our version."""

from pathlib import Path

from sqlalchemy import text

from fewlabels import files
from fewlabels.errors import StoreError
from fewlabels.store import checksums, migrations
from fewlabels.store.database import Database
from fewlabels.store.failures import damaged


def make_ready(database: Database, *, create: bool) -> None:
    """Check a store and bring it up to date, or make a new one if that is wanted."""
    path = database.path
    is_there = path is None or _has_content(path)
    if path and is_there:
        migrations.check_schema(database, migrations.MIGRATIONS)
        _check_file(database)
    if not create and (not is_there or migrations.is_empty(database)):
        raise StoreError(
            f"There is no label store in '{database.place}'. If there was one, put the "
            "newest backup there; nothing was changed."
        )
    migrations.upgrade(database, migrations.MIGRATIONS)
    _check_content(database)


def _has_content(path: Path) -> bool:
    """Say whether a file is there and not empty; refuse a folder that is not there."""
    with files.explained(path):
        has_folder = path.parent.is_dir()
        has_content = path.exists() and path.stat().st_size > 0
    if not has_folder:
        msg = f"There is no folder '{path.parent}' for a label store; make it first."
        raise StoreError(msg)
    return has_content


def _check_file(database: Database) -> None:
    """Refuse a file whose structure is damaged."""
    with database.reading() as connection:
        found = connection.execute(text("PRAGMA integrity_check(1)")).scalar()
    if found != "ok":
        raise damaged(database.place, str(found))


def _check_content(database: Database) -> None:
    """Refuse a store that holds something else than was written to it."""
    with database.reading() as connection:
        part = checksums.damaged_part(connection)
    if part is not None:
        raise damaged(database.place, f"the checksum of '{part}' does not fit")
