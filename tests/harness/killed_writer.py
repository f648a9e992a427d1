"""Kill a writer of labels fifty times: what was acknowledged is there, none twice.

A child process labels one item after the other, ten a second. Before each label it
writes down what it is about to send, afterwards the number with which the store has
acknowledged it. At a random moment it gets SIGKILL. After each kill the store is
compared with these notes; then the program starts again, sends what had no answer once
more under the same UUID, and goes on. With ``--server`` PostgreSQL itself is killed at
the same moment; on SQLite the writer is the server.

Run ``python -m tests.harness.killed_writer``; three minutes or so for each database.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tests.harness import postgres

from fewlabels.projects.store import Event, Kind, ListedFile, Store, new_uuid

ROOT = Path(__file__).parents[2]
NUM_CLASSES = 10
SENT, KEPT = "sent", "kept"


@dataclass
class Notes:
    """What the writer wrote down before and after each label."""

    sent: dict[str, int]
    """Number of the item by UUID, in order."""
    kept: dict[str, int]
    """Sequence number by UUID."""

    @classmethod
    def read(cls, file: Path) -> "Notes":
        """Read the notes; the last line may be cut off."""
        notes = cls({}, {})
        if file.exists():
            for line in file.read_text().split("\n")[:-1]:
                word, uuid, number = line.split()
                (notes.sent if word == SENT else notes.kept)[uuid] = int(number)
        return notes


def label(uuid: str, number: int) -> Event:
    """Return the label for an item; the same whenever it is made."""
    return Event(
        kind=Kind.LABEL,
        annotator="ann",
        uuid=uuid,
        item=item_id(number),
        class_number=number % NUM_CLASSES,
    )


def item_id(number: int) -> str:
    """Return the id of an item."""
    return f"f{number:06d}.png@{number:016x}"


def write(url: str, file: Path, rate: float) -> None:
    """Label items until somebody kills us."""
    notes = Notes.read(file)
    unanswered = [uuid for uuid in notes.sent if uuid not in notes.kept]
    number = len(notes.sent)
    log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Store.open(url, create=False) as store:
        for uuid in unanswered:
            sequence = store.append([label(uuid, notes.sent[uuid])])[0].sequence
            os.write(log, f"{KEPT} {uuid} {sequence}\n".encode())
        begin, first = time.monotonic(), number
        while True:
            uuid = new_uuid()
            os.write(log, f"{SENT} {uuid} {number}\n".encode())
            sequence = store.append([label(uuid, number)])[0].sequence
            os.write(log, f"{KEPT} {uuid} {sequence}\n".encode())
            number += 1
            if rate:
                due = begin + (number - first) / rate
                time.sleep(max(0.0, due - time.monotonic()))


def prepare(url: str, num_items: int) -> None:
    """Make a store with items that can be labeled."""
    with Store.open(url) as store:
        store.add_classes(map(str, range(NUM_CLASSES)), annotator="owner")
        store.index(
            ListedFile(path=f"f{i:06d}.png", digest=f"{i:016x}", size=1, mtime_ns=0)
            for i in range(num_items)
        )


def faults(url: str, file: Path) -> tuple[list[str], int, int]:
    """Compare store and notes.

    Args:
        url: The store.
        file: The writer's notes.

    Returns:
        What is wrong, the number of labels sent without an answer, and how many of
        these are in the store.
    """
    notes = Notes.read(file)
    with Store.open(url, create=False) as store:
        stored = [one for one in store.events() if one.kind is Kind.LABEL]
        labels = {one.item: one.class_number for one in store.labels()}
    number_of = {one.uuid: one.sequence for one in stored}
    wrong = []
    if len({one.item for one in stored}) < len(stored):
        wrong.append("an item was labeled twice")
    for uuid, sequence in notes.kept.items():
        if number_of.get(uuid) != sequence:
            wrong.append(f"acknowledged label {uuid} is missing or has another number")
    for uuid in number_of:
        number = notes.sent[uuid]
        if labels.get(item_id(number)) != number % NUM_CLASSES:
            wrong.append(f"item {number} has another label")
    in_flight = set(notes.sent) - set(notes.kept)
    return wrong, len(in_flight), len(in_flight & set(number_of))


def killed(url: str, file: Path, rate: float, seconds: float, victim: int = 0) -> None:
    """Let the writer work for some time after its first label and kill it."""
    before = file.stat().st_size if file.exists() else 0
    words = [sys.executable, "-m", "tests.harness.killed_writer", "--child", url]
    words += ["--notes", str(file), "--rate", str(rate)]
    process = subprocess.Popen(words, cwd=ROOT)
    try:
        while not file.exists() or file.stat().st_size == before:
            if process.poll() is not None:
                raise RuntimeError("the writer ended by itself")
            time.sleep(0.002)
        time.sleep(seconds)
        if victim:
            os.kill(victim, signal.SIGKILL)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def places(
    arguments: argparse.Namespace, folder: Path
) -> Generator[tuple[str, int], None, None]:
    """Yield where the store is before each kill, and which server to kill or 0."""
    if arguments.database == "sqlite":
        while True:
            yield f"sqlite:///{folder / 'labels.sqlite'}", 0
    server = postgres.start(is_durable=True)
    try:
        while True:
            yield server.url("postgres"), server.pid if arguments.server else 0
            if arguments.server:
                server.process.wait(60)
                server = revived(server.folder)
    finally:
        server.stop()


def revived(folder: Path) -> postgres.Server:
    """Start a killed server again, once the last of its processes has noticed."""
    for _ in range(50):
        try:
            return postgres.resume(folder, is_durable=True)
        except RuntimeError:
            time.sleep(0.2)
    raise RuntimeError("the server did not start again")


def check(arguments: argparse.Namespace, folder: Path) -> bool:
    """Kill, compare, go on; print what is asked for."""
    file = folder / "notes.txt"
    moments = random.Random(arguments.seed)
    addresses = places(arguments, folder)
    url, victim = next(addresses)
    prepare(url, arguments.items)
    wrong: list[str] = []
    num_in_flight = num_stored = 0
    began = time.monotonic()
    for number in range(arguments.kills):
        seconds = moments.uniform(0, arguments.longest)
        killed(url, file, arguments.rate, seconds, victim)
        url, victim = next(addresses)
        found, in_flight, stored = faults(url, file)
        wrong += found
        num_in_flight += in_flight
        num_stored += stored
        if number % 10 == 9:
            kept = len(Notes.read(file).kept)
            print(f"kill {number + 1}: {kept} acknowledged, {len(wrong)} faults")
    addresses.close()
    notes = Notes.read(file)
    figures = {
        "database": arguments.database + (", killed too" if arguments.server else ""),
        "kills": arguments.kills,
        "rate": arguments.rate,
        "sent": len(notes.sent),
        "acknowledged": len(notes.kept),
        "kills in the middle of a label": num_in_flight,
        "of these stored all the same": num_stored,
        "faults": len(wrong),
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures))
    print("\n".join(wrong[:10]) or "met")
    return not wrong


def main() -> None:
    """Kill, go on, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--rate", type=float, default=10.0, help="labels a second; 0: all it can"
    )
    parser.add_argument("--longest", type=float, default=2.0, help="seconds")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--server", action="store_true", help="kill PostgreSQL too")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--notes", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        write(arguments.child, arguments.notes, arguments.rate)
        return
    wanted = [arguments.database] if arguments.database else ["sqlite", "postgresql"]
    is_met = True
    for arguments.database in wanted:
        with tempfile.TemporaryDirectory() as name:
            is_met &= check(arguments, Path(name))
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
