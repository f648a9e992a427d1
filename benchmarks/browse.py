"""How long people wait in the view that shows all images, where there are many.

``python -m benchmarks.browse`` makes the files, indexes them in a project and imports
labels for a fifth of them. Then it opens Browse in Chromium, scrolls through a thousand
rows, types part of a file name and pans a map. Seconds depend on what else the machine
does; processor seconds hardly do. ``--prefer`` measures on a busy machine what a quiet
one would show. Adds to benchmarks/results/browse.json; a quarter of an
hour, nearly all of it to make and index the files (``--files`` and ``--project`` keep
them).
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.page import Server, chromium, family
from benchmarks.page_speed import NAMES, make_all, spread

from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project

NUM_POINTS, NUM_ROWS = 100_000, 1_000
IN_TIME = 33.4  # milliseconds of a frame
RECORD = Path(__file__).parent / "results" / "browse.json"
SCROLL = """async (rows) => {
  const grid = document.querySelector(".browse-grid");
  const height = document.querySelector(".browse-row").clientHeight + 6;
  const frames = [];
  let before = await new Promise(requestAnimationFrame);
  for (let row = 0; row < rows; row += 4) {
    grid.scrollTop = row * height;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""
PAN = """async (count) => {
  const { PointMap } = await import("/static/map.js");
  const map = new PointMap({ onRegion() {}, onPoint() {} });
  document.querySelector("#view-browse").append(map.box);
  await new Promise((go) => setTimeout(go, 500));
  const random = (most) => {
    const numbers = Uint16Array.from({ length: count }, () => Math.random() * most);
    const bytes = new Uint8Array(numbers.buffer);
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
  };
  const [x, y, sure] = [random(65535), random(65535), random(65535)];
  const classes = [..."abcdefghij"].map((name) => [name, "#4477aa"]);
  map.show({ total: count, classes, x, y, sure, label: random(10), predicted: sure });
  const frames = [];
  let before = await new Promise(requestAnimationFrame);
  for (let step = 0; step < 200; step += 1) {
    map.pan(step % 20 < 10 ? 9 : -9, 4);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }
  map.box.remove();
  return frames;
}"""
COUNT = "document.querySelector('.browse-count b')?.textContent"
IMAGE = "document.querySelector('.browse-frame img')"
IS_SHOWN = """() => {
  const images = [...document.querySelectorAll(".browse-frame")];
  const done = images.filter((box) => box.firstChild?.naturalWidth);
  return images.length > 20 && done.length === images.length;
}"""


def begin(folder: Path, images: Path) -> None:
    """Index the images, and import labels for every fifth."""
    names = NAMES.split(",")
    options: dict[str, Any] = {"trainer": Choice(name="supervised"), "budget": 1_000}
    with Project.create(folder, images, names, strategy="random", **options) as project:
        paths = [item.path for item in project.store.items()][::5]
        rows = (f"{path},{names[at % 10]}" for at, path in enumerate(paths))
        text = "\n".join(["file_name,label", *rows])
        project.import_labels("labels.csv", content=text.encode(), scan=False)
        project.ask()


def processor(process: int) -> float:
    """Return the seconds of processor time that a process took, without its jobs."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def until(page: Any, condition: str, limit: float = 120) -> None:
    """Wait until something is true of the page."""
    end = time.monotonic() + limit
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.01)


def run_first() -> None:
    """Have all that this process has started run before other work of the machine."""
    for process in family(os.getpid()):
        for thread in Path(f"/proc/{process}/task").glob("*"):
            with suppress(OSError):  # it has ended
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))


def measured(project: Path, *, is_first: bool) -> dict[str, Any]:
    """Open, scroll, filter; return what each took."""
    with chromium() as browser:
        server = Server(project)
        try:
            page = browser.new_context(viewport={"width": 1280, "height": 800})
            page = page.new_page()
            page.goto(server.address)
            page.wait_for_selector("#frame img", timeout=120_000)
            until(page, "!document.querySelector('.job')", 600)
            time.sleep(2)
            if is_first:
                run_first()
            tool = page.context.new_cdp_session(page)
            tool.send("Performance.enable", {"timeDomain": "threadTicks"})

            def tasks() -> float:
                found = tool.send("Performance.getMetrics")["metrics"]
                return float(
                    next(m["value"] for m in found if m["name"] == "TaskDuration")
                )

            def timed(act: Callable[[], Any]) -> tuple[dict[str, float], Any]:
                before = time.monotonic(), processor(server.process.pid), tasks()
                value = act()
                after = time.monotonic(), processor(server.process.pid), tasks()
                names = (
                    "seconds",
                    "server processor seconds",
                    "page processor seconds",
                )
                spent = [round(b - a, 2) for a, b in zip(before, after, strict=True)]
                return dict(zip(names, spent, strict=True)), value

            def open_view() -> None:
                page.keyboard.press("Shift+B")
                until(page, IS_SHOWN)

            def filter_names() -> None:
                page.fill(".browse-filters input", "01234")
                until(page, f"!!{COUNT}?.includes(' of ')")
                until(page, f"{IMAGE}?.naturalWidth > 0")

            first, _ = timed(open_view)
            page.keyboard.press("Shift+L")
            again, _ = timed(open_view)
            scroll, frames = timed(lambda: page.evaluate(SCROLL, NUM_ROWS))
            until(page, IS_SHOWN)
            filtered, _ = timed(filter_names)
            total = page.text_content(".browse-count b")
            cells = page.locator(".browse-cell").count()
            page.click("text=Clear filters")
            page.evaluate("document.querySelector('.browse-grid').remove()")
            panned, pan_frames = timed(lambda: page.evaluate(PAN, NUM_POINTS))
        finally:
            server.stop()
    return {
        "first screen": first,
        "coming back from another view": again,
        "scrolling": scroll,
        "milliseconds of a frame while scrolling": spread(frames),
        "percent of frames within 33.4 ms while scrolling": within(frames),
        "filter by file name, until its images are shown": filtered,
        "shown then": total,
        "cells in the document": cells,
        "panning a map, 200 frames": panned,
        "milliseconds of a frame while panning": spread(pan_frames),
        "percent of frames within 33.4 ms while panning": within(pan_frames),
    }


def within(frames: list[float]) -> float:
    """Return how many frames came in time, in percent; a screen has 60 in a second."""
    return round(100 * sum(time <= IN_TIME for time in frames) / len(frames), 1)


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--files", type=Path, help="where they are, or to be kept")
    parser.add_argument("--project", type=Path, help="where it is, or to be kept")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument(
        "--prefer", action="store_true", help="before other work (Linux, root)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        images = arguments.files or Path(place) / "images"
        project = arguments.project or Path(place) / "project"
        if not images.exists():
            make_all(images, arguments.images, 96)
        if not project.exists():
            begin(project, images)
        load = round(os.getloadavg()[0], 1)
        found = {"images": arguments.images, "rows": NUM_ROWS, "points": NUM_POINTS}
        found |= {"load before": load, "processors": os.cpu_count()}
        found |= {"preferred to other work": arguments.prefer, "in time": IN_TIME}
        found |= measured(project, is_first=arguments.prefer)
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    known[f"{arguments.images} images"] = found
    arguments.out.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
