"""What it costs to begin: commands that people wait for, beside ``import torch``.

``python -m benchmarks.quick_start`` writes benchmarks/results/quick_start.json.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import typer
from PIL import Image

from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project

RECORD = Path(__file__).parent / "results" / "quick_start.json"
NUM_IMAGES = 200
LIMIT = 1 / 3


def project(place: Path) -> Path:
    """Begin a project, label two rounds and train twice; return its folder."""
    images = place / "images"
    images.mkdir()
    for number in range(NUM_IMAGES):
        color = (number, 255 - number, number % 2 * 200)
        Image.new("RGB", (32, 32), color).save(images / f"{number:03d}.png")
    quick = Choice(name="supervised", options={"steps": 5})
    with Project.create(
        place / "project", images, ["even", "odd"], budget=100, trainer=quick
    ) as begun:
        for _ in range(2):
            names = [one.path for one in begun.questions(begun.ask())]
            rows = [f"{name},{('even', 'odd')[int(name[:3]) % 2]}" for name in names]
            query = place / "answers.csv"
            query.write_text("\n".join(["file_name,label", *rows]), "utf-8")
            begun.tell(query)
            begun.train()
    return place / "project"


def seconds(words: list[str]) -> float:
    """Return the processor time of a process and of those that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(repeats: int = 15) -> None:
    """Measure each in turn, so that what else the machine does falls on all alike."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as place:
        folder = str(project(Path(place)))
        commands = {
            "import torch": ["-c", "import torch"],
            "fewlabels --help": ["-m", "fewlabels", "--help"],
            "fewlabels status": ["-m", "fewlabels", "status", folder],
        }
        for words in commands.values():
            seconds(words)  # the byte code is warm from here on
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, words in commands.items():
                found[name].append(round(seconds(words), 3))
    medians = {name: statistics.median(times) for name, times in found.items()}
    torch = medians.pop("import torch")
    shares = {name: round(median / torch, 3) for name, median in medians.items()}
    record = {
        "what": "processor seconds, user and system, byte code warm; medians compared",
        "python": sys.version.split()[0],
        "seconds": found,
        "share of import torch": shares,
        "limit": round(LIMIT, 3),
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for name, share in shares.items():
        print(f"{name}: {100 * share:.0f} % of import torch")
    sys.exit(max(shares.values()) > LIMIT)


if __name__ == "__main__":
    typer.run(main)
