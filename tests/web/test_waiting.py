"""Nobody waits in silence: the address comes first, and every wait has words."""

import re
import time

import pytest
from benchmarks import page
from benchmarks.page import Server
from tests.web.person import NAMES, Person, digits

pytest.importorskip("playwright.sync_api")

WISH = ("--classes", NAMES, "--trainer", "frozen-linear", "--encoder", "pixels")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(page.CHROMIUM is None, reason="needs chromium on the PATH"),
]

# A trainer that takes as long to be there as many images take to be looked at.
SLOW = """
import time
from pathlib import Path
from fewlabels import training

def trainer():
    return training.make("frozen-linear", encoder="pixels")

while Path("{project}").exists() == {is_there} and not Path("{go}").exists():
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def chromium():
    with page.chromium() as browser:
        yield browser


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A trainer that waits for a file, once the project is there or before."""

    def written(*, is_there):
        project = tmp_path / "digits-labels" / "project.json"
        go = tmp_path / "go"
        text = SLOW.format(project=project, is_there=is_there, go=go)
        (tmp_path / "slow.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return go

    return written


def shows(tab, words, seconds=120):
    """Wait until the page says something in the place of an image."""
    end = time.monotonic() + seconds
    while not re.search(words, tab.text_content("#message") or ""):
        assert time.monotonic() < end, tab.text_content("#message")
        time.sleep(0.05)


def test_the_address_comes_first_and_the_page_says_what_is_done(
    tmp_path, chromium, slow
):
    target = digits(tmp_path / "digits", range(300))
    go = slow(is_there=False)
    wish = ("--classes", NAMES, "--budget", "60", "--trainer", "slow:trainer")
    server = Server(tmp_path / "digits", *wish)
    try:
        assert not (tmp_path / "digits-labels" / "project.json").exists()
        tab = chromium.new_page()
        tab.goto(server.address)
        shows(tab, "Creating the project.*first")
        assert tab.query_selector("#frame img") is None
        go.write_text("")
        person = Person(chromium, server.address, target)
        tab.wait_for_selector("#frame img", timeout=300_000)
        person.labels()
        person.is_saved()
        assert person.errors == []
    finally:
        go.write_text("")
        server.stop()


def test_what_is_wrong_with_the_images_is_said_on_the_page_and_in_the_terminal(
    tmp_path, chromium
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "one.png").write_text("no image")
    server = Server(tmp_path / "broken", *WISH, "--budget", "20")
    tab = chromium.new_page()
    tab.goto(server.address)
    shows(tab, "could not be created.*There is no readable image")
    assert server.process.wait(30) == 1
    assert "Error: There is no readable image" in server.log.read_text()
    assert "Traceback" not in server.log.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["broken"]


def test_every_tab_gets_images_and_no_view_is_empty_without_words(tmp_path, chromium):
    target = digits(tmp_path / "digits", range(400))
    wish = (*WISH, "--budget", "80", "--audit", "5", "--query", "10")
    server = Server(tmp_path / "digits", *wish)
    try:
        first = Person(chromium, server.address, target)
        first.press("Shift+R")
        first.until("document.querySelector('.review-note').textContent")
        first.press("Shift+L")
        tabs = [first] + [Person(chromium, server.address, target) for _ in range(2)]
        assert len({tab.file for tab in tabs}) == 3  # each has images of its own
        for _ in range(8):
            for tab in tabs:
                tab.labels()
        for tab in tabs:
            tab.is_saved()
            assert tab.errors == []
        assert first.spent() == 24
    finally:
        server.stop()


def test_without_features_people_decide_whether_to_go_on_at_random(
    tmp_path, chromium, slow
):
    target = digits(tmp_path / "digits", range(300))
    go = slow(is_there=True)
    wish = ("--budget", "40", "--audit", "2", "--query", "5")
    wish += ("--classes", NAMES, "--trainer", "slow:trainer")
    server = Server(tmp_path / "digits", *wish)
    try:
        person = Person(chromium, server.address, target)
        while person.spent() < 7:
            person.labels()
        shows(person.page, "Looking at all images.*goes on by itself")
        person.page.wait_for_timeout(3000)
        assert person.file == ""  # nothing of the budget is spent blindly
        person.page.click("text=Label 5 random images meanwhile")
        while person.spent() < 12:
            person.labels()
        shows(person.page, "Looking at all images")
        go.write_text("")
        while person.spent() < 17:
            person.labels()
        assert "random" not in person.page.text_content("#why")
        assert person.errors == []
    finally:
        go.write_text("")
        server.stop()
