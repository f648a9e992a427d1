"""Make the film of the labeling page, docs/images/page-film.webp.

``python -m scripts.page_film PACKAGE`` labels photographs in Chromium as a person
would, by keys, and keeps what is seen: two minutes from the command to an exported
model. PACKAGE is the file that ``scripts/photographs.py`` describes; who made the
photographs is written beside the film.
"""

import argparse
import io
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.page import Server, chromium
from PIL import Image, ImageDraw, ImageFont
from scripts.page_pictures import IMAGES, Person
from scripts.photographs import KINDS, photographs

FILM, SOURCES = IMAGES / "page-film.webp", IMAGES / "page-film.txt"
SIZE, BAR = (1000, 640), 44  # pixels of the page, and of the line below it
SECONDS, MOST_BYTES = 120, 3_000_000
BUDGET, SLIP = 60, 6  # which label is given by mistake, to be found later
COMMAND = f"fewlabels start photographs --classes {','.join(KINDS)} --budget {BUDGET}"
IS_QUIET = "!document.querySelector('.job')"
HAS_TILES = "[...document.querySelectorAll('.tile img')].filter(i => i.complete).length"


class Film(Person):
    """Somebody who labels, and a camera."""

    frames: list[tuple[Image.Image, float]]
    """What is seen, and for how many seconds."""

    def shoot(self, seconds: float, words: str, key: str = "") -> None:
        """Keep what is seen, with a line below it, and the key that is pressed now."""
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append((subtitled(shot, words, key), seconds))

    def press(self, key: str, seconds: float, words: str) -> None:
        """Press a key, with a picture before."""
        self.shoot(seconds, words, key.replace("Shift+", "Shift "))
        self.page.keyboard.press(key)

    def rests(self) -> None:
        """Wait until nothing moves."""
        self.page.wait_for_load_state("networkidle")
        time.sleep(0.7)

    def give(self, number: int, seconds: float, words: str) -> None:
        """Label images; one of them wrong."""
        for _ in range(number):
            self.until("document.getElementById('file').textContent")
            self.until("document.querySelector('#frame img')?.naturalWidth > 0")
            file = self.page.text_content("#file")
            kind = self.truth[file]
            if self.num_labels == SLIP:
                self.slip, kind = file, (kind + 1) % len(KINDS)
            self.num_labels += 1
            self.press(str(kind + 1), seconds, words)
            self.until(f"document.getElementById('file').textContent !== '{file}'")
            time.sleep(0.4)

    def label(self) -> None:
        """Label until there is a model."""
        first = "Each image gets a key. The first are random, and some of them measure."
        self.give(10, 1.5, first)
        self.until(IS_QUIET)
        self.give(22, 0.7, "A model learns meanwhile, and chooses what to ask next.")
        self.trains("Train now, if you do not want to wait for it.")

    def trains(self, words: str) -> None:
        """Train, and wait for the model."""
        self.until(IS_QUIET)
        self.press("Shift+T", 1.5, words)
        time.sleep(1)
        self.shoot(1, words)
        self.until(IS_QUIET)
        self.rests()

    def review(self) -> None:
        """Correct and confirm the grids of some classes."""
        self.press("Shift+R", 1, "Review: confirm predictions, many at once.")
        for turn in range(3):
            self.until(f"document.querySelector('.grid').dataset.turn > {turn}")
            self.until(f"{HAS_TILES} > 0")
            self.rests()
            title = self.page.text_content(".review-head h2").split()
            names = self.page.eval_on_selector_all(
                ".tile img", "images => images.map(image => image.alt)"
            )
            kind = KINDS.index(title[1])
            self.shoot(3 - turn, f"The model takes these for: {KINDS[kind]}.")
            wrong = [at for at, name in enumerate(names) if self.truth[name] != kind]
            for at in wrong:
                self.page.hover(f"#tile-{at}")
                key = str(self.truth[names[at]] + 1)
                self.press(key, 1, "A wrong one gets the key of its class.")
                time.sleep(0.4)
            self.press("Enter", 1.5, "Enter confirms all others.")
            time.sleep(0.5)
        self.trains("Confirmed labels train the model, and cost no budget.")

    def browse(self) -> None:
        """Find a slip by its file name, and draw around images on the map."""
        page = self.page
        self.press("Shift+B", 1, "Browse: all images, with labels and predictions.")
        self.until("document.querySelectorAll('.browse-frame img').length > 10")
        self.rests()
        self.shoot(3, "Browse: all images, with labels and predictions.")
        words = "One of the first labels was a slip: find it by its file name."
        self.press("/", 1, words)
        page.keyboard.type(self.slip[:-4])
        self.shoot(1, words)
        page.keyboard.press("Enter")
        self.until("document.querySelectorAll('.browse-cell').length === 1")
        self.rests()
        self.press("Enter", 2, words)
        self.until("document.querySelectorAll('.browse-history li').length === 1")
        self.rests()
        key = str(self.truth[self.slip] + 1)
        self.press(key, 3, "Who said what, and when; a key corrects it.")
        self.until("document.querySelectorAll('.browse-history li').length === 2")
        self.rests()
        self.press("Escape", 3, "Everything is kept, and can be taken back.")
        page.click("text=Clear filters")
        page.get_by_role("button", name="Map", exact=True).click()
        self.until("document.querySelectorAll('.map-legend li').length")
        page.select_option("[aria-label=Color]", "predicted")
        self.rests()
        words = "The map: images that the model finds alike are near each other."
        self.shoot(4, words)
        self.draws_a_line("Draw around some to see them.")
        self.rests()
        self.shoot(3, "Draw around some to see them.")

    def draws_a_line(self, words: str) -> None:
        """Draw around the left part of the map."""
        page = self.page
        page.get_by_role("button", name="Draw around images").click()
        box = page.locator(".map-canvas").bounding_box()
        x, y, wide, high = (box[name] for name in ("x", "y", "width", "height"))
        line = [(0.2, 0.05), (0.4, 0.05), (0.48, 0.3), (0.46, 0.6), (0.38, 0.95)]
        line += [(0.2, 0.95), (0.18, 0.5)]
        for place, (right, down) in enumerate(line):
            page.mouse.move(x + right * wide, y + down * high, steps=4)
            if place == 0:
                page.mouse.down()
            time.sleep(0.1)
            self.shoot(0.3, words)
        page.mouse.up()
        self.until("location.hash.startsWith('#browse?region=')")

    def results(self) -> None:
        """Read all of Results."""
        self.press("Shift+S", 0.5, "Results: how good is it, and is that enough?")
        self.until("!!document.querySelector('.card')")
        self.rests()
        words = (
            "How good is it? The range holds however often you look.",
            "The learning curve, and what is confused with what.",
            "Each class: how many are recognized, how many predictions are right.",
            "Labels that may be wrong, and likely mistakes of the model.",
        )
        for text in words:
            self.shoot(5, text)
            self.page.mouse.move(500, 400)
            self.page.mouse.wheel(0, 430)
            self.rests()

    def change_classes(self) -> None:
        """Rename a class."""
        words = "Classes: add, rename, merge, delete, describe; it can be undone."
        self.press("Shift+C", 0.5, words)
        self.page.wait_for_selector("[aria-label='Name of power']")
        self.rests()
        self.shoot(3, words)
        self.page.fill("[aria-label='Name of power']", "renewable energy")
        self.press("Enter", 2, words)
        self.page.wait_for_selector("[aria-label='Name of renewable energy']")
        self.rests()
        self.shoot(2, words)

    def export(self) -> None:
        """Export, and read what was written."""
        self.page.keyboard.press("Shift+L")
        self.rests()
        self.press("Shift+E", 2, "Export: labels, predictions, the model and a report.")
        self.until("!!document.querySelector('dialog[open]')")
        self.rests()
        self.shoot(5, "Export: labels, predictions, the model and a report.")


def subtitled(shot: Image.Image, words: str, key: str) -> Image.Image:
    """Return a picture of the page with a line of words and a key below it."""
    whole = Image.new("RGB", (SIZE[0], SIZE[1] + BAR), (24, 28, 38))
    whole.paste(shot)
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default(19)
    middle = SIZE[1] + BAR / 2
    draw.text((18, middle), words, (240, 243, 248), font, "lm")
    if key:
        left = SIZE[0] - 34 - draw.textlength(key, font)
        box = (left - 12, SIZE[1] + 7, SIZE[0] - 20, SIZE[1] + BAR - 8)
        draw.rounded_rectangle(box, 6, (250, 250, 252))
        draw.text((left, middle), key, (24, 28, 38), font, "lm")
    return whole


def terminal(text: str) -> Image.Image:
    """Return a picture of a terminal."""
    shot = Image.new("RGB", SIZE, (13, 17, 23))
    draw = ImageDraw.Draw(shot)
    draw.text((40, 250), text, (214, 222, 235), ImageFont.load_default(21), spacing=14)
    return shot


def written(frames: list[tuple[Image.Image, float]]) -> None:
    """Write the film, as good as its size allows."""
    images = [image for image, _ in frames]
    slower = SECONDS / sum(seconds for _, seconds in frames)
    times = [round(1000 * slower * seconds) for _, seconds in frames]
    for quality in (80, 70, 60, 50, 40, 30):
        images[0].save(
            FILM,
            save_all=True,
            append_images=images[1:],
            duration=times,
            loop=0,
            quality=quality,
            method=4,
            allow_mixed=True,
        )
        if FILM.stat().st_size <= MOST_BYTES:
            break
    print(f"{FILM}: {FILM.stat().st_size} bytes, quality {quality}")
    print(f"{len(images)} pictures in {sum(times) / 1000:.0f} s")


def main() -> None:
    """Write photographs, label them, write the film."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("package", type=Path, help="of photographs")
    package = parser.parse_args().package
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = Path(place) / "photographs"
        truth, sources = photographs(package, folder)
        SOURCES.write_text(sources, "utf-8")
        more = ("--budget", str(BUDGET), "--audit", "15", "--quality", "fast")
        server = Server(folder, "--classes", ",".join(KINDS), *more)
        try:
            page: Any = browser.new_page(
                viewport=dict(zip(("width", "height"), SIZE, strict=True))
            )
            page.goto(server.address)
            film = Film(page, truth)
            start = "A folder of photographs, a command, and a page opens."
            film.frames = [(subtitled(terminal(f"$ {COMMAND}"), start, ""), 4)]
            page.wait_for_selector("#frame img", timeout=300_000)
            for scene in (
                film.label,
                film.review,
                film.browse,
                film.results,
                film.change_classes,
                film.export,
            ):
                scene()
                print(f"{scene.__name__}: {len(film.frames)} pictures", flush=True)
            end = "pip install 'fewlabels[page]'"
            film.frames.append((subtitled(terminal(f"$ {end}"), "", ""), 3))
        finally:
            server.stop()
    written(film.frames)


if __name__ == "__main__":
    main()
