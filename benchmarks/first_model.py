"""From the command to the first model, while other programs keep the processors busy.

4,000 photographs of CIFAR-10, of 32 pixels and with class sizes that fall by a factor
of 20, are written as files. ``fewlabels start`` is run on them with its defaults. A
script in Chromium labels by keyboard, one second an image, waits where the page asks it
to wait, and exports when the budget is spent. As many processes as there are processors
count in a loop meanwhile. The first model is the first one of the project, of whatever
kind. A wait that goes on when the features are ready counts as one after, from then on.

Run ``FEWLABELS_DATA=DIR python -m benchmarks.first_model``, where DIR holds
``cifar10.npz``; 6 minutes. Writes benchmarks/results/first_model.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.newcomer import LISTEN
from benchmarks.page import Server, chromium
from benchmarks.photo_project import NAMES
from PIL import Image

RECORD = Path(__file__).parent / "results" / "first_model.json"
NUM_IMAGES, BUDGET, RATIO, LOOK = 4_000, 200, 20, 1.0
LABELS_OF_FIRST_MODEL = 10
COUNTING = "while True: pass"

# What the page shows, and since when: looked at with every frame that it draws.
WATCH = """() => {
  window.shown = [];
  let before = "";
  const look = () => {
    const file = document.getElementById("file").textContent;
    const image = document.querySelector("#frame img");
    const now = file && image?.complete ? file : "";
    if (now && now !== before) window.shown.push([now, Date.now()]);
    before = now;
    requestAnimationFrame(look);
  };
  look();
}"""


def write(folder: Path) -> dict[str, int]:
    """Write uneven photographs as files; return the class of each by its name."""
    folder.mkdir()
    arrays = np.load(Path(os.environ["FEWLABELS_DATA"]) / "cifar10.npz")
    pixels, labels = arrays["x_train"], arrays["y_train"].ravel()
    draws = np.random.default_rng(0)
    weights = RATIO ** -np.linspace(0, 1, len(NAMES))
    sizes = np.floor(NUM_IMAGES * weights / weights.sum()).astype(int)
    sizes[0] += NUM_IMAGES - sizes.sum()
    chosen = [
        draws.choice(np.flatnonzero(labels == number), size, replace=False)
        for number, size in enumerate(sizes)
    ]
    truth = {}
    for name, place in enumerate(draws.permutation(np.concatenate(chosen))):
        truth[f"{name:05d}.png"] = int(labels[place])
        Image.fromarray(pixels[place]).save(folder / f"{name:05d}.png")
    return truth


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Keep some processors busy."""
    command = [sys.executable, "-c", COUNTING]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class Session:
    """Somebody at the keyboard; all times are seconds after the command."""

    def __init__(
        self, page: Any, truth: Mapping[str, int], begun: float, project: Path
    ) -> None:
        self.page, self.truth, self.begun, self.project = page, truth, begun, project
        self.seconds: dict[str, float] = {}
        self.words: list[str] = []
        """What the page said while there was no image."""
        self.waits: list[tuple[float, float]] = []
        """When each image was wanted, and how long it took to come."""

    def note(self, what: str) -> None:
        """Note the time of something, if it is the first time."""
        if what not in self.seconds:
            self.seconds[what] = round(time.time() - self.begun, 1)
            print(f"{self.seconds[what]:6.1f} s: {what}", flush=True)

    def look(self) -> None:
        """Note what has happened behind the page."""
        state = self.page.evaluate("window.state")
        if state and state["spent"] >= LABELS_OF_FIRST_MODEL:
            self.note("tenth label")
        if state and state["jobs"]["features"]["status"] == "done":
            self.note("features")
        if (self.project / "models/model-000/training.json").exists():
            self.note("first model")

    def label_all(self) -> None:
        """Label one image after another until the budget is spent."""
        wanted, seen = time.time(), 0
        while True:
            shown = self.page.evaluate("window.shown")
            self.look()
            if len(shown) > seen:
                (name, since), seen = shown[-1], len(shown)
                self.note("first image")
                at = wanted - self.begun
                self.waits.append((at, max(0.0, since / 1000 - wanted)))
                time.sleep(max(0.0, LOOK - (time.time() - since / 1000)))
                self.page.keyboard.press(str((self.truth[name] + 1) % 10))
                wanted = time.time()
                continue
            words = self.page.text_content("#message") or ""
            if words and self.page.is_visible("#message"):
                plain = re.sub(r"\d+", "N", words)
                if plain not in self.words:
                    self.words.append(plain)
                    print(f"{time.time() - self.begun:6.1f} s: «{words}»", flush=True)
                if "The budget is spent" in words:
                    break
            time.sleep(0.03)
        self.note("budget spent")

    def export(self) -> Any:
        """Export, and return what came of it."""
        self.page.keyboard.press("Shift+E")
        while True:
            job = self.page.evaluate("window.state.jobs.export")
            if job["status"] in {"done", "failed"}:
                self.note("export")
                return job
            time.sleep(0.1)


def measured(place: Path, options: tuple[str, ...], num_busy: int) -> dict[str, Any]:
    """Do it all; return what came of it."""
    truth = write(place / "images")
    project = place / "images-labels"
    words = ("--classes", ",".join(NAMES), "--budget", str(BUDGET), *options)
    with chromium() as browser, busy(num_busy):
        load, begun = os.getloadavg()[0], time.time()
        server = Server(place / "images", *words)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            session = Session(page, truth, begun, project)
            session.note("address")
            page.goto(server.address)
            page.evaluate(WATCH)
            page.evaluate(LISTEN)
            session.label_all()
            export = session.export()
        finally:
            server.stop()
    ready = session.seconds.get("features", float("inf"))
    waits = session.waits[1:]  # the first is that for the first image
    after = [at + wait - max(at, ready) for at, wait in waits if at + wait > ready]
    before = [min(at + wait, ready) - at for at, wait in waits if at <= ready]
    seconds = session.seconds
    until_model = seconds["first model"] - seconds["tenth label"]
    return {
        "images": NUM_IMAGES,
        "budget": BUDGET,
        "options": list(options),
        "seconds for an image": LOOK,
        "processors": os.cpu_count(),
        "processes that keep them busy": num_busy,
        "load before": round(load, 2),
        "seconds after the command": seconds,
        "seconds from the tenth label to the first model": round(until_model, 1),
        "longest wait for an image after features": round(max(after), 2),
        "longest wait for an image before": round(max(before, default=0), 2),
        "export": export["status"],
        "export has a model": (project / "export/model").is_dir(),
        "words while waiting": session.words,
    }


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("options", nargs="*", help="of 'fewlabels start', after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["FEWLABELS_CACHE"] = f"{place}/cache"  # no features from before
        found = measured(Path(place), tuple(arguments.options), arguments.busy)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
