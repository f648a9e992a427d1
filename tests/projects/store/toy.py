"""Small contents for a store."""

from fewlabels.projects.store import Event, Kind, ListedFile

CLASSES = ("cat", "dog", "fox")


def found(path, digest=None, **changes):
    """Return a file as it is found."""
    known = {"size": 10, "mtime_ns": 5} | changes
    return ListedFile(path=path, digest=digest or f"d{path}", **known)


def files(number):
    """Return files with different contents, f0000.png and so on."""
    return [found(f"f{i:05d}.png", f"{i:016x}") for i in range(number)]


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
    """Return the current labels as (item, annotator) -> class."""
    return {(v.item, v.annotator): v.class_number for v in store.labels()}
