"""A server that is killed while Browse changes many images: all or nothing."""

import random
import sqlite3
import time
from threading import Timer

import pytest
from benchmarks.page import CHROMIUM, Server, chromium
from tests.web.person import NAMES, Person, digits

from fewlabels.projects import Project
from fewlabels.projects.store import Kind

pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH"),
]

NUM_IMAGES, NUM_KILLS = 1797, 12
KEYS = {str((number + 1) % 10): number for number in range(10)}
KEYS |= {"Delete": None, "x": "excluded"}
"""What the images become whose answers a key changes; None: unanswered."""
COUNT = "document.querySelector('.browse-count')?.textContent"


def answers(folder):
    """Check the database, and return the answer about each image by its file."""
    store = sqlite3.connect(folder / "labels.sqlite")
    assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert store.execute("PRAGMA foreign_key_check").fetchall() == []
    store.close()
    with Project.open(folder) as project:
        verdicts = project.store.verdicts()
    given = {
        verdict.item.split("@")[0]: "excluded"
        if verdict.kind is Kind.SKIP
        else verdict.class_number
        for verdict in verdicts
    }
    assert len(given) == len(verdicts)
    return given


class Selection:
    """All images of a filter in Browse, which change together."""

    def __init__(self, person, names):
        self.person, self.names = person, names
        self.history = [None]
        """Answers about all of them, which Backspace goes back to."""

    def is_shown(self):
        """Wait until the images of the filter are listed."""
        self.person.until(f"{COUNT}?.startsWith('{len(self.names):,} of ')")

    def change(self, key, soon=lambda: None):
        """Change all images with a key, or take the last change back.

        What is given is called just before, and its result returned.
        """
        if key == "Backspace":
            self.history.pop()
        else:
            self.history.append(KEYS[key])
            self.person.page.focus(".browse-grid")
            self.person.press("Control+a")
            text = f"{len(self.names):,} selected"
            self.person.waits_for(f".browse-actions >> text={text}")
        result = soon()
        self.person.press(key)
        return result

    def answers(self):
        """Return what the store has to know of the images."""
        answer = self.history[-1]
        return {} if answer is None else dict.fromkeys(self.names, answer)


def test_changes_of_many_images_are_whole_whenever_the_server_is_killed(tmp_path):
    target = digits(tmp_path / "digits", range(NUM_IMAGES))
    options = ("--classes", NAMES, "--budget", "1", "--query", "1", "--audit", "0")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    folder, draws, outcomes = tmp_path / "digits-labels", random.Random(), set()
    with chromium() as browser:
        server = Server(tmp_path / "digits", *options)
        try:
            person = Person(browser, server.address, target)
            page, asked = person.page, person.file
            person.labels()
            person.waits_for("text=The budget is spent")
            person.is_saved()
            others = answers(folder)
            assert list(others) == [asked]
            # No image of the filter is waiting for an answer in Label.
            digit = next(digit for digit in "1023456789" if digit not in asked)
            files = [path.name for path in (tmp_path / "digits").iterdir()]
            selection = Selection(person, [name for name in files if digit in name])
            page.goto(f"http://127.0.0.1:{server.port}/#browse?name={digit}")
            selection.is_shown()
            begun = selection.change("1", time.monotonic)
            person.is_saved()
            usual = time.monotonic() - begun
            for turn in range(NUM_KILLS):
                before = others | selection.answers()
                keys = [key for key in KEYS if KEYS[key] != selection.history[-1]]
                if turn % 3 == 1 and len(selection.history) > 1:
                    keys = ["Backspace"]
                kill = Timer(draws.uniform(0, usual), server.kill)
                selection.change(draws.choice(keys), kill.start)
                after = others | selection.answers()
                kill.join()
                page.wait_for_timeout(100)
                is_unsent = page.get_attribute("#saved", "data-unsent") != "0"
                stored = answers(folder)
                assert stored == after or (is_unsent and stored == before)
                outcomes.add((is_unsent, stored == after))
                server.start()
                if turn % 3 == 2:  # what it has not sent outlives the page itself
                    page.reload()
                    selection.is_shown()
                    selection.history = selection.history[-1:]
                person.is_saved()
                assert answers(folder) == after
            assert person.errors == []
        finally:
            server.stop()
    assert len(outcomes) > 1, outcomes
