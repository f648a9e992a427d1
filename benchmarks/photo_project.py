"""How long a project on photographs takes on a CPU, verb by verb.

Photographs of 640 x 480 pixels are made from CIFAR-10 images: enlarged, with a little
noise, saved as JPEG. A project with a head over frozen features (``efficientnet-lite0``
at 96 x 96 pixels) is begun on them, asked, told, trained twice and exported, in one
thread. After a small project that warms up, each part is timed on two numbers of
photographs; the difference between the two gives the time per photograph, and what is
left the time that does not depend on their number. From these the time for 20,000 is
extrapolated, and said to be. Seconds are those of the processor, worker processes
included, so that other work on the machine counts little; by the clock with nothing
else running it is about as long, or shorter where a second core helps.

Run ``FEWLABELS_DATA=DIR python benchmarks/photo_project.py``, where DIR holds
``cifar10.npz``; ten minutes or so.
"""

import argparse
import csv
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fewlabels.errors import FewlabelsWarning
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project

RESULTS = Path(__file__).parent / "results" / "photo_project.json"
TRAINER = Choice(name="frozen-linear", options={"encoder": "efficientnet-lite0"})
WANTED = 20_000
NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def make(folder: Path, number: int) -> dict[str, str]:
    """Write photographs; return the class of each by its name."""
    folder.mkdir()
    arrays = np.load(Path(os.environ["FEWLABELS_DATA"]) / "cifar10.npz")
    pixels, labels = arrays["x_train"][:number], arrays["y_train"][:number].ravel()
    truth = {}
    for index, (small, label) in enumerate(zip(pixels, labels, strict=True)):
        random = np.random.default_rng(index)
        large = Image.fromarray(small).resize((640, 480), Image.Resampling.BICUBIC)
        noise = random.normal(0, 6, (480, 640, 3))
        photo = np.clip(np.asarray(large) + noise, 0, 255).astype(np.uint8)
        name = f"{index:05d}.jpg"
        Image.fromarray(photo).save(folder / name, quality=88)
        truth[name] = NAMES[int(label)]
    return truth


def tell(project: Project, truth: dict[str, str]) -> None:
    """Ask, and answer with the truth."""
    path = project.write_query(project.ask(), project.folder / "query.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = truth[row["file_name"]]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    project.tell(path)


def used() -> float:
    """Return the processor seconds of this process and those it has ended."""
    times = os.times()
    return sum(times[:4])


def measured(number: int) -> dict[str, float]:
    """Return the seconds of each part of a project on some photographs."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(part: str) -> Iterator[None]:
        begun = used()
        yield
        seconds[part] = round(used() - begun, 3)
        print(f"  {number} photographs, {part}: {seconds[part]:.1f} s", flush=True)

    with tempfile.TemporaryDirectory() as place:
        os.environ["FEWLABELS_CACHE"] = place  # no features of an earlier measurement
        images = Path(place) / "photos"
        truth = make(images, number)
        time.sleep(3)  # files changed a moment ago would be read again
        with timed("index"):
            project = Project.create(
                Path(place) / "project",
                images,
                NAMES,
                trainer=TRAINER,
                size=96,
                budget=100,
                audit=20,
                query=20,
            )
        with project:
            with timed("index again"):
                project.index()
            with timed("first ask, which embeds"):
                project.ask()
            tell(project, truth)
            with timed("first training"):
                project.train()
            with timed("later ask"):
                project.ask()
            tell(project, truth)
            with timed("later training"):
                project.train()
            with timed("export"):
                project.export(Path(place) / "export")
    return seconds


def main() -> None:
    """Measure two numbers of photographs, extrapolate, write both down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, nargs=2, default=(200, 2_000))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    few, many = arguments.photos
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewlabelsWarning)
        measured(80)
        first, second = measured(few), measured(many)
    parts = {}
    for part in first:
        each = max(0.0, (second[part] - first[part]) / (many - few))
        fixed = max(0.0, second[part] - each * many)
        parts[part] = {
            "seconds": {str(few): first[part], str(many): second[part]},
            "milliseconds_per_photo": round(1000 * each, 2),
            f"extrapolated_seconds_{WANTED}": round(fixed + each * WANTED, 1),
        }
    figures = {"threads": 1, "clock": "processor", "parts": parts}
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
