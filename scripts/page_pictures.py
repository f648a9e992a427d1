"""Make the pictures of the labeling page in docs/images.

Landscapes of six kinds are drawn, labeled in Chromium until there is something to see,
and each view is pictured as it looks on a screen, the first also in the dark. Run
``python -m scripts.page_pictures``; it takes some minutes. ``--prefer`` puts other work
of the machine off, as in the benchmarks of the page.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.page import Server, chromium, prefer
from PIL import Image, ImageDraw, ImageFilter

IMAGES = Path(__file__).parent.parent / "docs" / "images"
NUM_IMAGES, BUDGET = 400, 130
WIDTH, HEIGHT, FINE = 480, 360, 4
SLIPS = (33, 51)  # which labels are given by mistake

Color = tuple[int, int, int]
Random = np.random.Generator


def mixed(one: Color, other: Color, share: float) -> Color:
    """Return a color between two."""
    red, green, blue = (
        round(a + share * (b - a)) for a, b in zip(one, other, strict=True)
    )
    return red, green, blue


class Canvas:
    """A picture to paint on, finer than it is measured, so that it looks smooth.

    Args:
        ground: What is painted over, of the size that is measured.
    """

    def __init__(self, ground: Image.Image) -> None:
        self.image = ground.resize((FINE * WIDTH, FINE * HEIGHT))
        self._draw = ImageDraw.Draw(self.image)

    def polygon(self, points: Sequence[tuple[float, float]], color: Color) -> None:
        """Paint a polygon."""
        self._draw.polygon([(FINE * x, FINE * y) for x, y in points], fill=color)

    def box(self, corners: Sequence[float], color: Color, round_by: float = 0) -> None:
        """Paint a rectangle, its corners rounded or not."""
        large = [FINE * one for one in corners]
        self._draw.rounded_rectangle(large, FINE * round_by, fill=color)

    def disk(self, x: float, y: float, size: float, color: Color) -> None:
        """Paint a sun, a moon or a star."""
        ends = (x - size, y - size, x + size, y + size)
        self._draw.ellipse([FINE * one for one in ends], fill=color)

    def below(self, heights: Sequence[float], color: Color) -> None:
        """Paint all that is below a line."""
        line = list(zip(np.linspace(0, WIDTH, len(heights)), heights, strict=True))
        self.polygon([(0, HEIGHT), *line, (WIDTH, HEIGHT)], color)

    def done(self) -> Image.Image:
        """Return the picture, twice as fine as it is measured."""
        return self.image.resize((2 * WIDTH, 2 * HEIGHT), Image.Resampling.LANCZOS)


def graded(top: Color, bottom: Color, height: int = HEIGHT) -> Image.Image:
    """Return a picture that goes from one color to another."""
    shares = np.linspace(0, 1, height)[:, None, None]
    rows = np.asarray(top) * (1 - shares) + np.asarray(bottom) * shares
    return Image.fromarray(np.repeat(rows, WIDTH, 1).astype(np.uint8))


def ridge(random: Random, level: float, rough: float, waves: int) -> list[float]:
    """Return heights from left to right, as hills have them."""
    x = np.linspace(0, 1, WIDTH)
    heights = np.zeros(WIDTH)
    for wave in range(1, waves + 1):
        shift = random.uniform(0, 2 * math.pi)
        heights += np.sin(2 * math.pi * wave * x * 1.3 + shift) / wave**1.1
    heights = level + rough * heights
    return [float(one) for one in heights]


def mountains(random: Random) -> Image.Image:
    """Draw ridges, each darker than the one behind it."""
    sky = mixed((120, 170, 220), (240, 190, 170), random.uniform())
    image = graded(sky, (250, 240, 228))
    draw = Canvas(image)
    draw.disk(random.uniform(60, 420), random.uniform(50, 130), 22, (255, 250, 235))
    near, far = mixed((40, 62, 88), (66, 52, 84), random.uniform()), (186, 200, 216)
    for layer in range(4):
        level = 150 + 48 * layer + random.uniform(-10, 10)
        heights = ridge(random, level, 36 - 5 * layer, 14)
        draw.below(heights, mixed(far, near, layer / 3))
    return draw.done()


def sea(random: Random) -> Image.Image:
    """Draw water, a horizon, and now and then a boat."""
    horizon = int(random.uniform(150, 200))
    sky = mixed((140, 200, 235), (250, 205, 170), random.uniform())
    image = graded(sky, (252, 244, 232))
    water = mixed((60, 140, 170), (30, 90, 140), random.uniform())
    image.paste(graded(mixed(water, (255, 255, 255), 0.35), water), (0, horizon))
    draw = Canvas(image)
    for _ in range(130):
        y = horizon + 4 + (HEIGHT - horizon) * random.uniform() ** 1.6
        x, length = random.uniform(0, WIDTH), 6 + (y - horizon) / 5
        light = mixed(water, (255, 255, 255), random.uniform(0.25, 0.6))
        draw.box((x, y, x + length, y + 0.6 + (y - horizon) / 90), light)
    if random.uniform() < 0.5:
        x, y = random.uniform(90, 390), horizon + random.uniform(2, 30)
        draw.polygon([(x, y - 44), (x, y - 6), (x + 26, y - 6)], (250, 250, 248))
        draw.polygon([(x - 4, y - 38), (x - 4, y - 6), (x - 20, y - 6)], (230, 96, 84))
        hull = [(x - 24, y - 3), (x + 30, y - 3), (x + 20, y + 7), (x - 16, y + 7)]
        draw.polygon(hull, (70, 52, 48))
    return draw.done()


def forest(random: Random) -> Image.Image:
    """Draw firs in a haze."""
    haze = mixed((214, 232, 220), (236, 234, 214), random.uniform())
    image = graded(mixed(haze, (150, 190, 190), 0.5), haze)
    draw = Canvas(image)
    dark = mixed((24, 66, 48), (40, 72, 34), random.uniform())
    for layer in range(4):
        color = mixed(haze, dark, 0.3 + 0.23 * layer)
        ground = 190 + 52 * layer
        draw.below(ridge(random, ground, 6, 4), color)
        for x in np.arange(random.uniform(-20, 0), WIDTH + 20, 26 + 9 * layer):
            height = random.uniform(46, 80) * (1 + 0.35 * layer)
            _fir(draw, float(x + random.uniform(-8, 8)), ground + 12.0, height, color)
    return draw.done()


def _fir(draw: Canvas, x: float, foot: float, height: float, color: Color) -> None:
    for part in range(4):
        top, wide = foot - height * (1 - 0.2 * part), height * (0.1 + 0.06 * part)
        bottom = top + height * 0.4
        draw.polygon([(x, top), (x - wide, bottom), (x + wide, bottom)], color)


def desert(random: Random) -> Image.Image:
    """Draw dunes, and now and then a cactus."""
    image = graded(
        mixed((250, 196, 140), (150, 190, 220), random.uniform()), (255, 236, 206)
    )
    draw = Canvas(image)
    draw.disk(random.uniform(60, 420), random.uniform(60, 140), 28, (255, 246, 220))
    light, dark = (
        (240, 196, 130),
        mixed((176, 104, 58), (150, 84, 66), random.uniform()),
    )
    for layer in range(4):
        level = 190 + 44 * layer
        draw.below(ridge(random, level, 20, 2), mixed(light, dark, layer / 3))
    if random.uniform() < 0.5:
        x, foot, green = random.uniform(70, 410), 320, (64, 96, 66)
        draw.box((x, foot - 90, x + 16, foot), green, 8)
        draw.box((x - 24, foot - 66, x - 12, foot - 34), green, 6)
        draw.box((x - 24, foot - 44, x + 8, foot - 32), green, 6)
        draw.box((x + 28, foot - 76, x + 40, foot - 44), green, 6)
        draw.box((x + 8, foot - 54, x + 40, foot - 42), green, 6)
    return draw.done()


def city(random: Random) -> Image.Image:
    """Draw houses at dusk, some windows lit."""
    image = graded(
        mixed((70, 84, 140), (150, 90, 130), random.uniform()), (250, 190, 150)
    )
    draw = Canvas(image)
    for layer in range(2):
        wall = mixed((112, 96, 134), (40, 42, 66), layer)
        x = float(random.uniform(-20, 0))
        while x < WIDTH:
            wide, top = random.uniform(34, 70), random.uniform(90, 220) + 60 * layer
            draw.box((x, top, x + wide, HEIGHT), wall)
            if layer:
                _windows(draw, random, x, top, wide)
            x += wide + random.uniform(0, 5)
    return draw.done()


def _windows(draw: Canvas, random: Random, x: float, top: float, wide: float) -> None:
    for row in np.arange(top + 10, HEIGHT, 16):
        for column in np.arange(x + 7, x + wide - 8, 12):
            if random.uniform() < 0.5:
                draw.box((column, row, column + 5, row + 8), (255, 214, 130))


def night(random: Random) -> Image.Image:
    """Draw stars, and lights in the sky above dark hills."""
    image = graded((12, 18, 44), mixed((40, 60, 100), (60, 44, 92), random.uniform()))
    glow = Image.new("RGB", image.size)
    light = ImageDraw.Draw(glow)
    green = mixed((60, 200, 150), (120, 110, 220), random.uniform())
    band = ridge(random, 130, 24, 3)
    for place in range(0, WIDTH, 3):
        length = random.uniform(40, 110)
        top = (place, band[place] - length)
        light.line((*top, place, band[place]), fill=green, width=3)
    glow = glow.filter(ImageFilter.GaussianBlur(9))
    image = Image.fromarray(
        np.clip(np.asarray(image, dtype=int) + np.asarray(glow) * 0.7, 0, 255).astype(
            np.uint8
        )
    )
    draw = Canvas(image)
    for _ in range(90):
        x, y, size = *random.uniform((0, 0), (WIDTH, 240)), random.uniform(0.4, 1.5)
        draw.disk(x, y, size, (236, 240, 255))
    draw.below(ridge(random, 280, 16, 8), (16, 22, 40))
    draw.below(ridge(random, 322, 12, 6), (8, 12, 26))
    return draw.done()


KINDS: dict[str, Callable[[Random], Image.Image]] = {
    "mountains": mountains,
    "sea": sea,
    "forest": forest,
    "desert": desert,
    "city": city,
    "night": night,
}


def landscapes(folder: Path) -> dict[str, int]:
    """Draw all of them; return the kind of each by its name."""
    folder.mkdir()
    truth = {}
    for number in range(NUM_IMAGES):
        random = np.random.default_rng(number)
        kind = int(random.integers(len(KINDS)))
        name = f"IMG_{1000 + number}.jpg"
        list(KINDS.values())[kind](random).save(folder / name, quality=92)
        truth[name] = kind
    return truth


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
            time.sleep(0.8)

    def sees(self, key: str) -> None:
        """Go to a view, and wait until it is complete."""
        self.page.keyboard.press(key)
        self.page.wait_for_load_state("networkidle")
        time.sleep(1.5)

    def pictures(self, name: str) -> None:
        """Write what is seen."""
        path = IMAGES / f"page-{name}.png"
        self.page.screenshot(path=path)
        Image.open(path).convert("RGB").save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1024} kB")


def picture_all(page: Any, truth: dict[str, int]) -> None:
    """Label, and picture each view."""
    person = Person(page, truth)
    person.labels(20)
    person.until("!document.querySelector('.job')")  # the features are there
    person.labels(85)
    person.until("!document.querySelector('.job')")
    person.until("document.getElementById('saved').textContent === 'Saved'")
    time.sleep(1)
    person.pictures("label")
    page.emulate_media(color_scheme="dark")
    person.pictures("dark")
    page.emulate_media(color_scheme="light")
    person.sees("Shift+R")
    person.sees("PageDown")
    for key in (
        "ArrowRight",
        "ArrowRight",
        "Space",
        "ArrowDown",
        "Space",
        "ArrowRight",
    ):
        page.keyboard.press(key)
    person.pictures("review")
    person.sees("Shift+S")
    person.until(
        "!document.querySelector('.card.wide p.quiet')?.textContent.endsWith('…')"
    )
    time.sleep(1)
    page.set_viewport_size({"width": 1280, "height": 1000})
    person.pictures("results")


def main() -> None:
    """Draw, label, picture."""
    if "--prefer" in sys.argv:
        prefer()
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = Path(place) / "landscapes"
        truth = landscapes(folder)
        options = ("--classes", ",".join(KINDS), "--budget", str(BUDGET))
        options += ("--quality", "fast", "--audit", "30", "--strategy", "outward")
        server = Server(folder, *options)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(server.address)
            picture_all(page, truth)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
