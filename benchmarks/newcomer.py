"""Somebody's first ten minutes with the labeling page, at the speed of people.

5,000 images of CIFAR-10 are written as files, and ``fewlabels start`` is run on them
with features of efficientnet-lite0 at quality normal, which are made while a script in
Chromium labels by keyboard: two seconds an image. When the budget is spent it looks
through a wall for each class, 0.3 seconds an image, knocks out what is wrong, confirms
the rest, trains and exports. The exported model is measured on 1,000 test images, and
so is the same training on as many random labels as were asked for, and on as many as
would have taken the same time, wall included: two seconds each, and none is kept apart
to measure.

Run ``FEWLABELS_DATA=DIR python -m benchmarks.newcomer``, where DIR holds
``cifar10.npz``; 20 minutes. Writes benchmarks/results/newcomer.json.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.page import Server, chromium, prefer
from benchmarks.photo_project import NAMES
from PIL import Image

from fewlabels.data.files import FileImages
from fewlabels.pool import UNKNOWN
from fewlabels.projects import Project, predict
from fewlabels.projects.indexing import scan
from fewlabels.rng import stream

RECORD = Path(__file__).parent / "results" / "newcomer.json"
NUM_IMAGES, NUM_HELD_OUT, BUDGET, SEEDS = 5_000, 1_000, 150, 10
LOOK, GLANCE = 2.0, 0.3  # seconds for an image, and for one on the wall
OPTIONS = ("--encoder", "efficientnet-lite0", "--quality", "normal")

# The page is told how its jobs fare; we listen, too.
LISTEN = """() => {
  window.told = null;
  new EventSource("/api/events").onmessage = (event) => {
    window.told = JSON.parse(event.data);
    if (window.told.jobs.guesses.result?.counts?.length) window.guessed ??= Date.now();
  };
}"""


def write(folder: Path, split: str, number: int) -> dict[str, int]:
    """Write images as files; return the class of each by its name."""
    folder.mkdir()
    arrays = np.load(Path(os.environ["FEWLABELS_DATA"]) / "cifar10.npz")
    pixels, labels = arrays[f"x_{split}"], arrays[f"y_{split}"].ravel()
    truth = {}
    for place in np.random.default_rng(0).choice(len(pixels), number, replace=False):
        name = f"{place:05d}.png"
        Image.fromarray(pixels[place]).save(folder / name)
        truth[name] = int(labels[place])
    return truth


class Person:
    """Somebody at the keyboard who knows the classes, and takes time to look."""

    def __init__(self, page: Any, truth: Mapping[str, int], begun: float) -> None:
        self.page, self.truth, self.begun = page, truth, begun
        self.minutes: dict[str, float] = {}
        """When something was there for the first time, after the command."""
        self.num_labels = self.num_looked_at = self.num_confirmed = 0

    def note(self, what: str, at: float | None = None) -> None:
        """Note the time of something, if it is the first time."""
        passed = ((time.time() if at is None else at) - self.begun) / 60
        if what not in self.minutes:
            self.minutes[what] = round(passed, 2)
            print(f"{passed:6.2f} min: {what}", flush=True)

    def until(self, condition: str, seconds: float = 1800) -> Any:
        """Wait until the page says so."""
        end = time.monotonic() + seconds
        while not (found := self.page.evaluate(condition)):
            assert time.monotonic() < end, condition
            time.sleep(0.05)
        return found

    def labels(self) -> None:
        """Label one image after another until the budget is spent."""
        shown = "document.getElementById('file').textContent"
        spent = "document.getElementById('message').textContent.includes('budget is')"
        while not self.page.evaluate(spent):
            self.until(f"{shown} || {spent}")
            if not (name := self.page.evaluate(shown)):
                continue
            self.note("first image")
            if "random" not in self.page.text_content("#why"):
                self.note("first query")
            time.sleep(LOOK)
            self.page.keyboard.press(str((self.truth[name] + 1) % 10))
            self.note("first label")
            self.num_labels += 1
        self.note("budget spent")

    def walls(self) -> None:
        """Look through what the model takes for each class."""
        turn = "Number(document.querySelector('.grid').dataset.turn || 0)"
        self.page.keyboard.press("Shift+W")
        self.until(f"{turn} > 0")
        for place in range(len(NAMES)):
            before = self.page.evaluate(turn)
            self.page.click(f".wall-tabs button:nth-child({place + 1})")
            self.until(f"{turn} > {before}")
            before = self.page.evaluate(turn)
            self._confirm(place)
            self.until(f"{turn} > {before}")
        self.note("walls done")

    def _confirm(self, place: int) -> None:
        names = self.page.eval_on_selector_all(
            ".tile img", "images => images.map(one => one.alt)"
        )
        for name in names:
            time.sleep(GLANCE)
            if self.truth[name] != place:
                self.page.keyboard.press("Space")
            self.num_confirmed += self.truth[name] == place
            self.page.keyboard.press("ArrowRight")
        self.num_looked_at += len(names)
        self.page.keyboard.press("Enter")

    def does(self, key: str, task: str) -> None:
        """Press a key, and wait until its task is done."""
        self.page.keyboard.press(key)
        self.until(f"window.told.jobs.{task}.status === 'running'")
        self.until(f"window.told.jobs.{task}.status !== 'running'")
        assert self.page.evaluate(f"window.told.jobs.{task}.status") == "done"


def labeled(place: Path, truth: Mapping[str, int]) -> Person:
    """Go from the command to an export; return who did it."""
    begun = time.time()
    words = ("--classes", ",".join(NAMES), "--budget", str(BUDGET), *OPTIONS)
    with chromium() as browser:
        server = Server(place / "images", *words, patience=600)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(server.address)
            page.evaluate(LISTEN)
            person = Person(page, truth, begun)
            person.labels()
            at = person.until("window.guessed")
            person.note("first predictions", at / 1000)
            person.walls()
            person.does("Shift+T", "training")
            person.note("last training")
            person.does("Shift+E", "export")
            person.note("export")
        finally:
            server.stop()
    return person


def accuracy(found: Any, truth: Mapping[str, int]) -> float:
    """Return the share of predictions that are right."""
    pairs = zip(found.file_names, found.labels, strict=True)
    return statistics.mean(NAMES[truth[name]] == label for name, label in pairs)


def at_random(
    project: Project,
    truth: Mapping[str, int],
    held: Path,
    held_truth: Mapping[str, int],
    number: int,
) -> list[float]:
    """Return accuracies of the project's training on random labels, one for a seed."""
    snapshot = project.snapshot()
    pool = snapshot.pool(project.images(snapshot))
    pool = replace(pool, candidates=pool.candidates[:0])
    known = torch.tensor([truth[item.path] for item in snapshot.items])
    files = tuple(one.file(held) for one in scan(held).files)
    channels, height, width = project.settings.shape
    images = FileImages(files, (channels, height, width))
    right = torch.tensor([held_truth[file.name] for file in files])
    found = []
    for seed in range(SEEDS):
        draws = stream(seed, "newcomer")
        chosen = torch.randperm(len(pool), generator=draws)[:number]
        labels = torch.full_like(pool.labels, UNKNOWN)
        labels[chosen] = known[chosen]
        fitted = project.trainer().fit(replace(pool, labels=labels), draws)
        logits = fitted.outputs(images, torch.arange(len(images))).logits
        found.append(round(float((logits.argmax(1) == right).double().mean()), 4))
        print(f"{number} random labels, seed {seed}: {found[-1]:.3f}", flush=True)
    return found


def measured(place: Path) -> dict[str, Any]:
    """Do it all; return what came of it."""
    truth = write(place / "images", "train", NUM_IMAGES)
    held_truth = write(place / "held", "test", NUM_HELD_OUT)
    load = os.getloadavg()[0]
    person = labeled(place, truth)
    told = predict(place / "images-labels/export/model", place / "held")
    on_wall = person.minutes["walls done"] - person.minutes["budget spent"]
    seconds = LOOK * person.num_labels + 60 * on_wall
    same_time = round(seconds / LOOK)
    with Project.open(place / "images-labels") as project:
        by_number, by_time = (
            at_random(project, truth, place / "held", held_truth, number)
            for number in (person.num_labels, same_time)
        )
    return {
        "images": NUM_IMAGES,
        "seconds for an image": LOOK,
        "seconds for an image on the wall": GLANCE,
        "load before": round(load, 2),
        "processors": os.cpu_count(),
        "minutes after the command": person.minutes,
        "labels": person.num_labels,
        "looked at on the wall": person.num_looked_at,
        "confirmed on the wall": person.num_confirmed,
        "labels per minute on the wall": round(person.num_confirmed / on_wall, 1),
        "labels per minute one by one": 60 / LOOK,
        "accuracy": accuracy(told, held_truth),
        "accuracy of as many random labels": by_number,
        "random labels in the same time": same_time,
        "accuracy of random labels in the same time": by_time,
    }


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--prefer", action="store_true", help="before other work (Linux, root)"
    )
    parser.add_argument("--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if arguments.prefer:
        prefer()
    with tempfile.TemporaryDirectory() as place:
        os.environ["FEWLABELS_CACHE"] = place  # no features of an earlier measurement
        found = {"preferred to other work": arguments.prefer}
        found |= measured(Path(place))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
