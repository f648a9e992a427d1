"""Several people, tabs and names that bite, in Chromium."""

import sqlite3
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from benchmarks import page
from benchmarks.page import Server
from PIL import Image
from tests.web.person import NAMES, Person, digits

from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project

pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(page.CHROMIUM is None, reason="needs chromium on the PATH"),
]
QUICK = ("--trainer", "frozen-linear", "--encoder", "pixels", "--strategy", "random")


@pytest.fixture(scope="module")
def chromium():
    with page.chromium() as browser:
        yield browser


@pytest.fixture
def begun(tmp_path):
    """A function that serves digits to be labeled, and the digits."""
    servers = []

    def begin(*options, num_images=60, classes=NAMES, budget=40):
        target = digits(tmp_path / "digits", range(num_images))
        told = ("--classes", classes, "--budget", str(budget), *QUICK, *options)
        servers.append(Server(tmp_path / "digits", *told))
        return servers[-1], target

    yield begin
    for one in servers:
        one.stop()


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_browsers_never_see_the_same_image_and_a_closed_one_gives_back(
    tmp_path, begun, chromium
):
    wish = ("--query", "10", "--audit", "4")  # a tab holds 20 of the 80 images
    server, target = begun(*wish, num_images=100, budget=80)
    people = [Person(chromium, server.address, target) for _ in range(2)]
    for person, name in zip(people, ("ann", "bob"), strict=True):
        person.is_called(name)
    seen = [[], []]
    for _ in range(8):
        for person, files in zip(people, seen, strict=True):
            person.sees()
            files.append(person.file)
            assert people[0].file != people[1].file
            person.labels()
    assert not set(seen[0]) & set(seen[1])
    ann, bob = people
    bob.sees()
    left = bob.file  # bob looks at it, closes the tab, and it comes back
    ann.is_saved()
    bob.is_saved()
    bob.page.close()
    for _ in range(30):
        ann.sees()
        if ann.file == left:
            break
        assert ann.file not in seen[0]
        assert ann.file not in seen[1]
        seen[0].append(ann.file)
        ann.labels()
    assert ann.file == left
    ann.is_saved()
    assert ann.errors == bob.errors == []
    with Project.open(tmp_path / "digits-labels") as project:
        path_of = {one.id: one.path for one in project.store.items()}
        labels = [(path_of[one.item], one.annotator) for one in project.store.labels()]
    assert sorted(labels) == sorted(
        [(file, "ann") for file in seen[0]] + [(file, "bob") for file in seen[1][:8]]
    )


def test_a_tab_that_slept_lets_go_of_what_others_took_over(tmp_path, begun, chromium):
    server, target = begun("--query", "10", "--audit", "2", budget=12)
    ann = Person(chromium, server.address, target)
    ann.is_called("ann")
    ann.sees()
    before = ann.file
    asleep = "**/api/stay"
    ann.page.route(asleep, lambda route: route.abort())
    store = sqlite3.connect(tmp_path / "digits-labels" / "labels.sqlite")
    with store:  # two minutes later
        store.execute("UPDATE leases SET expires = '2020-01-01T00:00:00.000000+00:00'")
    store.close()
    bob = Person(chromium, server.address, target)
    bob.is_called("bob")
    bob.sees()
    assert bob.file == before  # all of the budget is his by now
    ann.page.unroute(asleep)
    ann.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    ann.waits_for("text=You were away for a while")
    ann.waits_for("text=Others have the last images of the budget")
    assert not ann.file
    assert ann.errors == bob.errors == []


def test_names_that_hold_html_are_only_ever_text(tmp_path, chromium):
    evil = "<img src=x onerror=window.evil=1>"
    names = [f"{evil}{number}" for number in range(2)]
    draws = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for number in range(30):
        pixels = draws.integers(0, 60, (8, 8), dtype=np.uint8)
        pixels[:, 4 * (number % 2) : 4 * (number % 2) + 4] += 150
        path = tmp_path / "images" / f"{number:02d}{evil}.png"
        Image.fromarray(pixels).save(path)
    head = Choice(name="frozen-linear", options={"encoder": "pixels"})
    place, options = tmp_path / "project", {"audit": 2, "query": 6, "overlap": 2}
    with Project.create(
        place, tmp_path / "images", names, budget=20, trainer=head, **options
    ) as project:
        items = project.ask(strategy="random").items
        for number, asked in enumerate(items[:-2]):
            for who in ("ann", evil):
                name = names[(int(asked.item[:2]) + (who == "ann" and not number)) % 2]
                project.label(asked.item, name, annotator=who)
    server = Server(place)
    try:
        ann = Person(chromium, server.address, {})
        ann.is_called("ann")
        ann.until("document.getElementById('file').textContent")
        assert ann.file.endswith(f"{evil}.png")
        assert ann.page.text_content("#classes .name") == names[0]
        ann.press("Shift+S")
        ann.waits_for("h2:text-is('People')")
        ann.waits_for("text=Likely mistakes")
        assert f"{evil} and ann" in ann.page.text_content(".pairs")
        ann.page.focus(".slips .button >> nth=0")  # what the two see differently
        told = ann.page.text_content(".slips .button >> nth=0")
        assert told == f"Change mine to {names[int(told[-1])]}"
        ann.press("Enter")
        ann.waits_for(".toast >> text=Labeled")
        ann.press("Shift+R")
        ann.sees_a_grid(0)
        assert ann.page.eval_on_selector_all(".tile", "all => all.length")
        ann.press("?")
        ann.waits_for("dialog[open]")
        assert ann.page.evaluate("window.evil") is None
        assert ann.errors == []
    finally:
        server.stop()
    with Project.open(place) as project:
        assert project.status().num_disputed == 0


@pytest.mark.parametrize(
    ("status", "answer", "text"),
    [
        (503, {"error": "Others wait."}, "They could not be computed: Others wait."),
        (
            200,
            {"slips": None, "doubts": [], "reason": "Label more."},
            "Not computed yet. Label more.",
        ),
        (200, {"slips": [], "doubts": [], "at_once": 5, "reason": None}, "None: no"),
    ],
)
def test_a_failed_request_is_no_empty_list_of_slips(
    begun, chromium, status, answer, text
):
    server, target = begun("--query", "10", "--audit", "2")
    person = Person(chromium, server.address, target)
    person.page.route(
        "**/api/second-looks", lambda route: route.fulfill(status=status, json=answer)
    )
    person.press("Shift+S")
    person.waits_for(f"text={text}")
    assert person.page.get_by_text("None: no").count() == (text == "None: no")
    assert person.errors == []


def test_what_did_not_come_can_be_asked_for_again(begun, chromium):
    server, target = begun("--query", "10", "--audit", "2")
    person = Person(chromium, server.address, target)
    failing = {"review", "browse", "results"}

    def answer(route):
        if route.request.url.rsplit("/")[-1] in failing:
            route.fulfill(status=503, json={"error": "Others wait."})
        else:
            route.continue_()

    person.page.route("**/api/*", answer)
    for key, name in (("R", "review"), ("B", "browse"), ("S", "results")):
        person.press(f"Shift+{key}")
        again = f"#view-{name} button:text-is('Try again')"
        person.waits_for(again)
        assert "Others wait." in person.page.text_content(f"#view-{name}")
        failing.remove(name)
        person.page.eval_on_selector_all(again, "all => all.forEach(it => it.click())")
        person.page.wait_for_selector(again, state="detached")
        assert "Others wait." not in person.page.text_content(f"#view-{name}")
    assert person.errors == []


def test_letters_of_ones_own_and_names_to_type(begun, chromium):
    classes = [f"{chr(97 + number)}nimal" for number in range(25)]
    server, target = begun("--query", "10", "--audit", "2", classes=",".join(classes))
    person = Person(chromium, server.address, target)

    def counts():
        rows = person.page.eval_on_selector_all(
            "#classes button", "all => all.map(one => one.innerText.split('\\n'))"
        )
        return {row[-2]: row[-1] for row in rows if row[-1].isdecimal()}

    person.sees()
    person.page.keyboard.type("xni")
    person.press("Enter")
    until(lambda: counts() == {"xnimal": "1"})
    person.press("Shift+C")
    person.page.focus("[aria-label='Letter of bnimal']")
    person.page.keyboard.type("q")
    person.press("Enter")
    person.press("Shift+L")
    person.waits_for("#classes kbd:text-is('q')")
    person.sees()
    person.press("q")
    until(lambda: counts() == {"xnimal": "1", "bnimal": "1"})
    person.sees()
    person.page.keyboard.type("/qni")
    person.press("Enter")
    until(lambda: counts() == {"xnimal": "1", "bnimal": "1", "qnimal": "1"})
    person.sees()
    person.press("Shift+Digit2")  # the twelfth
    until(lambda: counts().get("lnimal") == "1")
    person.page.reload()
    person.waits_for("#classes kbd:text-is('q')")  # kept with the project
    assert person.errors == []


def test_the_browser_that_start_opens_gets_no_token_to_keep(
    tmp_path, begun, chromium, monkeypatch
):
    record = tmp_path / "browser"
    record.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/opened.new\n'
        f"mv {tmp_path}/opened.new {tmp_path}/opened\n"
    )
    record.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{record} %s")
    monkeypatch.setenv("DISPLAY", ":99")
    server, target = begun("--browser", "--query", "10", "--audit", "2")
    until((tmp_path / "opened").exists)
    address = (tmp_path / "opened").read_text().strip()
    assert urlsplit(address).scheme == "file"
    assert "token" not in address
    person = Person(chromium, address, target)
    assert person.sees() in range(10)
    assert person.page.url == f"http://127.0.0.1:{server.port}/"
    again = chromium.new_context().new_page()
    again.goto(address)
    again.wait_for_selector("text=This page is for whoever started it")
    person.page.reload()  # the cookie does
    person.sees()
    assert person.errors == []
