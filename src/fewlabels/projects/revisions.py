"""Changes of many answers in one transaction, and their undoing as a whole.

An event that a change writes has a UUID made of the change's, the image and a number,
so that nothing but the UUID and the images is needed to find all of them again.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from fewlabels.errors import ReplayError, StoreError, UsageError, count
from fewlabels.projects.store import Event, Kind, Store, StoredEvent, new_uuid, records
from fewlabels.projects.store.database import chunked
from fewlabels.projects.store.records import Annotation, Asking


@dataclass(frozen=True)
class Revision:
    """A change of the answers about some images."""

    uuid: str
    annotator: str
    kind: Kind | None
    """Label or skip; None: take the answers back."""
    class_number: int | None
    predicted: frozenset[str]
    """Images for which a model predicts this class."""


@dataclass(frozen=True)
class Revised:
    """The outcome of a change of many answers."""

    items: tuple[str, ...]
    """Images that have changed."""
    num_same: int = 0
    """Images that were as wanted already."""
    num_others: int = 0
    """Images that were left out, since other people answered about them."""
    num_held: int = 0
    """Images that were left out, since a tab is about to label them."""


def part_uuid(uuid: str, part: str) -> str:
    """Return the UUID of the event that a call writes about an item or a class."""
    try:
        return str(uuid5(UUID(uuid), part))
    except ValueError as error:
        raise UsageError(f"'{uuid}' is not a UUID; use store.new_uuid().") from error


def revise(store: Store, wish: Revision, items: Sequence[str]) -> Revised:
    """Write a change, unless it is written already; see ``Project.revise``."""
    wanted = tuple(dict.fromkeys(items))
    known = _parts(store, wanted, wish.uuid)
    if known:
        _check_same(wish, known)
        return Revised(tuple(known))
    if len(wanted) > 1:
        _check_measuring(store, wanted)
    verdicts = _verdicts(store, wanted)
    asked: dict[str, Asking] = {}
    for some in chunked(wanted):
        asked |= store.asked(some)
    silent = [item for item in wanted if item not in verdicts]
    free = set() if wish.kind is None else _free(store, wish.annotator, silent)
    num_others = num_same = num_held = 0
    cleared: list[str] = []
    events: dict[str, tuple[Kind, Asking]] = {}
    for item in wanted:
        held = verdicts.get(item, [])
        own = _replaceable(held, wish.annotator)
        if own is None and held:
            num_others += 1
        elif own is None and wish.kind is None:
            num_same += 1
        elif own is None and item not in free:
            num_held += 1
        elif own is None:
            is_expected = item in wish.predicted
            how = records.CONFIRMED if is_expected else records.CORRECTED
            by = asked.get(item, Asking(None, how, None))
            events[item] = wish.kind or Kind.LABEL, by
        elif wish.kind is None:
            cleared.append(item)
        elif (own.kind is Kind.SKIP, own.class_number) == (
            wish.kind is Kind.SKIP,
            wish.class_number,
        ):
            num_same += 1
        else:
            if own.annotator != wish.annotator:
                cleared.append(item)
            kind = Kind.RELABEL if wish.kind is Kind.LABEL else wish.kind
            events[item] = kind, Asking(own.round, own.strategy, own.model)
    number_of = _clear(store, wish, cleared)
    store.append(
        Event(
            kind=kind,
            annotator=wish.annotator,
            uuid=part_uuid(wish.uuid, f"{number_of[item]}:{item}"),
            item=item,
            class_number=wish.class_number,
            **vars(by),
        )
        for item, (kind, by) in events.items()
    )
    changed = tuple(item for item in wanted if item in events or number_of[item])
    return Revised(changed, num_same, num_others, num_held)


def restore(
    store: Store, items: Sequence[str], revised: str, annotator: str, uuid: str
) -> tuple[str, ...]:
    """Undo a change, unless that is done already; see ``Project.restore``."""
    wanted = tuple(dict.fromkeys(items))
    known = _parts(store, wanted, uuid)
    if known:
        return tuple(known)
    parts, verdicts = _parts(store, wanted, revised), _verdicts(store, wanted)
    undos: list[Event] = []
    done: list[str] = []
    for item, events in parts.items():
        last = events[-1].event
        mine = [v for v in verdicts.get(item, []) if v.annotator == last.annotator]
        is_current = any(verdict.uuid == last.uuid for verdict in mine)
        if last.kind is Kind.UNDO:
            is_current = not mine
        elif last.annotator != annotator:
            raise StoreError(f"'{last.annotator}' made this change and can undo it.")
        if is_current:
            done.append(item)
            undos += [
                Event(
                    kind=Kind.UNDO,
                    annotator=part.event.annotator,
                    uuid=part_uuid(uuid, f"{number}:{item}"),
                    target=part.event.uuid,
                )
                for number, part in enumerate(reversed(events))
            ]
    store.append(undos)
    return tuple(done)


# ------------------------------------------------------------------------------ inside


def _parts(
    store: Store, items: Sequence[str], uuid: str
) -> dict[str, list[StoredEvent]]:
    """Return the events that a change wrote about each image, in their order."""
    parts: dict[str, list[StoredEvent]] = defaultdict(list)
    left, number = list(items), 0
    while left:
        item_of = {part_uuid(uuid, f"{number}:{item}"): item for item in left}
        left = []
        for stored in store.events(uuids=item_of):
            item = item_of[stored.event.uuid]
            parts[item].append(stored)
            left.append(item)
        number += 1
    return dict(parts)


def _check_same(wish: Revision, parts: dict[str, list[StoredEvent]]) -> None:
    """Refuse a change whose UUID is that of a different one."""
    for events in parts.values():
        last = events[-1].event
        kind = Kind.LABEL if last.kind is Kind.RELABEL else last.kind
        same = (wish.kind or Kind.UNDO, wish.class_number)
        if (kind, last.class_number) != same:
            raise ReplayError(f"The UUID {wish.uuid} came again with another change.")


def _check_measuring(store: Store, items: Sequence[str]) -> None:
    """Refuse images that measure, and those that wait in a round with such images.

    To refuse only those that measure would show which they are before somebody answers.
    """
    measuring = store.audit_items()
    rounds = (asked.items for asked in store.rounds())
    together = (r for r in rounds if any(entry.role == "audit" for entry in r))
    waiting = {entry.item for some in together for entry in some} & set(items)
    waiting -= _verdicts(store, sorted(waiting)).keys()
    num_refused = len(waiting | (measuring & set(items)))
    if num_refused:
        raise UsageError(
            f"{count(num_refused, 'image')} of these measure how good the model is, or "
            "wait in a round with such images. Change those one at a time."
        )


def _verdicts(store: Store, items: Sequence[str]) -> dict[str, list[Annotation]]:
    """Return the current verdicts on some images."""
    verdicts: dict[str, list[Annotation]] = defaultdict(list)
    for some in chunked(items):
        for verdict in store.verdicts(with_missing=True, items=some):
            verdicts[verdict.item].append(verdict)
    return dict(verdicts)


def _replaceable(verdicts: Sequence[Annotation], annotator: str) -> Annotation | None:
    """Return the verdict that a person may replace: an own or an imported one."""
    mine = (verdict for verdict in verdicts if verdict.annotator == annotator)
    imported = (verdict for verdict in verdicts if verdict.is_imported)
    return next(mine, None) or next(imported, None)


def _free(store: Store, annotator: str, items: Sequence[str]) -> set[str]:
    """Return those of some images that no tab is about to label."""
    token, free = new_uuid(), set[str]()
    for some in chunked(items):  # an item that can be leased is held by no tab
        leased = store.lease(annotator, len(some), among=some, token=token)
        free |= {lease.item for lease in leased.leases}
    store.release(token)
    return free


def _clear(store: Store, wish: Revision, items: Sequence[str]) -> dict[str, int]:
    """Undo the answers about some images, with all earlier ones below them.

    Returns:
        How many events that took for each image.
    """
    numbers: dict[str, int] = defaultdict(int)
    left: Sequence[str] = items
    while left:
        held = _verdicts(store, left)
        undos, left = [], []
        for item, verdicts in held.items():
            own = _replaceable(verdicts, wish.annotator)
            if own is not None and (wish.kind is None or own.is_imported):
                part = part_uuid(wish.uuid, f"{numbers[item]}:{item}")
                undos.append(
                    Event(
                        kind=Kind.UNDO,
                        annotator=own.annotator,
                        uuid=part,
                        target=own.uuid,
                    )
                )
                numbers[item] += 1
                left.append(item)
        store.append(undos)
    return numbers
