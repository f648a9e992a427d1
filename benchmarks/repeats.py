"""Do the images that come back tell how often people overlook wrong predictions?

``python -m benchmarks.repeats`` simulates people who confirm 600 predictions of ten
classes as they are, though some of them are wrong: none, 5 or 20 %. Of those confirmed,
a project has some labeled once more; then the person sees what they are or, in the last
rows, presses another key for 2 % of them. Compared are the share of slips that Results
states, with its interval, and the share among all that were confirmed. Writes
benchmarks/results/repeats.json; some minutes.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from PIL import Image

from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.projects.snapshot import Tally
from fewlabels.web.session import repeated_labels

RECORD = Path(__file__).parent / "results" / "repeats.json"
NUM_IMAGES, NUM_PEOPLE = 600, 50
CASES = ((0.0, 0.0), (0.05, 0.0), (0.2, 0.0), (0.0, 0.02), (0.05, 0.02), (0.2, 0.02))
CLASSES = tuple("abcdefghij")
Random = np.random.Generator


def begin(place: Path) -> None:
    """Make a project of small images."""
    (place / "images").mkdir()
    draws = np.random.default_rng(0)
    for number in range(NUM_IMAGES):
        pixels = draws.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(place / "images" / f"{number:04d}.png")
    options: dict[str, Any] = {"strategy": "random", "budget": 10, "audit": 0}
    trainer = Choice(name="supervised", options={"steps": 5})
    images, folder = place / "images", place / "project"
    Project.create(folder, images, CLASSES, trainer=trainer, **options).close()


def simulated(place: Path, overlooked: float, wrong_keys: float, draws: Random) -> Any:
    """Return how many slips Results states, the interval, and the true share."""
    with Project.open(place / "project") as project:
        items = [item.id for item in project.store.items()]
        truth = dict(zip(items, draws.integers(0, 10, len(items)), strict=True))
        is_slip = draws.permutation(len(items)) < round(overlooked * len(items))
        seen = {
            item: (truth[item] + slips * draws.integers(1, 10)) % 10
            for item, slips in zip(items, is_slip, strict=True)
        }
        for number, name in enumerate(CLASSES):
            own = [item for item in items if seen[item] == number]
            sent: dict[str, Any] = {"uuid": str(uuid4()), "unanswered": True}
            project.revise(own, name, predicted=own, **sent)
        tally = Tally(overlap=1)
        tally.update(project.store)
        for item, _ in tally.repeats:
            slips = draws.uniform() < wrong_keys
            number = (truth[item] + slips * draws.integers(1, 10)) % 10
            project.change(item, CLASSES[number], is_repeat=True, uuid=str(uuid4()))
        accuracy = repeated_labels(project.store)
    return accuracy.num_audited, 1 - accuracy.num_right / accuracy.num_audited, accuracy


def main() -> None:
    """Simulate all people, and write the record."""
    rows = {}
    with tempfile.TemporaryDirectory() as place:
        begin(Path(place))
        for overlooked, wrong_keys in CASES:
            stated, covers, widths, numbers = [], [], [], []
            for person in range(NUM_PEOPLE):
                with tempfile.TemporaryDirectory() as other:
                    own = Path(other) / "own"
                    shutil.copytree(place, own)
                    draws = np.random.default_rng([person, *map(ord, str(overlooked))])
                    number, share, accuracy = simulated(
                        own, overlooked, wrong_keys, draws
                    )
                stated.append(share)
                numbers.append(number)
                covers.append(1 - accuracy.high <= overlooked <= 1 - accuracy.low)
                widths.append(accuracy.high - accuracy.low)
            case = f"{overlooked:.0%} overlooked, {wrong_keys:.0%} wrong keys"
            rows[case] = {
                "people": NUM_PEOPLE,
                "confirmed": NUM_IMAGES,
                "repeated": round(float(np.mean(numbers)), 1),
                "stated": round(100 * float(np.mean(stated)), 1),
                "interval_width": round(100 * float(np.mean(widths)), 1),
                "inside": round(100 * float(np.mean(covers)), 1),
            }
            print(case, rows[case], flush=True)
    RECORD.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
