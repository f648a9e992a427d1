"""Classes of a project: added, renamed, merged, and brought back.

Each call is one transaction; see :mod:`fewlabels.projects.labels` for the argument
``uuid``.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.projects.exchange import STATUS_WORDS
from fewlabels.projects.folder import NUM_TO_TELL_APART
from fewlabels.projects.labels import OWNER, part_uuid, undo_written
from fewlabels.projects.store import (
    Event,
    Kind,
    LabelClass,
    Store,
    StoredEvent,
    new_uuid,
)

if TYPE_CHECKING:
    from fewlabels.projects.project import Project


def add_classes(
    project: "Project", names: Sequence[str], *, uuid: str | None = None
) -> tuple[str, ...]:
    """Add classes that were forgotten or, if one is refused, none.

    Args:
        project: The project.
        names: Their names.
        uuid: UUID of this call, for sending it again, if there is one name.

    Returns:
        The names of all classes.
    """
    with project.store.writing() as store:
        for name in names:
            add_class(store, name, uuid)
        return _class_names(store)


def rename_class(
    project: "Project", old: str, new: str, *, uuid: str | None = None
) -> tuple[str, ...]:
    """Give a class another name, and return the names of all."""
    with project.store.writing() as store:
        names, payload = _class_names(store), {"name": new.strip()}
        if store.sent(uuid, kind=Kind.CLASS_RENAMED, payload=payload) is None:
            if old not in names:
                raise UnknownNameError("class", old, names)
            free_name(new, {*names} - {old})
            _write(store, Kind.CLASS_RENAMED, names.index(old), uuid, payload)
        return _class_names(store)


def merge_classes(
    project: "Project", name: str, into: str | None, *, uuid: str | None = None
) -> int:
    """Take a class out of use and give its labels another one, in one transaction.

    Args:
        project: The project.
        name: The class.
        into: The class that its labels get; None: its images are skipped.
        uuid: UUID of this call, for sending it again; None for a new one.

    Returns:
        How many labels changed; :func:`restore_class` brings them back.
    """
    facts: dict[str, Any] = {"name": name, "into": into}
    with project.store.writing() as store:
        sent = store.sent(uuid, kind=Kind.CLASS_RETIRED, payload=facts)
        if sent is not None:
            return int(sent.payload["num_labels"])
        number_of = {e.name: e.number for e in store.classes() if e.is_active}
        for given in (name,) if into is None else (name, into):
            if given not in number_of:
                raise UnknownNameError("class", given, number_of)
        if name == into:
            raise UsageError(f"'{name}' cannot be merged into itself.")
        if len(number_of) <= NUM_TO_TELL_APART:
            raise UsageError("A project needs two classes; add another one first.")
        own, number = uuid or new_uuid(), number_of[name]
        merged = [label for label in store.labels() if label.class_number == number]
        store.append(
            Event(
                kind=Kind.SKIP if into is None else Kind.RELABEL,
                annotator=label.annotator,
                uuid=part_uuid(own, label.item, label.annotator),
                item=label.item,
                class_number=None if into is None else number_of[into],
                payload={"merged": own},
                **vars(label.asking),
            )
            for label in merged
        )
        facts["num_labels"] = len(merged)
        _write(store, Kind.CLASS_RETIRED, number, own, facts)
        return len(merged)


def restore_class(project: "Project", name: str, *, uuid: str | None = None) -> int:
    """Bring back a class, and its labels if it was merged or deleted.

    Returns:
        How many labels it has again; what was changed since stays as it is.
    """
    with project.store.writing() as store:
        sent = store.sent(uuid, kind=Kind.CLASS_RESTORED, payload={"name": name})
        if sent is not None:
            return int(sent.payload.get("num_labels", 0))
        removed = removed_classes(store)
        if name not in removed:
            raise UnknownNameError("removed class", name, removed)
        event = removed[name]
        num_labels = len(undo_written(store, event.uuid))
        facts = {"name": name, "num_labels": num_labels}
        _write(store, Kind.CLASS_RESTORED, event.class_number, uuid, facts)
        return num_labels


def check_class_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first classes of a project, without blanks around them."""
    classes: list[str] = []
    for name in names:
        classes.append(free_name(name, classes))
    if len(classes) < NUM_TO_TELL_APART:
        raise UsageError(
            f"The classes are {classes}; give at least two different names."
        )
    return tuple(classes)


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a class name without blanks around it; raise if it cannot be one."""
    plain = name.strip()
    alike = [known for known in taken if known.casefold() == plain.casefold()]
    if not plain:
        reason = "a class needs a name"
    elif alike:
        reason = f"'{alike[0]}' is a class already"
    elif plain.casefold() in STATUS_WORDS:
        reason = "a file of answers means something else by it"
    elif not plain.isprintable():
        reason = "it holds characters that cannot be printed"
    else:
        return plain
    raise UsageError(f"The class {name!r} was not taken: {reason}. Give another name.")


def add_class(store: Store, name: str, uuid: str | None) -> None:
    """Add a class, once for a UUID; a retired one comes back under its number."""
    classes, facts = store.classes(), {"name": name.strip()}
    if store.sent(uuid, payload=facts) is not None:
        return
    retired = {entry.name: entry.number for entry in classes if not entry.is_active}
    number = retired.get(facts["name"])
    if number is not None:
        _write(store, Kind.CLASS_RESTORED, number, uuid, facts)
    else:
        free_name(name, [entry.name for entry in classes])
        _write(store, Kind.CLASS_ADDED, len(classes), uuid, facts)


def retire_class(store: Store, entry: LabelClass) -> None:
    """Take a class out of use; its labels stay."""
    _write(store, Kind.CLASS_RETIRED, entry.number, None, {"name": entry.name})


def removed_classes(store: Store) -> dict[str, StoredEvent]:
    """Return the event that retired each class that is not in use, by its name."""
    name_of = {e.number: e.name for e in store.classes() if not e.is_active}
    retired = store.events(kinds={Kind.CLASS_RETIRED})
    return {
        name_of[number]: stored
        for stored in retired
        if (number := stored.class_number) in name_of
    }


def _class_names(store: Store) -> tuple[str, ...]:
    return tuple(entry.name for entry in store.classes())


def _write(
    store: Store, kind: Kind, number: int | None, uuid: str | None, facts: Any
) -> None:
    """Write an event about a class."""
    event = Event(
        kind=kind,
        annotator=OWNER,
        uuid=uuid or new_uuid(),
        class_number=number,
        payload=facts,
    )
    store.append([event])
