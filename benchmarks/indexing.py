"""Index a hundred thousand small PNG files, then again after adding ten.

The files are made in a temporary folder. The first process begins a project with them
and looks at them once more, the second brings the index of the project up to date. Its
label store is read and written as always. ``index_seconds`` is the work, ``seconds``
the whole process with its imports, and memory the largest the process ever held.

Run ``python benchmarks/indexing.py``; five minutes or so.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

RESULTS = Path(__file__).parent / "results" / "indexing.json"
PER_FOLDER = 1_000


def make(folder: Path, numbers: range) -> None:
    """Write one small picture per number: soft light, an object, a little noise."""
    for number in numbers:
        random = np.random.default_rng(number)
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        image = np.asarray(coarse.resize((32, 32), Image.Resampling.BICUBIC)).copy()
        y, x = random.integers(0, 20, 2)
        image[y : y + 10, x : x + 12] = random.integers(0, 256, 3)
        image //= 2
        image += random.integers(0, 16, image.shape, dtype=np.uint8)
        below = folder / f"{number // PER_FOLDER:03d}"
        below.mkdir(exist_ok=True)
        Image.fromarray(image).save(below / f"{number:06d}.png", compress_level=1)


def child(folder: Path, place: Path) -> None:
    """Begin the project, or bring its index up to date, and print what was found."""
    from fewlabels.projects import Project

    begun = time.perf_counter()
    is_new = not place.exists()
    if is_new:
        Project.create(
            place, folder, ["a", "b"], budget=100, trainer="supervised"
        ).close()
    with Project.open(place) as project:
        if not is_new:
            begun = time.perf_counter()
        index = project.index()
        seconds = time.perf_counter() - begun
        num_known = sum(1 for _ in project.store.items())
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "index_seconds": round(seconds, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "files": num_known,
        "groups": len(index.groups()),
        "peak_mb": used.ru_maxrss // 1024,
    }
    print(json.dumps(figures))


def measured(folder: Path, project: Path) -> dict[str, float]:
    """Index in a fresh process; what it found, its seconds and its memory."""
    words = [sys.executable, __file__, "--child", str(folder), str(project)]
    begun = time.perf_counter()
    ended = subprocess.run(words, check=True, capture_output=True, text=True)
    seconds = round(time.perf_counter() - begun, 2)
    figures: dict[str, float] = {"seconds": seconds, **json.loads(ended.stdout)}
    return figures


def main() -> None:
    """Make the files, measure three times, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", type=Path, nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    with tempfile.TemporaryDirectory() as place:
        folder, project = Path(place) / "images", Path(place) / "project"
        folder.mkdir()
        make(folder, range(arguments.images))
        time.sleep(3)  # files changed a moment ago would be read again
        first = measured(folder, project)
        make(folder, range(arguments.images, arguments.images + 10))
        time.sleep(3)
        again = measured(folder, project)
        figures = {
            "cpus": os.cpu_count(),
            "load_average": round(os.getloadavg()[0], 1),
            "first": first,
            "ten_added": again,
        }
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
        print(json.dumps(figures, indent=1), flush=True)


if __name__ == "__main__":
    main()
