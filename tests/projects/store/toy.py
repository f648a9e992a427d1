"""Small contents for a store."""

import sqlalchemy as sa

from fewlabels.projects.store import Event, Kind, ListedFile
from fewlabels.projects.store.schema import ITEMS, PRESENT

CLASSES = ("cat", "dog", "fox")


def found(path, digest=None, **changes):
    """Return a file as it is found."""
    known = {"size": 10, "mtime_ns": 5} | changes
    return ListedFile(path=path, digest=digest or f"d{path}", **known)


def files(number):
    """Return files with different contents, f0000.png and so on."""
    return [found(f"f{i:05d}.png", f"{i:016x}") for i in range(number)]


def all_items(store):
    """Return path and state of all items by id, also of those without a file."""
    with store.read_connection() as connection:
        return {row.id: row for row in connection.execute(sa.select(ITEMS))}


def index(store, listed):
    """List files; return how many are new, moved, back, missing since, and present."""
    before = all_items(store)
    store.index(listed)
    after = all_items(store)
    present = {name for name, row in after.items() if row.state == PRESENT}
    there = {name for name, row in before.items() if row.state == PRESENT}
    moved = {n for n in present & before.keys() if before[n].path != after[n].path}
    back = (present & before.keys()) - there - moved
    new = after.keys() - before.keys()
    return len(new), len(moved), len(back), len(there - present), len(present)


def fill(store, number=3):
    """Give a store classes and items; return the ids of the items."""
    store.add_classes(CLASSES, annotator="owner")
    store.index(files(number))
    return [item.id for item in store.items()]


def label(item, class_number=0, annotator="ann", **more):
    """Return a label."""
    return Event(
        kind=Kind.LABEL,
        annotator=annotator,
        item=item,
        class_number=class_number,
        **more,
    )


def current(store):
    """Return the labels of files that are there as (item, annotator) -> class."""
    there = {item.id for item in store.items()}
    labels = (label for label in store.labels() if label.item in there)
    return {(label.item, label.annotator): label.class_number for label in labels}
