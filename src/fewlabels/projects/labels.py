"""What people say about images and classes, inside a transaction of the label store.

Each call may be named by a UUID (:func:`store.new_uuid`). The same call under
the same UUID, because an answer was lost or a process was killed, writes nothing and
returns what the first one did; another call under it is a
:class:`fewlabels.errors.ReplayError`.
"""

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

from fewlabels.errors import ReplayError, StoreError, UnknownNameError, UsageError
from fewlabels.projects.exchange.reader import Answer
from fewlabels.projects.exchange.rows import STATUS_WORDS
from fewlabels.projects.store import Annotation, Asking, Event, Kind, Store, StoredEvent
from fewlabels.projects.store.database import chunked
from fewlabels.projects.store.records import CONFIRMED, NAMING, new_uuid, num_answers

OWNER = "owner"
"""In whose name classes are added and renamed."""

_INCIDENTAL = ("client_time", "round", "strategy", "model", "payload")
_NOTHING = "Nothing was written."


def named(annotator: str | None) -> str:
    """Return who speaks; None: the name of this computer's user."""
    if annotator == "":
        raise UsageError(
            "The annotator has an empty name, and two people would be taken for one. "
            f"Give a name, or None for this computer's user. {_NOTHING}"
        )
    if annotator is not None:
        return annotator
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a system without user names
        return OWNER


def part_uuid(uuid: str, part: str) -> str:
    """Return the UUID of what a call does to one of its items, or to a class."""
    try:
        return str(uuid5(UUID(uuid), part))
    except ValueError as error:
        msg = f"'{uuid}' is not a UUID; let store.new_uuid() make one."
        raise UsageError(msg) from error


# ------------------------------------------------------------------------- answers


def say(
    store: Store,
    said: Answer,
    kind: Kind,
    uuid: str | None,
    *,
    is_change: bool = False,
    room: int | None = None,
) -> StoredEvent:
    """Write an answer, unless it is written already.

    Args:
        store: The label store, inside a transaction.
        said: The answer.
        kind: What it is: a label, a change, a skip.
        uuid: Names the call.
        is_change: Whether it replaces an earlier answer, which has to be there.
        room: Answers that are wanted; it is refused where others have given, or are
            about to give, as many. None: that is not looked at.

    Returns:
        What was written, or holds already.
    """
    known = store.event(uuid) if uuid else None
    number_of = {one.name: one.number for one in store.classes()}
    if known is not None and said.label is not None:  # renamed since, perhaps
        number_of = _numbers_before(store, known.sequence)
        if said.label not in number_of:
            raise ReplayError(
                f"The UUID {uuid} came again with another content: there was no class "
                f"'{said.label}' at event {known.sequence}. Make a new UUID for a new "
                f"action. {_NOTHING}"
            )
    asked = store.asked([said.id])
    held = store.verdicts(with_missing=True, items=[said.id])
    before = next((v for v in held if v.annotator == said.annotator), None)
    if is_change:
        before = before or next((v for v in held if v.is_imported), None)
        for verdict in held if before is None else (before,):
            if not verdict.is_asked:  # confirmed or imported
                by = Asking(verdict.round, verdict.strategy, verdict.model)
                asked = {said.id: by}
    event = event_of(said, kind, number_of, asked, uuid)
    if known is not None:  # who said what decides, not when and in which round
        other = {name: getattr(known.event, name) for name in _INCIDENTAL}
        store.append([replace(event, **other)])
        return known
    _check_turn(before, event, number_of, is_change=is_change)
    if room is not None:
        _check_room(store, event, held, room)
    if before is not None:
        is_same = before.class_number == event.class_number
        if event.class_number is None:
            is_same = before.kind is kind
        if uuid is None and is_same:
            return _stored(store, before.uuid)
        if before.annotator != event.annotator:
            who, target = before.annotator, before.uuid
            store.append([Event(kind=Kind.UNDO, annotator=who, target=target)])
    store.append([event])
    return _stored(store, event.uuid)


def _stored(store: Store, uuid: str) -> StoredEvent:
    stored = store.event(uuid)
    assert stored is not None
    return stored


def event_of(
    said: Answer,
    kind: Kind,
    number_of: Mapping[str, int],
    asked: Mapping[str, Asking],
    uuid: str | None = None,
) -> Event:
    """Return an answer as the store keeps it, if somebody asked about the image."""
    if said.label is not None and said.label not in number_of:
        raise UnknownNameError("class", said.label, number_of)
    if said.id not in asked:
        raise StoreError(
            f"Nobody asked about the image '{said.id}', so it has no place in the "
            f"budget. Ask first, and answer what is asked. {_NOTHING}"
        )
    by = asked[said.id]
    payload: dict[str, Any] = {}
    if said.lead_time is not None:
        payload["lead_time"] = said.lead_time
    if said.unsure and said.label is not None:
        payload["unsure"] = True
    return Event(
        kind=kind,
        annotator=named(said.annotator),
        uuid=uuid or new_uuid(),
        item=said.id,
        class_number=None if said.label is None else number_of[said.label],
        client_time=said.time,
        round=by.round,
        strategy=by.strategy,
        model=by.model,
        payload=payload,
    )


def _check_turn(
    before: Annotation | None,
    event: Event,
    number_of: Mapping[str, int],
    *,
    is_change: bool,
) -> None:
    """Raise if a change has no answer before it, or a first answer has one."""
    who, item = event.annotator, event.item
    if before is None and is_change:
        raise StoreError(
            f"'{who}' has not answered about '{item}' yet; there is nothing to change. "
            f"Label it. {_NOTHING}"
        )
    if before is not None and not is_change:
        name_of = {number: name for name, number in number_of.items()}
        word = before.kind.value
        if before.class_number is not None:
            word = name_of[before.class_number]
        raise StoreError(
            f"'{who}' has answered about '{item}' already: '{word}'. Change or undo "
            f"that. {_NOTHING}"
        )


def _check_room(
    store: Store, event: Event, given: Sequence[Annotation], room: int
) -> None:
    """Raise where others have given, or are about to give, all answers wanted."""
    others = store.holders(str(event.item))
    if event.annotator in others:
        return
    num_answered = sum(num_answers(one.kind, room) for one in given)
    if num_answered + len(others) >= room:
        people = (*(one.annotator for one in given), *others)
        who = ", ".join(f"'{name}'" for name in people)
        raise StoreError(
            f"You no longer had the image '{event.item}': {who} took it over "
            f"meanwhile, and {room} answer{'s are' if room > 1 else ' is'} wanted. "
            f"{_NOTHING}"
        )


# ----------------------------------------------------------------- many at a glance


def confirm(
    store: Store, items: Sequence[str], name: str, who: str, uuid: str
) -> tuple[str, ...]:
    """Give a class to many images; see :meth:`Project.confirm`."""
    numbers = {one.name: one.number for one in store.classes()}
    if name not in numbers:
        raise UnknownNameError("class", name, numbers)
    audit = {o.item for r in store.rounds() for o in r.items if o.role == "audit"}
    measuring = next((item for item in items if item in audit), None)
    if measuring is not None:
        raise UsageError(
            f"The image '{measuring}' measures how good the model is, so that its "
            f"label must not come from a model. {_NOTHING}"
        )
    spoken = store.verdicts(with_missing=True, items=items)
    mine = {one.item for one in spoken if one.uuid == part_uuid(uuid, one.item)}
    token, free = new_uuid(), set()
    for some in chunked(items):  # what no tab holds is found by holding it shortly
        leased = store.lease(who, len(some), among=some, token=token)
        free |= {one.item for one in leased.leases}
    store.release(token)
    free -= {one.item for one in spoken}
    given = [item for item in dict.fromkeys(items) if item in mine | free]
    store.append(
        Event(
            kind=Kind.LABEL,
            annotator=who,
            uuid=part_uuid(uuid, item),
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
    """Undo a confirmation where it still holds; see :meth:`Project.take_back`."""
    holds = set(_in_force(store, items, confirmed))
    done = []
    for item in dict.fromkeys(items):
        own = part_uuid(uuid, item)
        if item in holds or store.event(own) is not None:  # or it was sent before
            store.undo(who, target=part_uuid(confirmed, item), uuid=own)
            done.append(item)
    return tuple(done)


def _in_force(store: Store, items: Sequence[str], uuid: str) -> tuple[str, ...]:
    """Return those of some images whose label a confirmation still is."""
    held = {one.uuid for one in store.verdicts(with_missing=True, items=items)}
    return tuple(item for item in items if part_uuid(uuid, item) in held)


# ------------------------------------------------------------------------- classes


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


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return a name without blanks around it, or raise if it is no good."""
    plain = name.strip()
    alike = [known for known in taken if known.casefold() == plain.casefold()]
    if not plain:
        why = "a class needs a name"
    elif alike:
        why = f"'{alike[0]}' is a class already"
    elif plain.casefold() in STATUS_WORDS:
        why = "a file of answers means something else by it"
    elif not plain.isprintable():
        why = "it holds characters that cannot be printed"
    else:
        return plain
    raise UsageError(f"The class {name!r} was not taken: {why}. Give another name.")


def add_class(store: Store, name: str, uuid: str | None = None) -> None:
    """Add a class that was forgotten; once for a UUID.

    A class that is not in use any more comes back under its number.
    """
    known = store.event(uuid) if uuid else None
    listed, plain = store.classes(), name.strip()
    retired = {entry.name: entry.number for entry in listed if not entry.is_active}
    if known is not None:
        _write_class(store, known.event.kind, known.event.class_number, plain, uuid)
    elif plain in retired:
        _write_class(store, Kind.CLASS_RESTORED, retired[plain], plain, uuid)
    else:
        plain = free_name(name, [entry.name for entry in listed])
        _write_class(store, Kind.CLASS_ADDED, len(listed), plain, uuid)


def retire_class(store: Store, number: int) -> None:
    """Take a class out of use; labels that name it stay."""
    name = store.classes()[number].name
    _write_class(store, Kind.CLASS_RETIRED, number, name, None)


def rename_class(store: Store, old: str, new: str, uuid: str | None = None) -> None:
    """Give a class another name; once for a UUID."""
    names = all_names(store)
    known = store.event(uuid) if uuid else None
    if known is not None:
        number, name = known.event.class_number, new.strip()
    elif old not in names:
        raise UnknownNameError("class", old, names)
    else:
        number = names.index(old)
        name = free_name(new, [other for other in names if other != old])
    _write_class(store, Kind.CLASS_RENAMED, number, name, uuid)


def all_names(store: Store) -> tuple[str, ...]:
    """Return the names of all classes in the order of their numbers."""
    return tuple(one.name for one in store.classes())


def _numbers_before(store: Store, sequence: int) -> dict[str, int]:
    """Return the number of each class by the name it had before an event."""
    name_of = {
        one.event.class_number or 0: str(one.event.payload["name"])
        for one in store.events(kinds=NAMING)
        if one.sequence < sequence
    }
    return {name: number for number, name in name_of.items()}


def _write_class(
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
