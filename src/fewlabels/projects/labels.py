"""Labels and classes of a project: each call is one transaction of the label store."""

import getpass
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from fewlabels.errors import ReplayError, StoreError, UnknownNameError, UsageError
from fewlabels.projects.exchange import STATUS_WORDS, Answer
from fewlabels.projects.folder import NUM_TO_TELL_APART, ProjectFolder
from fewlabels.projects.revisions import Revised, Revision, part_uuid, restore, revise
from fewlabels.projects.store import Event, Kind, Store, StoredEvent, new_uuid, records
from fewlabels.projects.store.database import chunked
from fewlabels.projects.store.leases import LEASE_SECONDS
from fewlabels.projects.store.records import Lease

OWNER = "owner"
"""The annotator of events that add and rename classes."""

_INCIDENTAL = ("client_time", "round", "strategy", "model", "payload")


class ProjectLabels(ProjectFolder):
    """The methods of a project that write to its label store.

    A call that has the argument ``uuid`` may be sent again under the same UUID
    (:func:`store.new_uuid`), because a response was lost or a process was killed: it
    writes nothing and returns what the first one did. Another call under that UUID is a
    :class:`fewlabels.errors.ReplayError`. The annotator None is the user of this
    computer.
    """

    # ------------------------------------------------------- answers, one at a time

    def label(
        self,
        item: str,
        name: str,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        time: datetime | None = None,
        lead_time: float | None = None,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Give an image its class.

        Args:
            item: Id of an image that was asked about.
            name: Name of the class.
            annotator: Who labels.
            uuid: UUID of this call, for sending it again; None for a new one.
            time: When it was labeled, by the annotator's clock.
            lead_time: How long it took, in seconds.
            in_turn: Refuse the label if others hold the image or have answered, and the
                annotator's own lease has ended.

        Returns:
            The event. It is refused if the annotator has answered about the image
            already: no tab silently overwrites an answer from another.
        """
        answer = Answer(
            id=item, label=name, annotator=annotator, time=time, lead_time=lead_time
        )
        return self._write(answer, Kind.LABEL, uuid, in_turn=in_turn)

    def skip(
        self,
        item: str,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Mark an image as not worth a label; arguments as for :meth:`label`."""
        answer = Answer(id=item, label=None, annotator=annotator)
        return self._write(answer, Kind.SKIP, uuid, in_turn=in_turn)

    def unsure(
        self,
        item: str,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Leave an image to somebody else; arguments as for :meth:`label`."""
        answer = Answer(id=item, label=None, annotator=annotator)
        return self._write(answer, Kind.UNSURE, uuid, in_turn=in_turn)

    def change(
        self,
        item: str,
        name: str | None,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        unsure: bool = False,
    ) -> StoredEvent:
        """Replace an earlier answer about an image.

        Args:
            item: Id of an image that the annotator has answered about, or whose label
                was imported by anybody.
            name: Name of the class; None if it is not worth a label after all.
            annotator: Whose answer changes.
            uuid: UUID of this call, for sending it again; None for a new one.
            unsure: With None as its name: the annotator does not know after all.

        Returns:
            The event; without a UUID, and if nothing changes, the earlier one.
        """
        kind = Kind.RELABEL if name else Kind.UNSURE if unsure else Kind.SKIP
        answer = Answer(id=item, label=name, annotator=annotator)
        return self._write(answer, kind, uuid, is_change=True)

    def repeat(
        self,
        item: str,
        name: str,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
    ) -> StoredEvent:
        """Label a confirmed image once more, one by one and without a suggestion.

        Arguments as for :meth:`label`.

        Returns:
            The event. It costs no budget. Where it differs from the first, that was a
            slip.
        """
        answer = Answer(id=item, label=name, annotator=annotator)
        return self._write(answer, Kind.RELABEL, uuid, is_change=True, is_repeat=True)

    def _write(
        self,
        answer: Answer,
        kind: Kind,
        uuid: str | None,
        *,
        is_change: bool = False,
        is_repeat: bool = False,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Write an answer, unless it is written already, and return its event."""
        who, item = annotator_name(answer.annotator), answer.id
        with self.store.writing() as store:
            known = store.event(uuid) if uuid else None
            number_of = {entry.name: entry.number for entry in store.classes()}
            if known is not None and answer.label is not None:
                number_of = _numbers_before(store, known, answer.label)
            asked = store.asked([item])
            verdicts = store.verdicts(with_missing=True, items=[item])
            before = next((v for v in verdicts if v.annotator == who), None)
            if is_change:
                before = before or next((v for v in verdicts if v.is_imported), None)
                for verdict in verdicts if before is None else (before,):
                    if not verdict.is_asked:  # confirmed or imported
                        by = (verdict.round, verdict.strategy, verdict.model)
                        asked = {item: records.Asking(*by)}
            repeated = before if is_repeat else None
            event = answer_event(answer, kind, number_of, asked, uuid, repeated)
            if known is not None:  # who gave which answer decides, not when and why
                rest = {name: getattr(known.event, name) for name in _INCIDENTAL}
                store.append([replace(event, **rest)])
                return known
            if (before is not None) != is_change:
                word = "already; change or undo that" if before else "yet; label it"
                has = "has" if before else "has not"
                raise StoreError(f"'{who}' {has} answered about '{item}' {word}.")
            if in_turn:
                _check_room(store, event, verdicts, self.settings.overlap)
            if before is not None:
                is_same = before.class_number == event.class_number
                if event.class_number is None:
                    is_same = before.kind is kind
                if uuid is None and is_same:
                    return _stored(store, before.uuid)
                if before.annotator != who:
                    store.undo(before.annotator, target=before.uuid)
            store.append([event])
            return _stored(store, event.uuid)

    def undo(
        self,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        target: str | None = None,
        token: str | None = None,
    ) -> StoredEvent:
        """Take back the annotator's last answer in force, of any round.

        A confirmation is not an answer; :meth:`take_back` undoes it.

        Args:
            annotator: Whose answer.
            uuid: UUID of this call, for sending it again; None for a new one.
            target: UUID of another answer to take back.
            token: Token of the browser tab that leases the image again, before anybody
                else can; None to leave it free for all.

        Returns:
            The event.
        """
        who, overlap = annotator_name(annotator), self.settings.overlap
        with self.store.writing() as store:
            undone = store.undo(who, target=target, uuid=uuid)
            if token is not None:
                item = str(undone.event.item)
                store.lease(who, 1, overlap=overlap, among=[item], token=token)
            return undone

    # ---------------------------------------------------------------- confirmations

    def confirm(
        self,
        items: Sequence[str],
        name: str,
        *,
        uuid: str,
        annotator: str | None = None,
        is_correction: bool = False,
    ) -> tuple[str, ...]:
        """Give a class to many images for which a model predicts it, seen at a glance.

        Such labels are used for training. They cost no budget, have the strategy
        ``"confirmed"`` or ``"corrected"``, and never measure, since a guess sways
        whoever sees it.

        Args:
            items: Ids of images; those that somebody has answered about, or is being
                asked about, are left out.
            name: Name of the class.
            uuid: UUID of this call, for sending it again.
            annotator: Who confirms.
            is_correction: Whether the model predicts another class.

        Returns:
            Ids of the images that have this label from now on.
        """
        who = annotator_name(annotator)
        with self.store.writing() as store:
            numbers = {entry.name: entry.number for entry in store.classes()}
            if name not in numbers:
                raise UnknownNameError("class", name, numbers)
            audit = store.audit_items() & set(items)
            if audit:
                raise UsageError(f"'{min(audit)}' measures; a person has to label it.")
            verdicts = store.verdicts(with_missing=True, items=items)
            mine = {v.item for v in verdicts if v.uuid == part_uuid(uuid, v.item)}
            token, free = new_uuid(), set()
            for some in chunked(items):  # an item that can be leased is held by no tab
                leased = store.lease(who, len(some), among=some, token=token)
                free |= {lease.item for lease in leased.leases}
            store.release(token)
            free -= {verdict.item for verdict in verdicts}
            chosen = [item for item in dict.fromkeys(items) if item in mine | free]
            store.append(
                Event(
                    kind=Kind.LABEL,
                    annotator=who,
                    uuid=part_uuid(uuid, item),
                    item=item,
                    class_number=numbers[name],
                    strategy=records.CORRECTED if is_correction else records.CONFIRMED,
                )
                for item in chosen
            )
            return _in_force(store, chosen, uuid)  # sent again, it may be undone

    def take_back(
        self,
        items: Sequence[str],
        confirmed: str,
        *,
        uuid: str,
        annotator: str | None = None,
    ) -> tuple[str, ...]:
        """Undo what :meth:`confirm` did under the UUID ``confirmed``.

        Returns:
            Ids of the images; what was undone or changed meanwhile stays as it is.
        """
        who, undone = annotator_name(annotator), []
        with self.store.writing() as store:
            in_force = set(_in_force(store, items, confirmed))
            for item in dict.fromkeys(items):
                own = part_uuid(uuid, item)
                if item in in_force or store.event(own) is not None:  # or sent before
                    store.undo(who, target=part_uuid(confirmed, item), uuid=own)
                    undone.append(item)
        return tuple(undone)

    # -------------------------------------------------------- many answers at once

    def revise(
        self,
        items: Sequence[str],
        name: str | None = None,
        *,
        uuid: str,
        annotator: str | None = None,
        skip: bool = False,
        predicted: Collection[str] = (),
    ) -> Revised:
        """Change the answers about any images: all of them or, if one fails, none.

        An own answer, or an imported label, is replaced. An image without an answer
        gets one: of the round that asked about it, or else ``"corrected"``. Images that
        others answered about, or that a tab is about to label, are left out.

        Args:
            items: Ids of the images. Several at once may not measure, nor wait in a
                round with images that do.
            name: Name of the class; None: take the answers back.
            uuid: UUID of this call, for sending it again.
            annotator: Who.
            skip: With None as its name: mark them as not worth a label.
            predicted: Images for which a model predicts this class; without an answer
                before, their label is ``"confirmed"``.

        Returns:
            What has changed.
        """
        who = annotator_name(annotator)
        with self.store.writing() as store:
            number, kind = None, Kind.SKIP if skip else None
            if name is not None:
                numbers = {entry.name: entry.number for entry in store.classes()}
                if name not in numbers:
                    raise UnknownNameError("class", name, numbers)
                number, kind = numbers[name], Kind.LABEL
            wish = Revision(uuid, who, kind, number, frozenset(predicted))
            return revise(store, wish, items)

    def restore(
        self,
        items: Sequence[str],
        revised: str,
        *,
        uuid: str,
        annotator: str | None = None,
    ) -> tuple[str, ...]:
        """Undo what :meth:`revise` did under the UUID ``revised``, all of it at once.

        Returns:
            Ids of the images; those whose answers changed meanwhile stay as they are.
        """
        with self.store.writing() as store:
            return restore(store, items, revised, annotator_name(annotator), uuid)

    # -------------------------------------------------- leases, history and classes

    def lease(
        self,
        count: int = 1,
        *,
        annotator: str | None = None,
        token: str | None = None,
        ttl: float = LEASE_SECONDS,
    ) -> records.Leased:
        """Lease the next images of the last round, which nobody else gets meanwhile.

        Args:
            count: How many, at most.
            annotator: Who labels.
            token: Token of the browser tab or process, for sending it again: what it
                still holds comes first. None for a new one.
            ttl: Seconds until the lease expires without a :meth:`heartbeat`.

        Returns:
            The images, and how many more others hold.
        """
        who, overlap = annotator_name(annotator), self.settings.overlap
        return self.store.lease(
            who, count, overlap=overlap, ttl=ttl, among=-1, token=token
        )

    def heartbeat(self, token: str, *, ttl: float = LEASE_SECONDS) -> tuple[Lease, ...]:
        """Prolong the leases of a token and return those it still holds."""
        return self.store.heartbeat(token, ttl=ttl)

    def release(self, token: str, items: Sequence[str] | None = None) -> int:
        """End the leases of a token, or those on some images; return how many."""
        return self.store.release(token, items)

    def events(self, *, after: int = 0) -> Iterator[StoredEvent]:
        """Yield all events after number ``after``, in their order."""
        return self.store.events(after=after)

    def add_class(self, name: str, *, uuid: str | None = None) -> tuple[str, ...]:
        """Add a class that was forgotten, and return the names of all."""
        with self.store.writing() as store:
            add_class(store, name, uuid)
            return _class_names(store)

    def add_classes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Add several classes or, if one is refused, none; return the names of all."""
        with self.store.writing() as store:
            for name in names:
                add_class(store, name)
            return _class_names(store)

    def rename_class(
        self, old: str, new: str, *, uuid: str | None = None
    ) -> tuple[str, ...]:
        """Give a class another name, and return the names of all."""
        with self.store.writing() as store:
            names = _class_names(store)
            known = store.event(uuid) if uuid else None
            if known is not None:
                number, name = known.event.class_number, new.strip()
            elif old not in names:
                raise UnknownNameError("class", old, names)
            else:
                number = names.index(old)
                name = free_name(new, {*names} - {old})
            _write_class(store, Kind.CLASS_RENAMED, number, name, uuid)
            return _class_names(store)

    def merge_classes(
        self, name: str, into: str | None, *, uuid: str | None = None
    ) -> int:
        """Take a class out of use and give its labels another one, in one transaction.

        Args:
            name: The class.
            into: The class that its labels get; None: its images are skipped.
            uuid: UUID of this call, for sending it again; None for a new one.

        Returns:
            How many labels changed; :meth:`restore_class` brings them back.
        """
        with self.store.writing() as store:
            known = store.event(uuid) if uuid else None
            number_of = {e.name: e.number for e in store.classes() if e.is_active}
            facts: dict[str, Any] = {"name": name, "into": into}
            if known is not None:
                facts["num_labels"] = known.event.payload.get("num_labels")
                number = known.event.class_number
                _write_class(store, Kind.CLASS_RETIRED, number, name, uuid, facts)
                return int(facts["num_labels"])
            for given in (name,) if into is None else (name, into):
                if given not in number_of:
                    raise UnknownNameError("class", given, number_of)
            if name == into:
                raise UsageError(f"'{name}' cannot be merged into itself.")
            if len(number_of) <= NUM_TO_TELL_APART:
                raise UsageError("A project needs two classes; add another one first.")
            labels = store.labels(with_missing=True)
            merged = [v for v in labels if v.class_number == number_of[name]]
            own = uuid or new_uuid()
            store.append(
                Event(
                    kind=Kind.SKIP if into is None else Kind.RELABEL,
                    annotator=label.annotator,
                    uuid=part_uuid(own, f"{label.item}\n{label.annotator}"),
                    item=label.item,
                    class_number=None if into is None else number_of[into],
                    round=label.round,
                    strategy=label.strategy,
                    model=label.model,
                    payload={"merged": own},
                )
                for label in merged
            )
            facts["num_labels"] = len(merged)
            _write_class(store, Kind.CLASS_RETIRED, number_of[name], name, own, facts)
            return len(merged)

    def restore_class(self, name: str, *, uuid: str | None = None) -> int:
        """Bring back a class, and its labels if it was merged or deleted.

        Returns:
            How many labels it has again; what was changed since stays as it is.
        """
        with self.store.writing() as store:
            known = store.event(uuid) if uuid else None
            if known is not None:
                facts = {"name": name} | dict(known.event.payload)
                number = known.event.class_number
                _write_class(store, Kind.CLASS_RESTORED, number, name, uuid, facts)
                return int(facts.get("num_labels", 0))
            removed = removed_classes(store)
            if name not in removed:
                raise UnknownNameError("removed class", name, removed)
            event, last = removed[name].event, removed[name].sequence
            num_labels = int(event.payload.get("num_labels", 0))
            # They were written right before.
            written = store.events(after=last - 1 - num_labels)
            changed = [stored.event for stored in islice(written, num_labels)]
            held = {
                verdict.uuid
                for some in chunked(str(change.item) for change in changed)
                for verdict in store.verdicts(with_missing=True, items=some)
            }
            mine = [change for change in changed if change.uuid in held]
            facts = {"name": name, "num_labels": len(mine)}
            number = event.class_number
            _write_class(store, Kind.CLASS_RESTORED, number, name, uuid, facts)
            store.append(
                Event(kind=Kind.UNDO, annotator=change.annotator, target=change.uuid)
                for change in mine
            )
            return len(mine)


# ------------------------------------------------------------------------- answers


def annotator_name(annotator: str | None) -> str:
    """Return the name of an annotator; for None that of this computer's user."""
    if annotator == "":
        raise UsageError("The annotator has an empty name. Give a name, or None.")
    with suppress(ImportError, KeyError, OSError):  # a system without user names
        return annotator or getpass.getuser()
    return OWNER


def answer_event(
    answer: Answer,
    kind: Kind,
    number_of: Mapping[str, int],
    asked: Mapping[str, records.Asking],
    uuid: str | None = None,
    repeated: records.Annotation | None = None,
) -> Event:
    """Return the event of an answer, if somebody asked about the image."""
    if not isinstance(answer.label, str | None):
        raise UsageError(f"The class is {answer.label!r}; give the name of a class.")
    if answer.label is not None and answer.label not in number_of:
        raise UnknownNameError("class", answer.label, number_of)
    if answer.id not in asked:
        raise StoreError(f"Nobody asked about the image '{answer.id}'. Ask first.")
    is_unsure = answer.unsure and answer.label is not None
    payload: dict[str, Any] = {"unsure": True} if is_unsure else {}
    if answer.lead_time is not None:
        payload["lead_time"] = answer.lead_time
    if repeated is not None:
        payload[records.REPEATED] = repeated.class_number
    return Event(
        kind=kind,
        annotator=annotator_name(answer.annotator),
        uuid=uuid or new_uuid(),
        item=answer.id,
        class_number=None if answer.label is None else number_of[answer.label],
        client_time=answer.time,
        payload=payload,
        **vars(asked[answer.id]),
    )


def _check_room(
    store: Store, event: Event, verdicts: Sequence[records.Annotation], overlap: int
) -> None:
    """Raise if others have given, or are about to give, all answers wanted."""
    holders = store.holders(str(event.item))
    if event.annotator in holders:
        return
    num_answered = sum(records.num_answers(v.kind, overlap) for v in verdicts)
    if num_answered + len(holders) >= overlap:
        others = (*(verdict.annotator for verdict in verdicts), *holders)
        who = ", ".join(f"'{name}'" for name in others)
        raise StoreError(f"You no longer had '{event.item}': {who} took it over.")


def _stored(store: Store, uuid: str) -> StoredEvent:
    stored = store.event(uuid)
    assert stored is not None
    return stored


def _in_force(store: Store, items: Sequence[str], uuid: str) -> tuple[str, ...]:
    """Return those of some images that a confirmation still labels."""
    verdicts = store.verdicts(with_missing=True, items=items)
    uuids = {verdict.uuid for verdict in verdicts}
    return tuple(item for item in items if part_uuid(uuid, item) in uuids)


# ------------------------------------------------------------------------- classes


def check_class_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first classes of a project, without blanks around them."""
    classes: list[str] = []
    for name in names:
        classes.append(free_name(name, classes))
    if len(classes) < 2:
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


def add_class(store: Store, name: str, uuid: str | None = None) -> None:
    """Add a class, once for a UUID; a retired one comes back under its number."""
    known = store.event(uuid) if uuid else None
    classes, plain = store.classes(), name.strip()
    retired = {entry.name: entry.number for entry in classes if not entry.is_active}
    if known is not None:
        _write_class(store, known.event.kind, known.event.class_number, plain, uuid)
    elif plain in retired:
        _write_class(store, Kind.CLASS_RESTORED, retired[plain], plain, uuid)
    else:
        plain = free_name(name, [entry.name for entry in classes])
        _write_class(store, Kind.CLASS_ADDED, len(classes), plain, uuid)


def retire_class(store: Store, number: int) -> None:
    """Take a class out of use; its labels stay."""
    name = store.classes()[number].name
    _write_class(store, Kind.CLASS_RETIRED, number, name, None)


def removed_classes(store: Store) -> dict[str, StoredEvent]:
    """Return the event that retired each class that is not in use, by its name."""
    name_of = {e.number: e.name for e in store.classes() if not e.is_active}
    retired = store.events(kinds={Kind.CLASS_RETIRED})
    return {
        name_of[number]: stored
        for stored in retired
        if (number := stored.event.class_number) in name_of
    }


def _class_names(store: Store) -> tuple[str, ...]:
    return tuple(entry.name for entry in store.classes())


def _numbers_before(store: Store, known: StoredEvent, name: str) -> dict[str, int]:
    """Return the numbers of classes by their names before an event."""
    name_of = {
        stored.event.class_number or 0: str(stored.event.payload["name"])
        for stored in store.events(kinds=records.NAMING)
        if stored.sequence < known.sequence
    }
    if name not in name_of.values():
        raise ReplayError(
            f"The UUID {known.event.uuid} came again with another class, '{name}'."
        )
    return {name: number for number, name in name_of.items()}


def _write_class(
    store: Store,
    kind: Kind,
    number: int | None,
    name: str,
    uuid: str | None,
    payload: Mapping[str, Any] | None = None,
) -> None:
    event = Event(
        kind=kind,
        annotator=OWNER,
        uuid=uuid or new_uuid(),
        class_number=number or 0,  # None: the UUID of another event, which is refused
        payload=payload or {"name": name},
    )
    store.append([event])
