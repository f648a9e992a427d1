"""What the verbs of labeling should have done: a stack per annotator.

The events of a store, in their order, are played to a twin that knows nothing of SQL,
sequence numbers or parities, and compared with what the processes of
``labeling_verbs`` noted.
"""

import json
import math
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from fewlabels.projects import Project
from fewlabels.projects.store import Event, Kind, StoredEvent
from fewlabels.projects.store.records import VERDICTS

ANNOTATORS = ("ann", "bob")
MOST_LEASED = 3
"""Images that a process ever asks for at once."""
LEASES = frozenset({"lease", "release", "heartbeat"})
LONG = 3600.0
"""Seconds that leases last: none ends by itself, so that the twin needs no clock."""

COUNTED = frozenset({Kind.LABEL, Kind.RELABEL, Kind.SKIP})

Call = dict[str, Any]
"""What is sent: ``verb``, ``uuid``, ``annotator`` and what the verb needs."""


@dataclass
class Notes:
    """What a process wrote down before and after its calls."""

    file: Path
    sent: dict[str, Call] = field(default_factory=dict)
    """By the name of the call, in order."""
    got: dict[str, Call] = field(default_factory=dict)
    """What came back."""

    @cached_property
    def ending(self) -> dict[object, list[Call]]:
        """Calls that may end leases: by image and annotator, or by token."""
        found: dict[object, list[Call]] = {}
        for call in self.sent.values():
            if call["verb"] == "release":
                found.setdefault(call["token"], []).append(call)
            elif "item" in call:
                key = (call["item"], call["annotator"])
                found.setdefault(key, []).append(call)
        return found

    @classmethod
    def read(cls, file: Path) -> "Notes":
        """Read the notes; the last line may be cut off."""
        notes = cls(file)
        if file.exists():
            for line in file.read_text().split("\n")[:-1]:
                what, name, told = json.loads(line)
                (notes.sent if what == "sent" else notes.got)[name] = told
        return notes

    def pairs(self) -> Iterator[tuple[Call, Call]]:
        """Yield each call and what came back; nothing where it was killed."""
        for uuid, call in self.sent.items():
            yield call, self.got.get(uuid, {})

    def write(self, what: str, name: str, told: Call) -> None:
        """Write a line in one stroke, which a kill of this process does not tear."""
        (self.sent if what == "sent" else self.got)[name] = told
        line = json.dumps([what, name, told]) + "\n"
        handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)


def token_of(number: int) -> str:
    """Return the name of a browser tab, which outlives a kill."""
    return f"tab-{number}"


@dataclass(frozen=True)
class State:
    """What one annotator says at some moment, and what she could take back."""

    words: dict[str, Event]
    """The event in force for each item."""
    can_undo: bool

    def refuses(self, call: Call) -> bool:
        """Say whether a call has no place now."""
        if call["verb"] == "undo":
            return not self.can_undo
        return (call["item"] in self.words) != (call["verb"] == "change")


@dataclass
class Editor:
    """What one annotator said, as any editor keeps it."""

    done: list[Event] = field(default_factory=list)

    @property
    def state(self) -> State:
        """What holds now: the last word on each item."""
        words = {str(event.item): event for event in self.done}
        return State(words, bool(self.done))

    def play(self, call: Call, stored: Event, by_uuid: dict[str, Event]) -> str:
        """Do what a call says; return what is wrong with what the store wrote."""
        if self.state.refuses(call):
            return "is written and should have been refused"
        if call["verb"] == "undo":
            undone, target = self.done.pop(), by_uuid[str(stored.target)]
            same = target is undone
            return "" if same else f"is about {target.uuid}, not {undone.uuid}"
        self.done.append(stored)
        found = (stored.kind.value, stored.item, stored.class_number)
        wanted = (kind_of(call), call["item"], call.get("class_number"))
        return "" if found == wanted else f"says {found}, not {wanted}"


def kind_of(call: Call) -> str:
    """Return the kind of event that an answer becomes."""
    if call["verb"] == "change" and call["class_number"] is not None:
        return Kind.RELABEL.value
    return str(Kind.SKIP.value if call["verb"] == "change" else call["verb"])


def faults(folder: Path, notes: list[Notes]) -> list[str]:
    """Compare the store with the notes of all processes and with the twin.

    Args:
        folder: The project.
        notes: All of them; what was sent last may have had no answer.

    Returns:
        What is wrong.
    """
    with Project.open(folder) as project:
        stored = [one for one in project.store.events() if is_ours(one)]
        verdicts = {(o.item, o.annotator): o.uuid for o in project.snapshot().verdicts}
        rows = {
            (token_of(number), item)
            for number in range(len(notes))
            for item in project.store.heartbeat(token_of(number), ttl=LONG)
        }
    calls = {uuid: call for one in notes for uuid, call in one.sent.items()}
    got = {uuid: told for one in notes for uuid, told in one.got.items()}
    wrong = unlike_notes(stored, calls, got)
    if wrong:
        return wrong
    history, wrong = played(stored, calls)
    for uuid, told in got.items():
        call = calls[uuid]
        if "refused" in told and not any(
            states[call["annotator"]].refuses(call)
            for states in history.during(call, told)
        ):
            wrong.append(f"{call} was refused without a reason: {told['refused']}")
    expected = {
        (item, name): event.uuid
        for name, state in history.states[-1].items()
        for item, event in state.words.items()
    }
    if verdicts != expected:
        wrong.append(f"{len(verdicts)} verdicts are not the twin's {len(expected)}")
    return wrong + lease_faults(notes, history, rows)


def is_ours(event: Event) -> bool:
    """Whether an event is one that the processes sent."""
    return event.kind in VERDICTS or event.kind is Kind.UNDO


def unlike_notes(
    stored: list[StoredEvent], calls: dict[str, Call], got: dict[str, Call]
) -> list[str]:
    """Find what was acknowledged and is missing, what is there twice or is nobody's."""
    number_of = {one.uuid: one.sequence for one in stored}
    wrong = [f"event {u} was never sent" for u in number_of if u not in calls]
    if len(number_of) < len(stored):
        wrong.append("an event is there twice")
    for uuid, told in got.items():
        if number_of.get(uuid) != told.get("sequence"):
            wrong.append(f"{calls[uuid]} came back as {told} and is not there so")
    for one in stored:
        if calls.get(one.uuid, {}).get("annotator") != one.annotator:
            wrong.append(f"event {one.sequence} is by another annotator")
    return wrong


@dataclass
class History:
    """What the twins said after each event."""

    sequences: list[int]
    states: list[dict[str, State]]

    def during(self, call: Call, told: Call) -> list[dict[str, State]]:
        """Return all states from what was seen before a call to what was after it."""
        first = bisect_right(self.sequences, call["after"]) - 1
        return self.states[first : bisect_right(self.sequences, told["seen"])]


def played(
    stored: list[StoredEvent], calls: dict[str, Call]
) -> tuple[History, list[str]]:
    """Play all events to the twins, in their order."""
    editors = {name: Editor() for name in ANNOTATORS}
    by_uuid = {one.uuid: one for one in stored}
    history = History([0], [{name: one.state for name, one in editors.items()}])
    for one in stored:
        call, name = calls[one.uuid], one.annotator
        fault = editors[name].play(call, one, by_uuid)
        if fault:
            return history, [f"event {one.sequence} of {call} {fault}"]
        history.sequences.append(one.sequence)
        history.states.append(history.states[-1] | {name: editors[name].state})
    return history, []


def lease_faults(
    notes: list[Notes], history: History, rows: set[tuple[str, str]]
) -> list[str]:
    """Check who held what: never two the same, nor what was answered when it was given.

    A tab holds an image for certain from the end of a call that says so to the
    beginning of the next one that may end it: a release of the tab, or an answer of the
    same person from whichever tab.

    Args:
        notes: What each tab wrote down.
        history: What the twins said when.
        rows: Token and image of each lease in the end.

    Returns:
        What is wrong.
    """
    wrong, spans = [], list[Span]()
    for number, one in enumerate(notes):
        token, may_hold = token_of(number), set[str]()
        for call, told in one.pairs():
            leases = told.get("leases", ())
            most = call["count"] if call["verb"] == "lease" else MOST_LEASED
            if len(leases) > most:
                wrong.append(f"{call} got {len(leases)}")
            for item in leases:
                if item not in may_hold and not was_open(item, call, told, history):
                    wrong.append(f"{call} got '{item}', which was answered")
                end = end_of(item, call["annotator"], token, told["ended"], notes)
                spans.append(Span(item, told["ended"], end, token))
            may_hold |= set(leases)
            if call["verb"] == "release":
                may_hold.clear()
    wrong += [
        f"{one.token} lost '{one.item}'"
        for one in spans
        if one.end == math.inf and (one.token, one.item) not in rows
    ]
    return wrong + shared(spans, rows)


class Span(NamedTuple):
    """From when to when a tab certainly held an image."""

    item: str
    begin: float
    end: float
    token: str


def shared(spans: list[Span], rows: set[tuple[str, str]]) -> list[str]:
    """Find images that two tabs held at once."""
    wrong = []
    latest = Span("", 0, 0, "")
    for one in sorted(spans):
        if one.item != latest.item:
            latest = one
        if one.begin < latest.end and one.token != latest.token:
            both = f"{latest.token} and {one.token}"
            wrong.append(f"'{one.item}' was held by {both} at once")
        if one.end > latest.end:
            latest = one
    if len({item for _, item in rows}) < len(rows):
        wrong.append("an image is leased to two in the end")
    return wrong


def was_open(item: str, call: Call, told: Call, history: History) -> bool:
    """Say whether an image could be handed out at some moment while a call ran."""
    return any(
        item not in states[call["annotator"]].words
        and not any(
            item in one.words and one.words[item].kind in COUNTED
            for one in states.values()
        )
        for states in history.during(call, told)
    )


def end_of(
    item: str, annotator: str, token: str, since: float, notes: list[Notes]
) -> float:
    """Return the beginning of the first call that may have ended a lease."""
    first = math.inf
    for one in notes:
        for call in one.ending.get((item, annotator), []) + one.ending.get(token, []):
            ended = one.got.get(call["uuid"], {}).get("ended", math.inf)
            if ended > since:
                first = min(first, max(since, call["begun"]))
    return first
