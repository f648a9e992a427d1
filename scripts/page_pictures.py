"""Make the pictures of the labeling page in docs/images.

``python -m scripts.page_pictures PACKAGE`` labels photographs in Chromium until there
is something to see, and pictures each view as it looks on a screen; it takes some
minutes. PACKAGE is the file that ``scripts/photographs.py`` describes. With ``--all
FOLDER`` all views are pictured there instead, light and dark, on a screen, a tablet and
a phone, to look for what is wrong. ``--prefer`` puts other work of the machine off, as
in the benchmarks of the page.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.page import Server, chromium, prefer
from PIL import Image
from scripts.photographs import KINDS, photographs

IMAGES = Path(__file__).parent.parent / "docs" / "images"
NUM_LABELS = 76
SLIPS = (33, 51)  # which labels are given by mistake
OPTIONS = ("--classes", ",".join(KINDS), "--budget", "100", "--audit", "25")
OPTIONS += ("--quality", "fast")
SIZES = {"screen": (1280, 800), "tablet": (820, 1180), "phone": (390, 844)}
ALL_SHOWN = "[...document.images].every(image => !image.src || image.naturalWidth > 0)"
VIEWS = {"label": "L", "review": "R", "browse": "B", "results": "S", "classes": "C"}


class Person:
    """Somebody who labels what the pictures shall show."""

    def __init__(self, page: Any, truth: dict[str, int]) -> None:
        self.page, self.truth, self.num_labels = page, truth, 0

    def until(self, condition: str) -> None:
        """Wait until the page says so."""
        end = time.monotonic() + 300
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def labels(self, number: int) -> None:
        """Label some images, a few of them wrong."""
        for _ in range(number):
            self.until("document.getElementById('file').textContent")
            kind = self.truth[self.page.text_content("#file")]
            wrong = self.num_labels in SLIPS
            self.page.keyboard.press(str((kind + wrong) % len(KINDS) + 1))
            self.num_labels += 1
            time.sleep(0.5)

    def labels_enough(self) -> None:
        """Label until there is something to see in each view."""
        self.labels(20)
        self.until("!document.querySelector('.job')")  # the features are there
        self.labels(NUM_LABELS - 20)
        self.until("!document.querySelector('.job')")
        self.until("document.getElementById('saved').textContent === 'Saved'")

    def sees(self, view: str) -> None:
        """Go to a view, and wait until it is complete."""
        self.page.evaluate("document.activeElement.blur()")
        self.page.keyboard.press(f"Shift+{VIEWS[view]}")
        self.page.wait_for_load_state("networkidle")
        self.until("!document.querySelector('.wait')")
        time.sleep(0.5)
        self.until(ALL_SHOWN)

    def pictures(self, path: Path) -> None:
        """Write what is seen."""
        self.page.screenshot(path=path)
        Image.open(path).convert("RGB").save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1024} kB")


def picture_all(person: Person) -> None:
    """Picture what the documentation shows."""
    page = person.page
    person.sees("label")
    person.pictures(IMAGES / "page-label.png")
    page.emulate_media(color_scheme="dark")
    person.pictures(IMAGES / "page-dark.png")
    page.emulate_media(color_scheme="light")
    person.sees("review")
    page.click(".review-tabs >> text=fish")
    person.until("document.querySelector('.review-head h2').textContent.match(/fish/)")
    page.wait_for_load_state("networkidle")
    time.sleep(0.5)
    person.until(ALL_SHOWN)
    name = page.text_content(".review-head h2").split()[1]
    files = page.eval_on_selector_all(".tile img", "all => all.map(image => image.alt)")
    for place, file in enumerate(files):
        if KINDS[person.truth[file]] != name:
            page.hover(f"#tile-{place}")
            page.keyboard.press(str(person.truth[file] + 1))
    time.sleep(5)  # until the messages are gone
    person.pictures(IMAGES / "page-review.png")
    person.sees("browse")
    person.pictures(IMAGES / "page-browse.png")
    person.sees("results")
    page.set_viewport_size({"width": 1280, "height": 1000})
    person.pictures(IMAGES / "page-results.png")


def picture_every_view(person: Person, folder: Path) -> None:
    """Picture each view in each size, light and dark; what is below the screen, too."""
    folder.mkdir(exist_ok=True)
    page = person.page
    for name, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for view in VIEWS:
                person.sees(view)
                person.pictures(folder / f"{name}-{scheme}-{view}.png")
                below = page.evaluate(
                    f"(box => box.scrollHeight - box.clientHeight)"
                    f"(document.getElementById('view-{view}'))"
                )
                if below > 0:
                    page.evaluate(
                        f"document.getElementById('view-{view}').scrollTop = 1e6"
                    )
                    person.pictures(folder / f"{name}-{scheme}-{view}-below.png")


def main() -> None:
    """Write photographs, label them, picture what is seen."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("package", type=Path, help="of photographs")
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--prefer", action="store_true")
    chosen = parser.parse_args()
    if chosen.prefer:
        prefer()
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = Path(place) / "photographs"
        truth, _ = photographs(chosen.package, folder)
        server = Server(folder, *OPTIONS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(server.address)
            person = Person(page, truth)
            person.labels_enough()
            if chosen.all:
                picture_every_view(person, chosen.all)
            else:
                picture_all(person)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
