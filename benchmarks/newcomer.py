"""Somebody's first ten minutes with the labeling page, at the speed of people.

4,000 images of CIFAR-10 are written as files, and ``fewlabels start`` is run on them
with its defaults. A script in Chromium labels by keyboard, two seconds an image, and
waits where the page lets it wait. When the budget of 150 labels is spent, it does what
the page suggests: it goes on in Review until ten minutes are over, half a second for an
image at a glance and two seconds for a correction; it overlooks one wrong image in ten.
Then it exports. The exported model is measured on 2,000 test images. So are two others
on random labels, as many as fit into the same time one by one, none of them wrong or
kept apart to measure: the same training, and scikit-learn's balanced logistic
regression, penalty by cross-validation, on the same features.

Run ``FEWLABELS_DATA=DIR python -m benchmarks.newcomer``, where DIR holds
``cifar10.npz``: five runs, eleven minutes each. Writes results/newcomer.json.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.page import Server, chromium, prefer
from benchmarks.photo_project import NAMES
from PIL import Image
from sklearn.linear_model import LogisticRegressionCV

from fewlabels.data.files import FileImages
from fewlabels.pool import UNKNOWN
from fewlabels.projects import Project, predict
from fewlabels.projects.image_index import image_file, scan
from fewlabels.rng import stream

RECORD = Path(__file__).parent / "results" / "newcomer.json"
NUM_IMAGES, NUM_HELD_OUT, BUDGET, SEEDS, RUNS = 4_000, 2_000, 150, 5, 5
LOOK, GLANCE, CORRECTION = 2.0, 0.5, 2.0  # seconds for an image
OVERLOOKED = 0.1  # of the wrong images on a grid
MOST_SECONDS = 600.0
ENDING = 25.0  # seconds that have to be left for another grid

# The page is told how its jobs fare; we listen, too.
LISTEN = """() => {
  window.state = null;
  new EventSource("/api/events").onmessage = (event) => {
    window.state = JSON.parse(event.data);
    const counts = window.state.jobs.guesses.result?.counts ?? {};
    if (Object.keys(counts).length) window.guessed ??= Date.now();
  };
}"""


def write(folder: Path, split: str, number: int, seed: int) -> dict[str, int]:
    """Write images as files; return the class of each by its name."""
    folder.mkdir()
    arrays = np.load(Path(os.environ["FEWLABELS_DATA"]) / "cifar10.npz")
    pixels, labels = arrays[f"x_{split}"], arrays[f"y_{split}"].ravel()
    truth = {}
    draws = np.random.default_rng(seed)
    for place in draws.choice(len(pixels), number, replace=False):
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
        self.num_labels = self.num_glanced = self.num_corrected = (
            self.num_overlooked
        ) = 0
        self.draws = np.random.default_rng(len(truth))

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

    def reviews(self) -> None:
        """Confirm and correct predictions, class by class, until time is up."""
        end = self.begun + 60 * self.minutes["first image"] + MOST_SECONDS
        turn = "Number(document.querySelector('.grid').dataset.turn ?? 0)"
        self.page.keyboard.press("Shift+R")
        self.until("document.querySelectorAll('.tile img').length")
        while time.time() + ENDING < end:
            title = self.page.text_content(".review-head h2").split()[1]
            shown = NAMES.index(title)
            for name in self.page.eval_on_selector_all(
                ".tile img", "images => images.map((image) => image.alt)"
            ):
                time.sleep(GLANCE)
                self.num_glanced += 1
                if self.truth[name] != shown:
                    if self.draws.random() < OVERLOOKED:
                        self.num_overlooked += 1
                    else:
                        time.sleep(CORRECTION)
                        self.num_corrected += 1
                        self.page.keyboard.press(str((self.truth[name] + 1) % 10))
                self.page.keyboard.press("ArrowRight")
            before = self.page.evaluate(turn)
            self.page.keyboard.press("Enter")
            self.until(f"{turn} > {before}")
        self.note("review done")

    def does(self, key: str, task: str) -> None:
        """Press a key, and wait until its task is done."""
        self.page.keyboard.press(key)
        self.until(f"window.state.jobs.{task}.status === 'running'")
        self.until(f"window.state.jobs.{task}.status !== 'running'")
        assert self.page.evaluate(f"window.state.jobs.{task}.status") == "done"


def labeled(place: Path, truth: Mapping[str, int]) -> Person:
    """Go from the command to an export; return who did it."""
    begun = time.time()
    words = ("--classes", ",".join(NAMES), "--budget", str(BUDGET))
    with chromium() as browser:
        server = Server(place / "images", *words, patience=600)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(server.address)
            page.evaluate(LISTEN)
            person = Person(page, truth, begun)
            person.labels()
            person.reviews()
            at = person.until("window.guessed")
            person.note("first predictions", at / 1000)
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
) -> dict[str, list[float]]:
    """Return accuracies of two trainings on random labels, one for each seed."""
    snapshot = project.snapshot()
    pool = snapshot.pool(project.images(snapshot))
    pool = replace(pool, candidates=pool.candidates[:0])
    known = torch.tensor([truth[item.path] for item in snapshot.items])
    files = tuple(image_file(file, held) for file in scan(held).files)
    channels, height, width = project.settings.shape
    images = FileImages(files, (channels, height, width))
    right = torch.tensor([held_truth[file.name] for file in files])
    found: dict[str, list[float]] = {"same training": [], "logistic regression": []}
    for seed in range(SEEDS):
        draws = stream(seed, "newcomer")
        chosen = torch.randperm(len(pool), generator=draws)[:number]
        labels = torch.full_like(pool.labels, UNKNOWN)
        labels[chosen] = known[chosen]
        fitted = project.trainer().fit(replace(pool, labels=labels), draws)
        logits = fitted.outputs(images, torch.arange(len(images))).logits
        rows = fitted.inputs(pool.images, chosen).numpy()
        plain = LogisticRegressionCV(
            Cs=5, cv=3, class_weight="balanced", max_iter=300, scoring="accuracy"
        ).fit(rows, known[chosen].numpy())
        guesses = plain.predict(fitted.inputs(images, torch.arange(len(images))))
        for name, guess in zip(found, (logits.argmax(1), guesses), strict=True):
            share = (torch.as_tensor(guess) == right).double().mean()
            found[name].append(round(float(share), 4))
        last = {name: values[-1] for name, values in found.items()}
        print(f"{number} random labels, seed {seed}: {last}", flush=True)
    return found


def measured(place: Path, seed: int) -> dict[str, Any]:
    """Do it once; return the results."""
    truth = write(place / "images", "train", NUM_IMAGES, seed)
    held_truth = write(place / "held", "test", NUM_HELD_OUT, seed)
    load = os.getloadavg()[0]
    person = labeled(place, truth)
    told = predict(place / "images-labels/export/model", place / "held")
    minutes = person.minutes["review done"] - person.minutes["first image"]
    same_time = round(60 * minutes / LOOK)
    with Project.open(place / "images-labels") as project:
        audit = project.settings.audit
        by_time = at_random(project, truth, place / "held", held_truth, same_time)
    return {
        "seed": seed,
        "load before": round(load, 2),
        "minutes after the command": person.minutes,
        "labels": person.num_labels,
        "of them to measure": audit,
        "seen in Review": person.num_glanced,
        "corrected there": person.num_corrected,
        "overlooked there": person.num_overlooked,
        "accuracy": round(accuracy(told, held_truth), 4),
        "random labels in the same time": same_time,
        "accuracy of random labels": by_time,
    }


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return accuracies in percent, one number for each run."""
    found = {"accuracy": [100 * run["accuracy"] for run in runs]}
    for name in runs[0]["accuracy of random labels"]:
        found[f"random labels, {name}"] = [
            100 * statistics.mean(run["accuracy of random labels"][name])
            for run in runs
        ]
    return {name: [round(one, 2) for one in values] for name, values in found.items()}


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--prefer", action="store_true", help="before other work (Linux, root)"
    )
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(RUNS)))
    arguments = parser.parse_args()
    if arguments.prefer:
        prefer()
    runs = []
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as place:
            os.environ["FEWLABELS_CACHE"] = place  # no features from before
            runs.append(measured(Path(place), seed))
    found = {
        "images": NUM_IMAGES,
        "seconds for an image": LOOK,
        "seconds for a glance": GLANCE,
        "seconds for a correction": CORRECTION,
        "overlooked": OVERLOOKED,
        "processors": os.cpu_count(),
        "preferred to other work": arguments.prefer,
        **summary(runs),
        "runs": runs,
    }
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
