"""Labels for many images at a glance, and their undoing, inside a transaction."""

from collections.abc import Sequence
from uuid import UUID, uuid5

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.store import Event, Kind, Store
from fewlabels.store.chunks import chunked
from fewlabels.store.records import CONFIRMED, new_uuid


def confirm(
    store: Store, items: Sequence[str], name: str, who: str, uuid: str
) -> tuple[str, ...]:
    """Give a class to many images; see :meth:`Labeling.confirm`."""
    numbers = {one.name: one.number for one in store.classes()}
    if name not in numbers:
        raise UnknownNameError("class", name, numbers)
    _check_not_measuring(store, items)
    spoken = store.verdicts(with_missing=True, items=items)
    mine = {one.item for one in spoken if one.uuid == _part(uuid, one.item)}
    free = _free(store, items, who) - {one.item for one in spoken}
    given = [item for item in dict.fromkeys(items) if item in mine | free]
    store.append(
        Event(
            kind=Kind.LABEL,
            annotator=who,
            uuid=_part(uuid, item),
            item=item,
            class_number=numbers[name],
            strategy=CONFIRMED,
        )
        for item in given
    )
    return _in_force(store, given, uuid)  # sent again, it may have been undone


def take_back(
    store: Store, items: Sequence[str], confirmed: str, who: str, uuid: str
) -> tuple[str, ...]:
    """Undo a confirmation where it still holds; see :meth:`Labeling.take_back`."""
    holds = set(_in_force(store, items, confirmed))
    done = []
    for item in dict.fromkeys(items):
        own = _part(uuid, item)
        if item in holds or store.event(own) is not None:  # or it was sent before
            store.undo(who, target=_part(confirmed, item), uuid=own)
            done.append(item)
    return tuple(done)


def _in_force(store: Store, items: Sequence[str], uuid: str) -> tuple[str, ...]:
    """Return those of some images whose label a confirmation still is."""
    held = {one.uuid for one in store.verdicts(with_missing=True, items=items)}
    return tuple(item for item in items if _part(uuid, item) in held)


def _free(store: Store, items: Sequence[str], who: str) -> set[str]:
    """Return those of some images that no tab holds, found by holding them shortly."""
    token, found = new_uuid(), set()
    for some in chunked(items):
        leased = store.lease(who, len(some), among=some, token=token)
        found |= {one.item for one in leased.leases}
    store.release(token)
    return found


def _part(uuid: str, item: str) -> str:
    """Return the name of what is done to one of the items of a call."""
    try:
        return str(uuid5(UUID(uuid), item))
    except ValueError as error:
        told = f"'{uuid}' is not a UUID; let fewlabels.store.new_uuid() make one."
        raise UsageError(told) from error


def _check_not_measuring(store: Store, items: Sequence[str]) -> None:
    """Raise if one of some images measures, and would do so no longer."""
    wanted = set(items)
    for asked in store.rounds():
        for one in asked.items:
            if one.role == "audit" and one.item in wanted:
                raise UsageError(
                    f"The image '{one.item}' measures how good the model is, so that "
                    f"its label must not come from a model. Nothing was written."
                )
