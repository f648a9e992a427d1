"""The classes of a project: named at the beginning, added and renamed later."""

from collections.abc import Sequence

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.projects.exchange.records import SAYINGS
from fewlabels.store import Event, Kind, Store, new_uuid
from fewlabels.store.records import NAMING

OWNER = "owner"
"""In whose name classes are added and renamed."""


def class_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the classes that a project begins with: at least two."""
    found: list[str] = []
    for name in names:
        found.append(free_name(name, found))
    if len(found) < 2:
        raise UsageError(
            f"The classes are {found}; give at least two different names, such as "
            "'cat' and 'dog'."
        )
    return tuple(found)


def add(store: Store, name: str, uuid: str | None = None) -> None:
    """Add a class that was forgotten, inside a transaction; once for a UUID.

    A class that is not in use any more comes back under its number.
    """
    known = store.event(uuid) if uuid else None
    if known is not None:
        _write(store, known.event.kind, known.event.class_number, name.strip(), uuid)
        return
    listed = store.classes()
    names = [label_class.name for label_class in listed]
    retired = {entry.name: entry.number for entry in listed if not entry.is_active}
    number = retired.get(name.strip())
    if number is None:
        _write(store, Kind.CLASS_ADDED, len(names), free_name(name, names), uuid)
    else:
        _write(store, Kind.CLASS_RESTORED, number, name.strip(), uuid)


def retire(store: Store, number: int) -> None:
    """Take a class out of use, inside a transaction; labels that name it stay."""
    name = store.classes()[number].name
    _write(store, Kind.CLASS_RETIRED, number, name, None)


def rename(store: Store, old: str, new: str, uuid: str | None = None) -> None:
    """Give a class another name, inside a transaction; once for a UUID."""
    names = all_names(store)
    known = store.event(uuid) if uuid else None
    if known is not None:
        number, name = known.event.class_number, new.strip()
    elif old not in names:
        raise UnknownNameError("class", old, names)
    else:
        number = names.index(old)
        name = free_name(new, [other for other in names if other != old])
    _write(store, Kind.CLASS_RENAMED, number, name, uuid)


def all_names(store: Store) -> tuple[str, ...]:
    """Return the names of all classes in the order of their numbers."""
    return tuple(one.name for one in store.classes())


def numbers_before(store: Store, sequence: int) -> dict[str, int]:
    """Return the number of each class by the name it had before an event."""
    name_of = {
        one.event.class_number or 0: str(one.event.payload["name"])
        for one in store.events(kinds=NAMING)
        if one.sequence < sequence
    }
    return {name: number for number, name in name_of.items()}


def _write(
    store: Store, kind: Kind, number: int | None, name: str, uuid: str | None
) -> None:
    event = Event(
        kind=kind,
        annotator=OWNER,
        uuid=uuid or new_uuid(),
        class_number=0 if number is None else number,  # of another event: it is refused
        payload={"name": name},
    )
    store.append([event])


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return a name without blanks around it, or raise if it is no good."""
    plain = name.strip()
    alike = [known for known in taken if known.casefold() == plain.casefold()]
    if not plain:
        why = "a class needs a name"
    elif alike:
        why = f"'{alike[0]}' is a class already"
    elif plain.casefold() in SAYINGS:
        why = "a file of answers means something else by it"
    elif not plain.isprintable():
        why = "it holds characters that cannot be printed"
    else:
        return plain
    raise UsageError(f"The class {name!r} was not taken: {why}. Give another name.")
