"""Answers about images, and classes: each call is one transaction of the store.

A call that has the argument ``uuid`` may be sent again under the same UUID
(:func:`store.new_uuid`), because a response was lost or a process was killed: it writes
nothing and returns what the first one did. Another call under that UUID is a
:class:`fewlabels.errors.ReplayError`. The annotator None is the user of this computer.

A call about many images gives each event a UUID made of its own, the image and a
number, so that nothing but the UUID and the images is needed to find all of them again.
"""

import getpass
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import UUID, uuid5

from fewlabels import errors
from fewlabels.errors import StoreError, UnknownNameError, UsageError
from fewlabels.projects.exchange import STATUS_WORDS
from fewlabels.projects.folder import NUM_TO_TELL_APART
from fewlabels.projects.store import Event, Kind, Store, StoredEvent, new_uuid, records
from fewlabels.projects.store.records import Asking, Verdict
from fewlabels.projects.store.store import LEASE_SECONDS

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

OWNER = "owner"
"""The annotator of events that add and rename classes."""


# ------------------------------------------------------------- answers, one at a time


class How(TypedDict, total=False):
    """Who gives an answer, and how it is sent."""

    annotator: str | None
    """Who answers."""
    uuid: str | None
    """UUID of this call, for sending it again; None for a new one."""
    lead_time: float | None
    """How long it took, in seconds."""
    in_turn: bool
    """Refuse the answer if others hold the image or have answered, and the annotator's
    own lease has ended."""


def label(project: "Project", item: str, name: str, **how: Unpack[How]) -> StoredEvent:
    """Give an image its class.

    Args:
        project: The project.
        item: Id of an image that was asked about.
        name: Name of the class.
        **how: Who answers, and how it is sent: see :class:`How`.

    Returns:
        The event. It is refused if the annotator has answered about the image already:
        no tab silently overwrites an answer from another.
    """
    return _answer(project, item, Kind.LABEL, name, **how)


def skip(project: "Project", item: str, **how: Unpack[How]) -> StoredEvent:
    """Mark an image as not worth a label; arguments as for :func:`label`."""
    return _answer(project, item, Kind.SKIP, **how)


def unsure(project: "Project", item: str, **how: Unpack[How]) -> StoredEvent:
    """Leave an image to somebody else; arguments as for :func:`label`."""
    return _answer(project, item, Kind.UNSURE, **how)


def change(
    project: "Project",
    item: str,
    name: str | None,
    *,
    is_repeat: bool = False,
    **how: Unpack[How],
) -> StoredEvent:
    """Replace an earlier answer about an image.

    Args:
        project: The project.
        item: Id of an image that the annotator has answered about, or whose label was
            imported by anybody.
        name: Name of the class; None if it is not worth a label after all.
        is_repeat: Whether a confirmed image was labeled once more, one by one and
            without a suggestion. Where it differs from the first, that was a slip.
        **how: Who answers, and how it is sent: see :class:`How`.

    Returns:
        The event, which costs no budget; without a UUID, and if nothing changes, the
        earlier one.
    """
    kind = Kind.RELABEL if name else Kind.SKIP
    return _answer(
        project, item, kind, name, is_change=True, is_repeat=is_repeat, **how
    )


def _answer(
    project: "Project",
    item: str,
    kind: Kind,
    name: str | None = None,
    *,
    is_change: bool = False,
    is_repeat: bool = False,
    **how: Unpack[How],
) -> StoredEvent:
    """Write an answer, unless it is written already, and return its event."""
    who, uuid = annotator_name(how.get("annotator")), how.get("uuid")
    with project.store.writing() as store:
        number_of = {entry.name: entry.number for entry in store.classes()}
        facts: dict[str, Any] = {"kind": kind, "annotator": who, "item": item}
        if name in number_of:  # else it may have been renamed since the first time
            facts["class_number"] = number_of[name]
        sent = store.sent(uuid, **facts)
        if sent is not None:
            return sent
        if name is not None and name not in number_of:
            raise UnknownNameError("class", name, number_of)
        verdicts = store.verdicts(items=[item])
        own = [verdict for verdict in verdicts if verdict.annotator == who]
        before = _replaceable(verdicts if is_change else own, who)
        if before is not None and not is_change:
            answered = f"'{who}' has answered about '{item}' already"
            raise StoreError(f"{answered}; change or undo that.")
        if before is None and is_change:
            raise StoreError(f"'{who}' has not answered about '{item}' yet; label it.")
        by = before.asking if before else store.asked([item]).get(item)
        if by is None:
            raise StoreError(f"Nobody asked about the image '{item}'. Ask first.")
        if how.get("in_turn"):
            _check_room(store, item, who, verdicts, project.settings.overlap)
        more = {"lead_time": how.get("lead_time")}
        if is_repeat and before is not None:
            more[records.REPEATED] = before.class_number
        payload = {key: value for key, value in more.items() if value is not None}
        event = Event(uuid=uuid or new_uuid(), payload=payload, **facts, **vars(by))
        if before is not None:
            if uuid is None and before.says(kind, event.class_number):
                (stored,) = store.events(uuids=[before.uuid])
                return stored
            if before.annotator != who:
                store.undo(before.annotator, target=before.uuid)
        return store.append([event])[0]


def undo(
    project: "Project",
    *,
    annotator: str | None = None,
    uuid: str | None = None,
    target: str | None = None,
    token: str | None = None,
) -> StoredEvent:
    """Take back the annotator's last answer in force, of any round.

    A label of :func:`revise` or of an import is not an answer.

    Args:
        project: The project.
        annotator: Whose answer.
        uuid: UUID of this call, for sending it again; None for a new one.
        target: UUID of another answer to take back.
        token: Token of the browser tab that leases the image again, before anybody
            else can; None to leave it free for all.

    Returns:
        The event.
    """
    who, overlap = annotator_name(annotator), project.settings.overlap
    with project.store.writing() as store:
        undone = store.undo(who, target=target, uuid=uuid)
        if token is not None:
            item = str(undone.item)
            store.lease(who, 1, overlap=overlap, among=[item], token=token)
        return undone


def lease(
    project: "Project",
    count: int = 1,
    *,
    annotator: str | None = None,
    token: str | None = None,
    ttl: float = LEASE_SECONDS,
) -> records.Leased:
    """Lease the next images of the last round, which nobody else gets meanwhile.

    Args:
        project: The project.
        count: How many, at most.
        annotator: Who labels.
        token: Token of the browser tab or process, for sending it again: what it still
            holds comes first. None for a new one.
        ttl: Seconds until the lease expires without a :meth:`store.Store.heartbeat`.

    Returns:
        The images, and how many more others hold.
    """
    who, overlap = annotator_name(annotator), project.settings.overlap
    return project.store.lease(
        who, count, overlap=overlap, ttl=ttl, asked=True, token=token
    )


def annotator_name(annotator: str | None) -> str:
    """Return the name of an annotator; for None that of this computer's user."""
    if annotator == "":
        raise UsageError("The annotator has an empty name. Give a name, or None.")
    with suppress(ImportError, KeyError, OSError):  # a system without user names
        return annotator or getpass.getuser()
    return OWNER


def _replaceable(verdicts: Iterable[Verdict], annotator: str) -> Verdict | None:
    """Return the verdict that a person may replace: an own or an imported one."""
    given = [v for v in verdicts if v.annotator == annotator or v.is_imported]
    return min(given, key=lambda v: v.annotator != annotator, default=None)


def _check_room(
    store: Store, item: str, who: str, given: Sequence[Verdict], overlap: int
) -> None:
    """Raise if others have given, or are about to give, all answers wanted."""
    holders = store.holders([item])[item]
    num_given = sum(records.num_answers(verdict.kind, overlap) for verdict in given)
    if who not in holders and num_given + len(holders) >= overlap:
        others = (*(verdict.annotator for verdict in given), *holders)
        names = ", ".join(f"'{name}'" for name in others)
        raise StoreError(f"You no longer had '{item}': {names} took it over.")


# --------------------------------------------------------------- many answers at once


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


def revise(
    project: "Project",
    items: Sequence[str],
    name: str | None = None,
    *,
    uuid: str,
    annotator: str | None = None,
    skip: bool = False,
    predicted: Collection[str] = (),
    unanswered: bool = False,
) -> Revised:
    """Change the answers about any images: all of them or, if one fails, none.

    An own answer, or an imported label, is replaced. An image without an answer gets
    one: of the round that asked about it, or else ``"confirmed"`` or ``"corrected"``.
    Such labels train, cost no budget, and never measure, since a guess sways whoever
    sees it. Images that others answered about, or that a tab is about to label, are
    left out.

    Args:
        project: The project.
        items: Ids of the images. Several at once may not measure, nor wait in a round
            with images that do.
        name: Name of the class; None: take the answers back.
        uuid: UUID of this call, for sending it again.
        annotator: Who.
        skip: With None as its name: mark them as not worth a label.
        predicted: Images for which a model predicts this class; without an answer
            before, their label is ``"confirmed"``.
        unanswered: Whether to leave out all images with an answer, because they were
            seen at a glance; then none of them may measure.

    Returns:
        What has changed.
    """
    who, wanted = annotator_name(annotator), tuple(dict.fromkeys(items))
    kind, number = Kind.SKIP if skip else Kind.UNDO, None
    events: list[Event] = []
    changed: list[str] = []
    left_out: Counter[str] = Counter()
    with project.store.writing() as store:
        if name is not None:
            names = _names(store)
            if name not in names:
                raise UnknownNameError("class", name, names)
            kind, number = Kind.LABEL, names.index(name)
        sent = _parts(store, wanted, uuid)
        if sent:
            kinds = {kind} if name is None else records.LABELS
            last = [parts[-1] for parts in sent.values()]
            if any(e.kind not in kinds or e.class_number != number for e in last):
                msg = f"The UUID {uuid} came again with another change."
                raise errors.ReplayError(msg)
            return Revised(tuple(sent))
        given = records.by_item(store.verdicts(items=wanted, with_replaced=True))
        if unanswered or len(wanted) > 1:
            silent = () if unanswered else set(wanted) - given.keys()
            _check_measuring(store, wanted, silent)
        asked, holders = store.asked(wanted), store.holders(wanted)
        for item in wanted:
            current = {verdict.annotator: verdict for verdict in given[item]}.values()
            own = None if unanswered else _replaceable(current, who)
            reason = "num_same" if own and own.says(kind, number) else None
            if own is None and current:
                reason = "num_others"
            elif own is None and (kind is Kind.UNDO or item in holders):
                reason = "num_same" if kind is Kind.UNDO else "num_held"
            if reason is not None:
                left_out[reason] += 1
                continue
            changed.append(item)
            parts: list[Event] = []
            if own is not None and (kind is Kind.UNDO or own.annotator != who):
                mine = [v for v in given[item] if v.annotator == who or v.is_imported]
                parts = [undo_of(verdict) for verdict in reversed(mine)]
            if kind is not Kind.UNDO:
                how = records.CONFIRMED if item in predicted else records.CORRECTED
                by = own.asking if own else asked.get(item, Asking(None, how, None))
                new = Kind.RELABEL if own and kind is Kind.LABEL else kind
                parts.append(Event(new, who, item, number, **vars(by)))
            events += _numbered(uuid, item, parts)
        store.append(events)
    return Revised(tuple(changed), **left_out)


def restore(
    project: "Project",
    items: Sequence[str],
    revised: str,
    *,
    uuid: str,
    annotator: str | None = None,
) -> tuple[str, ...]:
    """Undo what :func:`revise` did under the UUID ``revised``.

    Returns:
        Ids of the images; those whose answers changed meanwhile stay as they are.
    """
    who, wanted = annotator_name(annotator), tuple(dict.fromkeys(items))
    events: list[Event] = []
    done: list[str] = []
    with project.store.writing() as store:
        sent = _parts(store, wanted, uuid)
        if sent:
            return tuple(sent)
        current = records.by_item(store.verdicts(items=wanted))
        for item, parts in _parts(store, wanted, revised).items():
            last = parts[-1]
            held = [v.uuid for v in current[item] if v.annotator == last.annotator]
            if last.kind is not Kind.UNDO and last.annotator != who:
                raise StoreError(
                    f"'{last.annotator}' made this change and can undo it."
                )
            if held == ([] if last.kind is Kind.UNDO else [last.uuid]):
                done.append(item)
                events += _numbered(uuid, item, map(undo_of, reversed(parts)))
        store.append(events)
    return tuple(done)


def undo_written(store: Store, uuid: str) -> int:
    """Undo the verdicts that a call wrote and that are in force; return how many."""
    given = store.verdicts()
    mine = [v for v in given if v.uuid == part_uuid(uuid, v.item, v.annotator)]
    return len(store.append(map(undo_of, mine)))


def undo_of(event: Event) -> Event:
    """Return the event that undoes another one, in the name of whoever wrote that."""
    return Event(Kind.UNDO, event.annotator, target=event.uuid)


def part_uuid(uuid: str, *part: object) -> str:
    """Return the UUID of an event that a call under a UUID writes about something."""
    try:
        return str(uuid5(UUID(uuid), "\n".join(map(str, part))))
    except ValueError as error:
        raise UsageError(f"'{uuid}' is not a UUID; use store.new_uuid().") from error


def _numbered(uuid: str, item: str, events: Iterable[Event]) -> list[Event]:
    """Return the events of a call about an image, under UUIDs that can be computed."""
    numbered = enumerate(events)
    return [replace(event, uuid=part_uuid(uuid, n, item)) for n, event in numbered]


def _parts(store: Store, items: Sequence[str], uuid: str) -> dict[str, list[Event]]:
    """Return the events that a call wrote about each image, in their order."""
    parts: dict[str, list[Event]] = defaultdict(list)
    left, number = list(items), 0
    while left:
        item_of = {part_uuid(uuid, number, item): item for item in left}
        left = []
        for stored in store.events(uuids=item_of):
            item = item_of[stored.uuid]
            parts[item].append(stored)
            left.append(item)
        number += 1
    return parts


def _check_measuring(
    store: Store, items: Sequence[str], unanswered: Collection[str]
) -> None:
    """Refuse images that measure, and those that wait in a round with such images.

    To refuse only those that measure would show which they are before somebody answers.
    """
    rounds = store.rounds()
    refused = records.measuring_items(rounds) & set(items)
    for asked in rounds:
        if records.measuring_items([asked]):
            refused |= {entry.item for entry in asked.items} & set(unanswered)
    if refused:
        number = errors.count(len(refused), "image")
        raise UsageError(
            f"{number} of these measure how good the model is, or wait in a round with "
            "such images. Change those one at a time."
        )


# --------------------------------------------------------------------------- classes


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
        return _names(store)


def rename_class(
    project: "Project", old: str, new: str, *, uuid: str | None = None
) -> tuple[str, ...]:
    """Give a class another name, and return the names of all."""
    with project.store.writing() as store:
        names, payload = _names(store), {"name": new.strip()}
        if store.sent(uuid, kind=Kind.CLASS_RENAMED, payload=payload) is None:
            if old not in names:
                raise UnknownNameError("class", old, names)
            free_name(new, {*names} - {old})
            write_class(store, Kind.CLASS_RENAMED, names.index(old), payload, uuid)
        return _names(store)


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
    events: list[Event] = []
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
        kind = Kind.SKIP if into is None else Kind.RELABEL
        target = None if into is None else number_of[into]
        merged = [label for label in store.labels() if label.class_number == number]
        for old in merged:
            more = vars(old.asking) | {"payload": {"merged": own}}
            more["uuid"] = part_uuid(own, old.item, old.annotator)
            events.append(Event(kind, old.annotator, old.item, target, **more))
        store.append(events)
        facts["num_labels"] = len(merged)
        write_class(store, Kind.CLASS_RETIRED, number, facts, own)
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
        num_labels = undo_written(store, removed[name].uuid)
        facts = {"name": name, "num_labels": num_labels}
        number = _names(store).index(name)
        write_class(store, Kind.CLASS_RESTORED, number, facts, uuid)
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
    kind, number = Kind.CLASS_ADDED, len(classes)
    for entry in classes:
        if entry.name == facts["name"] and not entry.is_active:
            kind, number = Kind.CLASS_RESTORED, entry.number
    if kind is Kind.CLASS_ADDED:
        free_name(name, [entry.name for entry in classes])
    write_class(store, kind, number, facts, uuid)


def removed_classes(store: Store) -> dict[str, StoredEvent]:
    """Return the event that retired each class that is not in use, by its name."""
    name_of = {e.number: e.name for e in store.classes() if not e.is_active}
    events = store.events(kinds={Kind.CLASS_RETIRED})
    retired = {stored.class_number or 0: stored for stored in events}
    return {name_of[n]: stored for n, stored in retired.items() if n in name_of}


def _names(store: Store) -> tuple[str, ...]:
    return tuple(entry.name for entry in store.classes())


def write_class(
    store: Store, kind: Kind, number: int, facts: Mapping[str, Any], uuid: str | None
) -> None:
    """Write an event about a class, under a UUID or, with None, a new one."""
    uuid = uuid or new_uuid()
    store.append([Event(kind, OWNER, None, number, uuid=uuid, payload=facts)])
