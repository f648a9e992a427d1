"""Somebody at the keyboard of a page in Chromium."""

import time

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = "zero,one,two,three,four,five,six,seven,eight,nine"


def digits(folder, numbers):
    """Save digits as images; the names tell nothing but their number."""
    data = load_digits()
    folder.mkdir()
    for number in numbers:
        pixels = (data.images[number] * 15.9).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:04d}.png")
    return data.target


class Person:
    """Somebody at the keyboard who knows the digits."""

    def __init__(self, browser, address, target, **options):
        self.page = browser.new_context(**options).new_page()
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        self.target = target
        self.waits_for("#frame img")

    def waits_for(self, selector):
        self.page.wait_for_selector(selector, timeout=300_000)

    def until(self, condition):
        """Wait; the page itself forbids to evaluate text, so it is asked from here."""
        end = time.monotonic() + 400
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def press(self, key):
        self.page.keyboard.press(key)

    @property
    def file(self):
        return self.page.text_content("#file")

    def sees(self):
        """Return the digit that is shown, once there is one."""
        self.until("document.getElementById('file').textContent")
        return int(self.target[int(self.file[:4])])

    def labels(self):
        digit = self.sees()
        self.press(str((digit + 1) % 10))

    def is_called(self, name):
        """Take a name; the page is loaded anew then."""
        self.page.click("#who")
        self.waits_for("dialog input")
        self.page.keyboard.type(name)
        with self.page.expect_navigation():
            self.press("Enter")
        self.waits_for("#frame img")

    def turn(self):
        """Return how many grids were shown so far."""
        return int(self.page.get_attribute(".grid", "data-turn") or 0)

    def sees_a_grid(self, before):
        end = time.monotonic() + 300
        while self.turn() <= before:
            assert time.monotonic() < end
            time.sleep(0.02)

    def confirms(self):
        """Correct the grid of a class and confirm the rest; the next class is shown."""
        title = self.page.text_content(".review-head h2")
        place = NAMES.split(",").index(title.split()[1])
        names = self.page.eval_on_selector_all(
            ".tile img", "images => images.map(one => one.alt)"
        )
        for name in names:
            if self.target[int(name[:4])] != place:
                self.press(str((self.target[int(name[:4])] + 1) % 10))
            self.press("ArrowRight")
        before = self.turn()
        self.press("Enter")
        self.sees_a_grid(before)
        return len(names)

    def merges(self, name, into):
        """Merge a class into another one, and see it go."""
        self.page.focus(f"[aria-label='Merge {name}']")
        self.press("Enter")
        self.page.focus("#dialog select")
        self.page.keyboard.type(into)
        self.page.focus("#dialog .main")
        self.press("Enter")
        self.waits_for(f"[aria-label='Bring back {name}']")
        self.until(f"!document.querySelector('[aria-label=\"Merge {name}\"]')")

    def is_saved(self):
        self.until(
            "document.getElementById('saved').textContent === 'Saved'"
            " && document.getElementById('saved').dataset.unsent === '0'"
        )

    def spent(self):
        self.is_saved()
        self.page.wait_for_timeout(600)
        return int(self.page.text_content("#spent"))
