"""How long people wait for the labeling page where there are a hundred thousand images.

``python -m benchmarks.page_speed`` makes the files in a temporary folder, runs
``fewlabels start`` on them, opens the page in Chromium and answers at an even pace,
while the rest of the images is indexed and their features are made behind it. The
browser itself says when a key was pressed and when the next image was painted. Adds to
benchmarks/results/page_speed.json; ten minutes, half of them to make the files.
``--prefer`` measures on a busy machine what a quiet one would show.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
from benchmarks.page import Server, chromium, family, prefer
from PIL import Image

RECORD = Path(__file__).parent / "results" / "page_speed.json"
PER_FOLDER = 1_000
NAMES = "ant,bee,cat,dog,eel,fox,gnu,hen,ibis,jay"

# The page paints an image in a new element. Element Timing tells when each was on the
# screen, Event Timing when the key went down.
WATCH = """
  window.seen = [];
  window.pressed = [];
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.seen.push([one.url, one.renderTime]);
  }).observe({ type: "element", buffered: true });
  document.addEventListener("keydown", (event) => {
    if (/^[0-9]$/.test(event.key)) window.pressed.push(event.timeStamp);
  }, true);
  new MutationObserver((all) => {
    for (const one of all) for (const node of one.addedNodes) {
      if (node instanceof HTMLImageElement) node.setAttribute("elementtiming", "image");
    }
  }).observe(document, { childList: true, subtree: true });
"""


def make(folder: Path, numbers: range, side: int) -> None:
    """Write one picture per number: soft light, an object, a little noise."""
    for number in numbers:
        random = np.random.default_rng(number)
        coarse = Image.fromarray(random.integers(0, 240, (4, 4, 3), dtype=np.uint8))
        image = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC)).copy()
        y, x = random.integers(0, side // 2, 2)
        image[y : y + side // 3, x : x + side // 2] = random.integers(0, 240, 3)
        image += random.integers(0, 16, image.shape, dtype=np.uint8)
        below = folder / f"{number // PER_FOLDER:03d}"
        below.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(below / f"{number:06d}.jpg")


def make_all(folder: Path, number: int, side: int) -> None:
    """Write all files."""
    parts = [
        range(at, min(at + PER_FOLDER, number)) for at in range(0, number, PER_FOLDER)
    ]
    with ProcessPoolExecutor() as processes:
        for part in parts:
            processes.submit(make, folder, part, side)


class Memory:
    """The largest memory of a process, alone and with all that it has started."""

    def __init__(self, process: int) -> None:
        self.process, self.alone, self.together = process, 0.0, 0.0
        self._end = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(0.5):
            sizes = {one: resident(one) for one in family(self.process)}
            self.alone = max(self.alone, sizes.get(self.process, 0))
            self.together = max(self.together, sum(sizes.values()))


def resident(process: int) -> float:
    """Return how many megabytes a process holds; of what is shared, its part."""
    try:
        told = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    size = re.search(r"Pss:\s+(\d+)", told)
    return int(size[1]) / 1024 if size else 0


def processor(process: int) -> float:
    """Return the seconds of processor time that a process and its children took."""
    ticks = 0
    for one in family(process):
        try:
            words = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(number) for number in words[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def painted(page: Any) -> list[tuple[str, float]]:
    """Return what was painted so far, and when."""
    found: list[tuple[str, float]] = page.evaluate("window.seen")
    return found


def first_image(page: Any, patience: float = 300) -> float:
    """Return when the first image was painted, in seconds of the clock."""
    end = time.monotonic() + patience
    while not (seen := painted(page)):
        assert time.monotonic() < end, page.text_content("body")
        time.sleep(0.05)
    return float(page.evaluate("performance.timeOrigin") + seen[0][1]) / 1000


def answer(page: Any, number: int, pace: float) -> list[float]:
    """Answer at an even pace; return milliseconds from each key to the next image."""
    waits: list[float] = []
    due = time.monotonic()
    for done in range(number):
        due += pace
        time.sleep(max(0.0, due - time.monotonic()))
        page.keyboard.press(str(done % 10))
        end = time.monotonic() + 120
        while len(seen := painted(page)) < done + 2:
            assert time.monotonic() < end, page.text_content("body")
            time.sleep(0.005)
        pressed: list[float] = page.evaluate("window.pressed")
        waits.append(seen[done + 1][1] - pressed[done])
    return waits


def spread(waits: list[float]) -> dict[str, float]:
    """Return what is usual of some waits, and what is not."""
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    found = {"median": cuts[49], "95th percentile": cuts[94], "longest": max(waits)}
    return {name: round(value, 1) for name, value in found.items()}


def measured(images: Path, project: Path, num_keys: int, pace: float) -> dict[str, Any]:
    """Start, open, answer; return what it took."""
    files = list(images.rglob("*.jpg"))
    load = os.getloadavg()[0]
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.add_init_script(WATCH)
        begun = time.time()
        words = ("--classes", NAMES, "--budget", str(10 * num_keys))
        words += ("--project", str(project))
        server = Server(images, *words, patience=600)
        served = time.time()
        memory = Memory(server.process.pid)
        try:
            page.goto(server.address)
            shown = first_image(page)
            print(f"served {served - begun:.1f} s, shown {shown - begun:.1f} s")
            waits = answer(page, num_keys, pace)
            jobs = page.text_content("#jobs")
            seconds = processor(server.process.pid)
        finally:
            memory.stop()
            server.stop()
    return {
        "images": len(files),
        "pixels a side": Image.open(files[0]).width,
        "load before": round(load, 2),
        "processors": os.cpu_count(),
        "seconds to the address": round(served - begun, 1),
        "seconds to the first image": round(shown - begun, 1),
        "keys": len(waits),
        "seconds between keys": pace,
        "milliseconds from key to next image": spread(waits),
        "behind it at the end": jobs,
        "processor seconds of the server and its jobs": round(seconds),
        "megabytes of the server": round(memory.alone),
        "megabytes with its jobs": round(memory.together),
        "waits": [round(one, 1) for one in waits],
    }


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--side", type=int, default=96, help="pixels")
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--pace", type=float, default=0.5, help="seconds for an image")
    parser.add_argument("--files", type=Path, help="where they are, or to be kept")
    parser.add_argument(
        "--prefer", action="store_true", help="before other work (Linux, root)"
    )
    parser.add_argument("--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        images = arguments.files or Path(place) / "images"
        if not images.exists():
            make_all(images, arguments.images, arguments.side)
        project = Path(place) / "project"
        if arguments.prefer:
            prefer()
        found = measured(images, project, arguments.keys, arguments.pace)
    name = f"{found['images']} images of {found['pixels a side']} pixels"
    name += ", preferred to other work" if arguments.prefer else ""
    file = arguments.out
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    told = json.dumps(known | {name: found}, indent=1)
    rows = re.sub(r"(?<=[\d\[])\s+(?=[\d\]])|(?<=\d,)\s+(?=\d)", " ", told)
    file.write_text(rows + "\n", encoding="utf-8")
    print(name, {one: found[one] for one in found if one != "waits"})


if __name__ == "__main__":
    main()
