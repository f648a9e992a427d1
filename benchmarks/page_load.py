"""How the labeling page bears up where there are many images and many labels.

``python -m benchmarks.page_load`` makes projects of 1,000 and of 100,000 images, half
of which have a label, in rounds of twenty and in a single round. It measures the
processor time of what the page asks for: the state, a lease, a label, an undo. Then
five people label the largest project over HTTP, on the real server, each by one key
after another; nothing is learned meanwhile. Adds to benchmarks/results/page_load.json;
three minutes and 64 MB of files in a temporary folder.
"""

import argparse
import json
import os
import tempfile
import time
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from benchmarks.page import TOKEN, Server
from benchmarks.page_speed import processor, spread
from fastapi import APIRouter
from PIL import Image

from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.projects.store import Event, Kind, ListedFile
from fewlabels.projects.store.schema import ROUND_ITEMS, ROUNDS, renew_checksums
from fewlabels.web.app import add_labeling
from fewlabels.web.messages import Action, Turn
from fewlabels.web.session import Session

RECORD = Path(__file__).parent / "results" / "page_load.json"
CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay")
OPEN = 6_000
PEOPLE = 5


def make(place: Path, number: int, size: int) -> Path:
    """Make a project whose first half is labeled, and return its folder."""
    # The files are all alike and listed as if they were not: nobody looks at them.
    images = place / "images"
    images.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(images / "000000.png")
    content = (images / "000000.png").read_bytes()
    for index in range(1, number):
        (images / f"{index:06d}.png").write_bytes(content)
    # What changed within the last two seconds would be read again.
    old = time.time() - 60
    for path in images.iterdir():
        os.utime(path, (old, old))
    trainer = Choice(name="supervised", options={"steps": 5})
    options: dict[str, Any] = {"strategy": "random", "trainer": trainer, "audit": 0}
    with Project.create(
        place / "project", images, CLASSES, budget=number, first=1, **options
    ) as project:
        fill(project, number, size)
    return place / "project"


def fill(project: Project, number: int, size: int) -> None:
    """List all files; ask about the first half and some more, and label that half."""
    store = project.store
    first = next(store.items())
    store.index(
        ListedFile(
            path=path.name,
            digest=first.digest if path.name == first.path else path.stem,
            group=path.stem,
            size=path.stat().st_size,
            mtime_ns=path.stat().st_mtime_ns,
            details=dict(first.details),
        )
        for path in sorted(project.images_folder.iterdir())
    )
    items = [item.id for item in store.items()]
    half, now = number // 2, datetime.now(UTC)
    step_of: dict[str, int] = {}
    # The same as `add_round`, which compares each new round with all before it.
    with store.write_connection() as connection:
        starts = [*range(0, half, size), half]
        for step, start in enumerate(starts):
            end = half if step < len(starts) - 1 else min(number, half + OPEN)
            asked = items[start : min(start + size, end) if end == half else end]
            step_of |= dict.fromkeys(asked, step)
            row = {"step": step, "strategy": "random", "options": {}, "created": now}
            connection.execute(ROUNDS.insert(), row)
            rows = [
                {"round": step, "rank": rank, "item": item, "role": "query"}
                for rank, item in enumerate(asked)
            ]
            connection.execute(ROUND_ITEMS.insert(), rows)
        renew_checksums(connection, ROUNDS, ROUND_ITEMS)
    store.append(
        Event(
            kind=Kind.LABEL,
            annotator=f"person {index % PEOPLE}",
            item=items[index],
            class_number=index % len(CLASSES),
            round=step_of[items[index]],
            strategy="random",
        )
        for index in range(half)
    )


def milliseconds(call: Any, times: int) -> float:
    """Return the processor time of a call, on average after the first one."""
    call()
    begun = time.process_time()
    for _ in range(times):
        call()
    return round(1000 * (time.process_time() - begun) / times, 1)


def costs(folder: Path, times: int) -> dict[str, float]:
    """Return the processor time, in milliseconds, of what the page asks for."""
    tab, given = str(uuid4()), []
    with Project.open(folder) as project:
        session, routes = Session(project), APIRouter()
        add_labeling(routes, session)
        act = next(r.endpoint for r in routes.routes if r.path == "/api/act")
        begun = time.process_time()
        session.state()
        first = round(1000 * (time.process_time() - begun), 1)

        def send(verb: str, **facts: Any) -> None:
            facts |= {"tab": tab, "annotator": "eve", "uuid": str(uuid4())}
            act(Action(verb=verb, **facts))

        def lease() -> None:
            turn = Turn(tab=tab, annotator="eve", count=12)
            given[:] = session.lease(turn)["items"]

        def label() -> None:
            if not given:
                lease()
            send("label", item=given.pop()["id"], name="cat")

        return {
            "state, the first time": first,
            "state": milliseconds(session.state, times),
            "lease": milliseconds(lease, times),
            "label": milliseconds(label, 10),
            "undo": milliseconds(lambda: send("undo"), 8),
            "state after a label": milliseconds(lambda: (label(), session.state()), 8),
        }


class Client:
    """Somebody who labels as fast as the answers come."""

    def __init__(self, port: int, name: str) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=120)
        self.connection.request("GET", f"/?token={quote(TOKEN)}")
        answer = self.connection.getresponse()
        answer.read()
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        self.headers = {"cookie": cookie, "x-fewlabels": "1"}
        self.headers["content-type"] = "application/json"
        self.name, self.tab = name, str(uuid4())
        self.waits: list[float] = []

    def post(self, path: str, **facts: Any) -> Any:
        """Send something, and return the answer."""
        body = json.dumps({"tab": self.tab, "annotator": self.name, **facts})
        self.connection.request("POST", path, body, self.headers)
        answer = self.connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return json.loads(content)

    def label(self, until: float, pause: float) -> None:
        """Label until a time, with a pause before each key."""
        items: list[Any] = []
        while time.monotonic() < until:
            if not items:
                items = self.post("/api/lease", count=12)["items"]
                continue
            time.sleep(pause)
            begun = time.monotonic()
            key = {"uuid": str(uuid4()), "verb": "label", "name": "cat"}
            self.post("/api/act", item=items.pop(0)["id"], **key)
            self.waits.append(1000 * (time.monotonic() - begun))


def served(folder: Path, seconds: float, pause: float) -> dict[str, Any]:
    """Let people label on the real server; return how many labels, and the waits."""
    server = Server(folder, patience=300)
    try:
        assert server.port is not None
        clients = [Client(server.port, f"person {n}") for n in range(PEOPLE)]
        clients[0].post("/api/cancel/features")
        clients[0].post("/api/lease", count=0)
        before, load = processor(server.process.pid), os.getloadavg()[0]
        until = time.monotonic() + seconds
        threads = [Thread(target=one.label, args=(until, pause)) for one in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used = processor(server.process.pid) - before
    finally:
        server.stop()
    waits = [wait for client in clients for wait in client.waits]
    return {
        "people": PEOPLE,
        "seconds": seconds,
        "seconds between answer and next key": pause,
        "labels": len(waits),
        "labels a minute": round(60 * len(waits) / seconds),
        "milliseconds from key to answer": spread(waits),
        "processor seconds of the server and its jobs": round(used, 1),
        "load before": round(load, 2),
    }


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0.2, help="before each key")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--name", default="now", help="of this record")
    parser.add_argument("--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    record: dict[str, Any] = {"processors": os.cpu_count()}
    with tempfile.TemporaryDirectory() as place:
        for number in arguments.images:
            for size in (20, number):
                half = number // 2
                words = f"{number} images, {half} labels, rounds of {min(size, half)}"
                folder = make(Path(place) / words, number, size)
                record[words] = {"milliseconds": costs(folder, arguments.times)}
                print(words, record[words], flush=True)
                if number == max(arguments.images) and size == 20:
                    found = served(folder, arguments.seconds, arguments.pause)
                    record[words]["over HTTP"] = found
                    print(found, flush=True)
    file = arguments.out
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    text = json.dumps(known | {arguments.name: record}, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
