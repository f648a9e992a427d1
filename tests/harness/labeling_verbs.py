"""Four processes label at random and are killed: the store is what a simple twin says.

Each process calls the verbs of one project: label, change, skip, unsure, undo, lease,
release and heartbeat, as one of two annotators, so that two processes are two browser
tabs of one person. Before each call it writes down what it is about to send,
afterwards what came back. At a random moment one of them gets SIGKILL. It starts again,
sends what had no answer once more under the same UUID, and goes on.

In the end the events of the store, in their order, are played to a twin: a stack per
annotator, as in an editor, and nothing of SQL, numbers or parities. Every event has to
be what the twin would have done; every answer that a process got has to be that event;
every refusal has to be one that the twin gives between the moments before and after the
call; and no image may be leased to two at once.

Run ``python -m tests.harness.labeling_verbs``; some minutes for each database.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.harness import postgres
from tests.harness.labeling_twin import (
    ANNOTATORS,
    LEASES,
    LONG,
    MOST_LEASED,
    Call,
    Notes,
    faults,
    token_of,
)

from fewlabels.errors import FewlabelsError, StoreError, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.files import replace_text
from fewlabels.projects import Project
from fewlabels.projects.store import StoredEvent, new_uuid

CLASSES = ("cat", "dog", "fox")
NUM_PROCESSES, NUM_IMAGES = 4, 60
WEIGHTS = {  # as many undos as answers, so that images come free again
    "label": 20,
    "change": 10,
    "skip": 5,
    "unsure": 4,
    "undo": 34,
    "lease": 18,
    "release": 3,
    "heartbeat": 4,
}


def work(folder: Path, file: Path, number: int, seed: int, num_calls: int) -> None:
    """Call verbs at random until so many have come back, or somebody kills us."""
    notes = Notes.read(file)
    unanswered = [call for name, call in notes.sent.items() if name not in notes.got]
    with Project.open(folder) as project:
        items = [one.item for one in project.store.rounds()[0].items]
        seen = sum(1 for _ in project.store.events())
        while len(notes.got) < num_calls:
            if unanswered:
                call = unanswered.pop()
            else:
                chance = random.Random(f"{seed} {number} {len(notes.sent)}")
                call = drawn(chance, number, notes, items) | {"after": seen}
                notes.write("sent", call["uuid"], call)
            told = answered(project, call)
            ended = time.monotonic()
            seen += sum(1 for _ in project.store.events(after=seen))
            notes.write("got", call["uuid"], told | {"seen": seen, "ended": ended})


def drawn(chance: random.Random, number: int, notes: Notes, items: list[str]) -> Call:
    """Draw a call."""
    (verb,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
    held = holdings(notes)
    call: Call = {
        "verb": verb,
        "uuid": new_uuid(),
        "annotator": ANNOTATORS[number % len(ANNOTATORS)],
        "begun": time.monotonic(),
    }
    if verb in LEASES:
        count = chance.randint(1, MOST_LEASED)
        return call | {"token": token_of(number), "count": count}
    if verb == "undo":
        return call
    # Mostly what this tab holds; now and then what another one does.
    item = chance.choice(sorted(held) if held and chance.random() < 0.7 else items)
    has_class = verb == "label" or (verb == "change" and chance.random() < 0.8)
    class_number = chance.randrange(len(CLASSES)) if has_class else None
    return call | {"item": item, "class_number": class_number}


def holdings(notes: Notes) -> set[str]:
    """Return the items that a tab was told it holds."""
    for name in reversed(notes.got):
        if "leases" in notes.got[name]:
            return set(notes.got[name]["leases"])
    return set()


def answered(project: Project, call: Call) -> Call:
    """Send a call; return what came back."""
    try:
        return sent(project, call)
    except (StoreError, UsageError) as error:
        return {"refused": str(error)}


def sent(project: Project, call: Call) -> Call:
    """Do what a call says; what does not fit is an error."""
    verb, token = call["verb"], call.get("token", "")
    named = {"annotator": call["annotator"], "uuid": call["uuid"]}
    if verb == "lease":
        leased = project.lease(
            call["count"], annotator=call["annotator"], token=token, ttl=LONG
        )
        return {"leases": list(leased.items)}
    if verb == "release":
        project.store.release(token)
        return {"leases": []}
    if verb == "heartbeat":
        return {"leases": list(project.store.heartbeat(token, ttl=LONG))}
    number = call.get("class_number")
    name = None if number is None else CLASSES[number]
    stored: StoredEvent
    if verb in {"label", "change"}:
        stored = getattr(project, verb)(call["item"], name, **named)
    elif verb in {"skip", "unsure"}:
        stored = getattr(project, verb)(call["item"], **named)
    else:
        stored = getattr(project, verb)(**named)
    return {"sequence": stored.sequence, "kind": stored.kind.value}


@dataclass
class Team:
    """Processes that label, each with its notes."""

    folder: Path
    num_calls: int
    """Of each process."""
    seed: int

    def __post_init__(self) -> None:
        """Name the notes."""
        names = [f"notes-{number}.jsonl" for number in range(NUM_PROCESSES)]
        self.files = [self.folder.parent / name for name in names]
        self.children: dict[int, int] = {}
        self.counted = [(0, 0)] * NUM_PROCESSES

    def start(self, number: int) -> None:
        """Let a process begin, or go on."""
        child = os.fork()
        if child:
            self.children[child] = number
            return
        code = 1
        try:
            work(self.folder, self.files[number], number, self.seed, self.num_calls)
            code = 0
        except FewlabelsError as error:
            print(f"process {number}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def num_answered(self) -> int:
        """Count the calls that came back."""
        for number, file in enumerate(self.files):
            size, found = self.counted[number]
            if file.exists():
                with file.open("rb") as opened:
                    opened.seek(size)
                    fresh = opened.read()
                found += fresh.count(b'["got"')
                self.counted[number] = (size + len(fresh), found)
        return sum(found for _, found in self.counted)

    def killed(self, chance: random.Random) -> bool:
        """Kill a process and start it again; whether it was still at work."""
        child = chance.choice(sorted(self.children))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        number = self.children.pop(child)
        if not os.WIFSIGNALED(status):
            return False
        self.start(number)
        return True

    def finish(self) -> bool:
        """Wait for all; return whether all came to their end."""
        codes = [os.waitpid(child, 0)[1] for child in self.children]
        return not any(codes)


def begin(place: Path, store: str | None) -> Path:
    """Make a project whose images are all asked about."""
    images = place / "images"
    images.mkdir(parents=True)
    for number in range(NUM_IMAGES):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
        Image.fromarray(pixels).save(images / f"{number:03d}.png")
    with Project.create(
        place / "project",
        images,
        CLASSES,
        budget=NUM_IMAGES,
        audit=0,
        query=NUM_IMAGES,
        strategy="random",
        trainer=Choice(name="supervised", options={"steps": 1}),
        store=store,
    ) as project:
        project.ask()
    return place / "project"


def survive(
    place: Path, store: str | None, num_calls: int, num_kills: int, seed: int
) -> dict[str, Any]:
    """Let processes label and kill them; return what came of it.

    Args:
        place: An empty folder.
        store: Address of a server; None: a file.
        num_calls: Of all processes together.
        num_kills: How many, spread over the calls.
        seed: Seed of calls and kills.

    Returns:
        Figures; ``faults`` lists what was lost, doubled or done out of turn.
    """
    began = time.monotonic()
    team = Team(begin(place, store), num_calls // NUM_PROCESSES, seed)
    chance = random.Random(seed)
    for number in range(NUM_PROCESSES):
        team.start(number)
    kills = 0
    while kills < num_kills and team.children:  # some may have ended already
        due = num_calls * (kills + chance.random()) / (num_kills + 1)
        while team.num_answered() < due:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.02))
        kills += team.killed(chance)
    is_done = team.finish()
    notes = [Notes.read(file) for file in team.files]
    wrong = [] if is_done else ["a process failed"]
    wrong += faults(team.folder, notes)
    told = [answer for one in notes for answer in one.got.values()]
    verbs = Counter(call["verb"] for one in notes for call in one.sent.values())
    return {
        "database": "PostgreSQL" if store else "SQLite",
        "processes": NUM_PROCESSES,
        "calls": len(told),
        "calls of each verb": dict(sorted(verbs.items())),
        "written as events": sum("sequence" in one for one in told),
        "refused": sum("refused" in one for one in told),
        "kills": kills,
        "faults": wrong,
        "seconds": round(time.monotonic() - began),
        "seed": seed,
    }


@contextmanager
def places(database: str) -> Iterator[str | None]:
    """Hand out where a store may be.

    Args:
        database: Which kind.

    Yields:
        The address of a server; None: a file.
    """
    if database == "sqlite":
        yield None
        return
    server = postgres.start(is_durable=True)
    try:
        yield server.url("postgres")
    finally:
        server.stop()


def main() -> None:
    """Label, kill, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of calls and kills")
    parser.add_argument("--out", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    wanted = [arguments.database] if arguments.database else ["sqlite", "postgresql"]
    figures = []
    for database in wanted:
        with tempfile.TemporaryDirectory() as name, places(database) as store:
            figures.append(
                survive(
                    Path(name).resolve() / "place",
                    store,
                    arguments.calls,
                    arguments.kills,
                    arguments.seed,
                )
            )
            print(json.dumps(figures[-1], indent=1), flush=True)
    if arguments.out:
        replace_text(arguments.out, json.dumps(figures, indent=1) + "\n")
    sys.exit(any(one["faults"] for one in figures))


if __name__ == "__main__":
    main()
