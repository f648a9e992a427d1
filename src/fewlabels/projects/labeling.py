"""What people say about the images of a project, one call at a time.

Each verb is one transaction, on the disk when it returns. Whoever calls may name what
is done by a UUID (:func:`fewlabels.store.new_uuid`). The same call under the same UUID,
because an answer was lost or a process was killed, writes nothing and returns what the
first one did; another call under it is a :class:`fewlabels.errors.ReplayError`.
"""

import getpass
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from fewlabels.errors import ReplayError, StoreError, UnknownNameError, UsageError
from fewlabels.projects import classes, confirming, imports
from fewlabels.projects.exchange import Answer
from fewlabels.projects.exchange.label_files import Columns
from fewlabels.projects.folder import ProjectFolder
from fewlabels.projects.imports import Imported, UndoneImport
from fewlabels.store import (
    Annotation,
    Asking,
    Event,
    Kind,
    Lease,
    Leased,
    Store,
    StoredEvent,
)
from fewlabels.store.records import new_uuid, num_answers
from fewlabels.store.store import LEASE_SECONDS

_INCIDENTAL = ("client_time", "round", "strategy", "model", "payload")
_NOTHING = "Nothing was written."


class Labeling(ProjectFolder):
    """Label, change, skip, undo, redo, lease: what a page or a script calls."""

    # ------------------------------------------------------------------- answers

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
            annotator: Who says so; None: the name of this computer's user.
            uuid: Names this call, for sending it again; None: a new one.
            time: When it was said, by the annotator's clock.
            lead_time: How long it took, in seconds.
            in_turn: Refuse it where others have the image meanwhile: they hold it, or
                have answered, and the annotator's own lease has ended.

        Returns:
            What was written. It is refused where the annotator has answered about the
            image already: no tab silently overwrites what another said.
        """
        said = _answer(item, name, annotator, time=time, lead_time=lead_time)
        return self._say(said, Kind.LABEL, uuid, in_turn=in_turn)

    def skip(
        self,
        item: str,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Say that an image is not worth a label; arguments as for :meth:`label`."""
        said = _answer(item, None, annotator)
        return self._say(said, Kind.SKIP, uuid, in_turn=in_turn)

    def unsure(
        self,
        item: str,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Say that somebody else may know; arguments as for :meth:`label`."""
        said = _answer(item, None, annotator)
        return self._say(said, Kind.UNSURE, uuid, in_turn=in_turn)

    def change(
        self,
        item: str,
        name: str | None,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        unsure: bool = False,
    ) -> StoredEvent:
        """Say something else of an image than before.

        Args:
            item: Id of an image that the annotator has answered about, or whose label
                was imported by anybody.
            name: Name of the class; None: it is not worth a label after all.
            annotator: Whose answer changes; None: that of this computer's user.
            uuid: Names this call, for sending it again; None: a new one.
            unsure: With None as its name: the annotator cannot tell after all.

        Returns:
            What was written; without a UUID, and where nothing changes, what holds.
        """
        kind = Kind.RELABEL if name else Kind.UNSURE if unsure else Kind.SKIP
        said = _answer(item, name, annotator)
        return self._say(said, kind, uuid, is_change=True)

    def undo(
        self,
        *,
        annotator: str | None = None,
        uuid: str | None = None,
        target: str | None = None,
        token: str | None = None,
    ) -> StoredEvent:
        """Take back the annotator's last answer that holds, of whichever round.

        What was confirmed at a glance is no answer; :meth:`take_back` undoes that.

        Args:
            annotator: Whose answer; None: that of this computer's user.
            uuid: Names this call, for sending it again; None: a new one.
            target: UUID of another answer to take back.
            token: Names the browser tab that gets the image back, as a lease, before
                anybody else can; None: it is free for all.

        Returns:
            What was written.
        """
        who, overlap = _named(annotator), self.settings.overlap
        with self.store.writing() as store:
            done = store.undo(who, target=target, uuid=uuid)
            if token is not None:
                item = str(done.event.item)
                store.lease(who, 1, overlap=overlap, among=[item], token=token)
            return done

    def redo(
        self, *, annotator: str | None = None, uuid: str | None = None
    ) -> StoredEvent:
        """Bring back what was undone last; a new answer ends that, as in an editor."""
        return self.store.redo(_named(annotator), uuid=uuid)

    # ------------------------------------------------------------- many at a glance

    def confirm(
        self,
        items: Sequence[str],
        name: str,
        *,
        uuid: str,
        annotator: str | None = None,
    ) -> tuple[str, ...]:
        """Give a class to many images that a model takes for it, seen at a glance.

        Such labels train. They cost no budget, are told apart from others by their
        strategy, ``"confirmed"``, and never measure: whoever saw a guess was swayed.

        Args:
            items: Ids of images; those that somebody has spoken of, or is
                being asked about, are left out.
            name: Name of the class.
            uuid: Names this call, for sending it again.
            annotator: Who says so; None: the name of this computer's user.

        Returns:
            Ids of the images that have this label from now on.
        """
        with self.store.writing() as store:
            return confirming.confirm(store, items, name, _named(annotator), uuid)

    def take_back(
        self,
        items: Sequence[str],
        confirmed: str,
        *,
        uuid: str,
        annotator: str | None = None,
    ) -> tuple[str, ...]:
        """Undo what :meth:`confirm` did under the name ``confirmed``.

        Returns:
            Ids of the images; what was undone or changed meanwhile stays as it is.
        """
        with self.store.writing() as store:
            who = _named(annotator)
            return confirming.take_back(store, items, confirmed, who, uuid)

    # --------------------------------------------------------- labels from elsewhere

    def import_labels(
        self,
        source: str | PathLike[str],
        *,
        content: bytes | None = None,
        annotator: str | None = None,
        file_column: str | None = None,
        class_column: str | None = None,
        add_classes: bool = False,
        partial: bool = False,
        dry_run: bool = False,
        scan: bool = True,
        uuid: str | None = None,
    ) -> Imported:
        """Take labels that exist already: all of a file or, if a row is wrong, none.

        Such labels train. They cost no budget, their strategy is ``"imported"``, and
        they never measure: images of the audit slice and their copies are left out.

        Args:
            source: A table (.csv, .jsonl or .parquet) with a file name and a class in
                each row, an export of Label Studio (.json), or a folder with a folder
                for each class. A folder that is not the project's own is compared by
                the content of its images.
            content: What the file holds, if it is not on this disk; then ``source`` is
                a name that tells the format, and is not opened.
            annotator: In whose name; None: the name of this computer's user.
            file_column: Column that names the file; None: one with a usual name.
            class_column: Column that names the class; None: one with a usual name.
            add_classes: Add classes that the project does not have; otherwise they are
                faults.
            partial: Take the good rows and list the others.
            dry_run: Return what would be imported, with all faults; write nothing.
            scan: Look through the folder for new images first.
            uuid: Names this call, for sending it again; None: a new one.

        Returns:
            What was imported. The same file again changes nothing. A file with faults,
            unless ``partial`` or ``dry_run``, is a
            :class:`fewlabels.errors.AnswersError` that lists them.
        """
        who = _named(annotator)
        if scan:
            self.index()
        return imports.import_labels(
            self,
            Path(source),
            Columns(file_column, class_column),
            content=content,
            annotator=who,
            add_classes=add_classes,
            partial=partial,
            dry_run=dry_run,
            uuid=uuid,
        )

    def undo_import(self, uuid: str | None = None) -> UndoneImport:
        """Take back all labels of an import that still hold, and classes it added.

        Args:
            uuid: Of the import; None: the last one that is in force.

        Returns:
            What was undone; labels that somebody changed since stay.
        """
        return imports.undo_import(self, uuid)

    def events(self, *, after: int = 0) -> Iterator[StoredEvent]:
        """Yield all that happened since event number ``after``, in its order."""
        return self.store.events(after=after)

    # -------------------------------------------------------------------- leases

    def lease(
        self,
        count: int = 1,
        *,
        annotator: str | None = None,
        token: str | None = None,
        ttl: float = LEASE_SECONDS,
    ) -> Leased:
        """Hand out the next images of the last round, to nobody else meanwhile.

        Args:
            count: How many, at most.
            annotator: Who labels; None: the name of this computer's user.
            token: Names the browser tab or process, for sending it again: what it still
                holds comes first. None: a new one.
            ttl: Seconds until the lease ends without a :meth:`heartbeat`.

        Returns:
            The images, and how many more others hold.
        """
        who, overlap = _named(annotator), self.settings.overlap
        return self.store.lease(
            who, count, overlap=overlap, ttl=ttl, among=-1, token=token
        )

    def heartbeat(self, token: str, *, ttl: float = LEASE_SECONDS) -> tuple[Lease, ...]:
        """Prolong the leases of a token and return those it still holds."""
        return self.store.heartbeat(token, ttl=ttl)

    def release(self, token: str, items: Sequence[str] | None = None) -> int:
        """Give back the leases of a token, or those on some images; return how many."""
        return self.store.release(token, items)

    # ------------------------------------------------------------------- classes

    def add_class(self, name: str, *, uuid: str | None = None) -> tuple[str, ...]:
        """Add a class that was forgotten, and return all there are now."""
        with self.store.writing() as store:
            classes.add(store, name, uuid)
            return classes.all_names(store)

    def add_classes(self, names: Sequence[str]) -> tuple[str, ...]:
        """Add several classes or, where one is refused, none; return all there are."""
        with self.store.writing() as store:
            for name in names:
                classes.add(store, name)
            return classes.all_names(store)

    def rename_class(
        self, old: str, new: str, *, uuid: str | None = None
    ) -> tuple[str, ...]:
        """Give a class another name, and return all there are now."""
        with self.store.writing() as store:
            classes.rename(store, old, new, uuid)
            return classes.all_names(store)

    def _say(
        self,
        said: Answer,
        kind: Kind,
        uuid: str | None,
        *,
        is_change: bool = False,
        in_turn: bool = False,
    ) -> StoredEvent:
        """Write an answer, unless it is written already."""
        with self.store.writing() as store:
            known = store.event(uuid) if uuid else None
            number_of = {one.name: one.number for one in store.classes()}
            if known is not None and said.label is not None:  # renamed since, perhaps
                number_of = classes.numbers_before(store, known.sequence)
                if said.label not in number_of:
                    raise ReplayError(
                        f"The UUID {uuid} came again with another content: there was "
                        f"no class '{said.label}' at event {known.sequence}. Make a "
                        f"new UUID for a new action. {_NOTHING}"
                    )
            asked = store.asked([said.id])
            held = store.verdicts(with_missing=True, items=[said.id])
            before = next((v for v in held if v.annotator == said.annotator), None)
            if is_change:
                imported = (verdict for verdict in held if verdict.is_imported)
                before = before or next(imported, None)
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
            if in_turn:
                _check_room(store, event, self.settings.overlap)
            if before is not None and uuid is None and _says_the_same(before, event):
                stored = store.event(before.uuid)
                assert stored is not None
                return stored
            if before is not None and before.annotator != event.annotator:
                who, target = before.annotator, before.uuid
                store.append([Event(kind=Kind.UNDO, annotator=who, target=target)])
            store.append([event])
            written = store.event(event.uuid)
            assert written is not None
            return written


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
        annotator=said.annotator or user_name(),
        uuid=uuid or new_uuid(),
        item=said.id,
        class_number=None if said.label is None else number_of[said.label],
        client_time=said.time,
        round=by.round,
        strategy=by.strategy,
        model=by.model,
        payload=payload,
    )


def user_name() -> str:
    """Return the name of this computer's user, who labels unless somebody else does."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a system without user names
        return classes.OWNER


def _answer(item: str, name: str | None, annotator: str | None, **more: Any) -> Answer:
    if not isinstance(name, str | None):
        raise UsageError(
            f"The class is {name!r}, of type {type(name).__name__}; give the name of a "
            f"class. {_NOTHING}"
        )
    return Answer(id=item, label=name, annotator=_named(annotator), line=0, **more)


def _named(annotator: str | None) -> str:
    """Return who speaks; an empty name would put words in somebody's mouth."""
    if annotator == "":
        raise UsageError(
            "The annotator has an empty name, and two people would be taken for one. "
            f"Give a name, or None for this computer's user. {_NOTHING}"
        )
    return annotator or user_name()


def _check_turn(
    before: Annotation | None,
    event: Event,
    number_of: Mapping[str, int],
    *,
    is_change: bool,
) -> None:
    """Raise if a change has no answer before it, or a first answer has one."""
    if (before is not None) == is_change:
        return
    who, item = event.annotator, event.item
    if before is None:
        raise StoreError(
            f"'{who}' has not answered about '{item}' yet; there is nothing to change. "
            f"Label it. {_NOTHING}"
        )
    name_of = {number: name for name, number in number_of.items()}
    word = before.kind if before.class_number is None else name_of[before.class_number]
    raise StoreError(
        f"'{who}' has answered about '{item}' already: '{word}'. Change or undo that. "
        f"{_NOTHING}"
    )


def _check_room(store: Store, event: Event, overlap: int) -> None:
    """Raise where others have given, or are about to give, all answers wanted."""
    item, others = str(event.item), store.holders(str(event.item))
    if event.annotator in others:
        return
    given = store.verdicts(with_missing=True, items=[item])
    num_answered = sum(num_answers(one.kind, overlap) for one in given)
    if num_answered + len(others) >= overlap:
        who = ", ".join(f"'{one}'" for one in (*(o.annotator for o in given), *others))
        raise StoreError(
            f"You no longer had the image '{item}': {who} took it over meanwhile, and "
            f"{overlap} answer{'s are' if overlap > 1 else ' is'} wanted. {_NOTHING}"
        )


def _says_the_same(before: Annotation, event: Event) -> bool:
    if event.class_number is None:
        return before.kind is event.kind
    return before.class_number == event.class_number
