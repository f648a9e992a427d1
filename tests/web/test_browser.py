"""The page in Chromium, by keyboard alone, from ``start`` to an exported model."""

import random
import time
from pathlib import Path

import pytest
from benchmarks import page
from benchmarks.page import Server
from tests.web.person import NAMES, Person, digits

from fewlabels.projects import NextStep, Project, predict, training_plan

pytest.importorskip("playwright.sync_api")

NUM_IMAGES, NUM_LABELS = 1200, 40
COUNT = "document.querySelector('.browse-count').textContent"
PHONE = {"width": 390, "height": 844}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(page.CHROMIUM is None, reason="needs chromium on the PATH"),
]


@pytest.fixture(scope="module")
def chromium():
    with page.chromium() as browser:
        yield browser


def test_from_a_folder_to_a_model_by_keyboard_alone(
    tmp_path, chromium, record_testsuite_property
):
    target = digits(tmp_path / "digits", range(NUM_IMAGES))
    digits(tmp_path / "others", range(NUM_IMAGES, 1797))
    options = ("--budget", str(NUM_LABELS), "--trainer", "fixmatch")
    server = Server(tmp_path / "digits", "--classes", NAMES, *options)
    try:
        person = Person(chromium, server.address, target)
        assert "token" not in person.page.url
        first, right = person.file, person.sees()
        wrong = (right + 1) % 10
        person.press(str((wrong + 1) % 10))
        for _ in range(4):
            person.labels()
        skipped = person.file
        person.press("Space")
        assert person.file != skipped
        while person.page.text_content("#round").startswith("Round 1"):
            person.labels()
            person.sees()
        person.labels()
        second = person.file
        for _ in range(2):  # across the border of the round
            person.press("Backspace")
        assert person.page.text_content("#round").startswith("Round 1")
        person.labels()
        person.labels()
        assert person.file == second
        person.press("Shift+N")
        person.page.keyboard.type("smudge")
        person.press("Enter")
        person.waits_for("text=smudge")
        person.press("Shift+Digit1")  # the eleventh class
        person.press("Backspace")
        person.press("Shift+U")
        person.press("Backspace")
        while person.spent() < NUM_LABELS:
            person.labels()
        if person.file:  # undone after another image was asked in its place
            person.labels()
        person.waits_for("text=The budget is spent")
        num_spent = person.spent()
        person.press("Shift+R")
        person.waits_for(".tile")  # as soon as all images were looked at
        assert sum(person.confirms() for _ in range(10)) > 200
        assert person.spent() == num_spent  # what was confirmed costs nothing
        names, page = NAMES.split(","), person.page
        person.press("Shift+B")
        person.until(f"{COUNT}.startsWith('{NUM_IMAGES:,} images')")
        person.press("/")
        page.keyboard.type(first)
        person.press("Enter")
        person.until(f"{COUNT}.startsWith('1 of ')")
        person.press("Enter")
        person.waits_for(f".browse-history >> text=labeled it {names[wrong]}")
        person.press(str((right + 1) % 10))
        person.waits_for(f".browse-history >> text=the label to {names[right]}")
        person.press("Escape")
        person.is_saved()
        with Project.open(tmp_path / "digits-labels") as project:
            labels = {e.item[:4]: e.class_number for e in project.store.labels()}
        assert labels[first[:4]] == right
        person.press("Shift+C")
        person.waits_for("[aria-label='Merge smudge']")
        page.fill("[aria-label='Name of smudge']", "blot")
        person.press("Enter")
        person.waits_for("[aria-label='Merge blot']")
        person.merges("blot", "zero")
        person.merges("nine", "eight")
        page.focus("[aria-label='Bring back nine']")
        person.press("Enter")
        person.waits_for("[aria-label='Merge nine']")
        person.until("document.querySelectorAll('.class-list li').length === 10")
        with Project.open(tmp_path / "digits-labels") as project:
            counts = project.status().class_counts
            assert counts[9] > 0
            assert counts[10] == 0
        person.press("Shift+L")
        person.press("Shift+T")
        person.waits_for("text=Training")
        with Project.open(tmp_path / "digits-labels") as project:
            while project.status().next_step is not NextStep.EXPORT:
                time.sleep(0.5)
        person.press("Shift+S")
        person.waits_for(".matrix td.right button")
        person.waits_for("text=Have I labeled enough?")
        assert "blot" not in page.text_content(".matrix")
        assert "learned from" in page.text_content("#view-results")
        person.press("Shift+E")
        person.waits_for("text=which learned from")
        assert person.errors == []
    finally:
        server.stop()
    found = predict(tmp_path / "digits-labels/export/model", tmp_path / "others")
    names = NAMES.split(",")
    truth = [names[target[int(Path(name).stem)]] for name in found.file_names]
    right = sum(a == b for a, b in zip(found.labels, truth, strict=True))
    record_testsuite_property("accuracy", right / len(truth))
    assert right >= 0.9 * len(truth)


def test_from_a_folder_to_a_model_by_touch_on_a_phone(tmp_path, chromium):
    target, names = digits(tmp_path / "digits", range(400)), NAMES.split(",")
    options = ("--classes", NAMES, "--budget", str(NUM_LABELS), "--audit", "10")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    server = Server(tmp_path / "digits", *options)
    try:
        phone = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
        person = Person(chromium, server.address, target, **phone)
        page = person.page

        def goes_to(view):
            page.tap(f"[data-view={view}]")
            person.waits_for(f"#view-{view}:not([hidden])")
            page.wait_for_load_state("networkidle")
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE["width"], view

        first, right = person.file, person.sees()
        wrong = names[(right + 1) % 10]
        page.tap(f"#classes button:has-text('{wrong}')")
        while person.spent() < NUM_LABELS:
            digit = person.sees()
            page.tap(f"#classes button:has-text('{names[digit]}')")
        goes_to("review")
        person.waits_for(".tile img")
        before, title = person.turn(), page.text_content(".review-head h2")
        place = names.index(title.split()[1])
        for tile in page.locator(".tile").all():
            file = tile.locator("img").get_attribute("alt")
            if target[int(file[:4])] != place:
                tile.tap()  # left out
        page.tap(".review-head .main")
        person.sees_a_grid(before)
        person.is_saved()

        def labels():
            with Project.open(tmp_path / "digits-labels") as project:
                return list(project.store.labels())

        confirmed = [e for e in labels() if e.is_confirmed]
        assert confirmed
        assert all(target[int(e.item[:4])] == e.class_number for e in confirmed)
        goes_to("browse")
        page.tap(".browse-filters input")
        page.keyboard.type(first)
        person.until(f"{COUNT}.startsWith('1 of ')")
        page.tap("#image-0")
        person.waits_for(f".browse-history >> text=labeled it {wrong}")
        page.tap(f"dialog [aria-label=Label] >> text={names[right]}")
        person.waits_for(f".browse-history >> text=the label to {names[right]}")
        page.tap("dialog >> text=Close")
        person.is_saved()
        found = {e.item[:4]: e.class_number for e in labels()}
        assert found[first[:4]] == right
        goes_to("classes")
        page.tap("[aria-label='Merge nine']")
        page.select_option("#dialog select", "eight")
        page.tap("#dialog .main")
        person.waits_for("[aria-label='Bring back nine']")
        assert 9 not in {e.class_number for e in labels()}
        goes_to("results")
        person.waits_for(".matrix td.right button")
        person.waits_for("text=Have I labeled enough?")
        page.tap("text=/Ask for \\d+ random checks/")
        person.waits_for(".gain >> text=/\\d+ random checks come with the next images/")
        page.tap("text=Label them")
        person.sees()  # although the budget was spent
        with Project.open(tmp_path / "digits-labels") as project:
            settings, asked = project.settings, project.store.rounds()[-1]
        assert settings.audit - 10 == settings.budget - NUM_LABELS > 0
        assert [entry.role for entry in asked.items].count("audit") > 0
        goes_to("results")
        page.tap("#view-results >> text=Export")
        person.waits_for("text=which learned from")
        assert person.errors == []
    finally:
        server.stop()
    assert (tmp_path / "digits-labels/export/model").is_dir()


def test_grids_by_pointer_and_keys(tmp_path, chromium):
    target = digits(tmp_path / "digits", range(300))
    options = ("--classes", NAMES, "--budget", "30", "--audit", "0")
    server = Server(tmp_path / "digits", *options)
    try:
        person = Person(chromium, server.address, target)
        page = person.page
        while person.spent() < 30:
            person.labels()
        person.press("Shift+R")
        person.waits_for(".tile")

        def labels():
            person.is_saved()
            with Project.open(tmp_path / "digits-labels") as project:
                return {
                    one.item[:4]: one.class_number
                    for one in project.store.labels()
                    if one.is_confirmed
                }

        def name(place):
            return page.get_attribute(f"#tile-{place} img", "alt")[:4]

        names = [name(0), name(1)]
        page.hover("#tile-0")
        person.press("8")  # in place, whatever it is
        page.wait_for_selector("#tile-0.given >> text=seven")
        assert [name(0), name(1)] == names
        assert labels() == {names[0]: 7}
        person.press("3")  # it has its class; another key changes nothing
        person.press("ArrowRight")
        person.press("3")
        page.wait_for_selector("#tile-1.given >> text=two")
        assert labels() == {names[0]: 7, names[1]: 2}
        person.press("Backspace")
        page.wait_for_selector("#tile-1:not(.given)")
        assert labels() == {names[0]: 7}
        before = person.turn()
        page.click("text=More of this class")
        person.sees_a_grid(before)
        assert page.text_content(".review-head h2").startswith("More of zero")
        shown = {name(place) for place in range(5)}
        assert sum(target[int(one)] == 0 for one in shown) >= 3
        chosen = name(1)
        page.click("#tile-1")
        before = person.turn()
        page.click("text=Confirm 1 as zero")
        person.sees_a_grid(before)
        assert labels() == {names[0]: 7, chosen: 0}
        assert not shown & {name(place) for place in range(5)}  # they were seen
        before = person.turn()
        person.press("Shift+S")
        page.click("[aria-label='Find more of four']")
        person.sees_a_grid(before)
        assert page.text_content(".review-head h2").startswith("More of four")
        assert page.url.endswith("/#review/four?order=likely")
        page.reload()
        person.waits_for(".review-head >> text=More of four")
        page.go_back()
        person.waits_for("#view-results:not([hidden])")
        assert person.errors == []
    finally:
        server.stop()


def test_confirmed_images_come_back_and_show_how_often_people_slip(tmp_path, chromium):
    target = digits(tmp_path / "digits", range(500))
    options = ("--classes", NAMES, "--budget", "120", "--audit", "0", "--query", "10")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    server = Server(tmp_path / "digits", *options)
    try:
        person = Person(chromium, server.address, target)
        page = person.page
        while person.spent() < 30:
            person.labels()
        person.press("Shift+R")
        person.waits_for(".tile")
        assert sum(person.confirms() for _ in range(10)) > 150
        person.is_saved()
        with Project.open(tmp_path / "digits-labels") as project:
            labels = project.store.labels()
            confirmed = {e.item[:4] for e in labels if e.is_confirmed}
        person.press("Shift+L")
        page.evaluate("document.querySelector('.options').open = true")
        page.check("#thinks")
        again = []
        while len(again) < 4:
            digit = person.sees()
            if person.file[:4] in confirmed:
                again.append(person.file)
                page.wait_for_timeout(500)
                assert page.is_hidden("#thought")  # nothing sways the answer
                digit += len(again) == 1  # the first time it is seen otherwise
            person.press(str((digit + 1) % 10))
        page.wait_for_selector("#thought:not([hidden])")  # others do show it
        person.is_saved()
        person.press("Shift+S")
        person.waits_for("text=4 confirmed images came back in Label")
        assert "1 got another class" in page.text_content("#view-results")
        assert person.errors == []
    finally:
        server.stop()
    with Project.open(tmp_path / "digits-labels") as project:
        store = project.store
        repeated = [e for e in store.events() if "repeated" in e.payload]
        assert [e.item[:4] for e in repeated] == [name[:4] for name in again]


def test_an_export_learns_first_and_a_final_training_is_confirmed(tmp_path, chromium):
    target = digits(tmp_path / "digits", range(200))
    options = ("--classes", NAMES, "--budget", "40", "--audit", "4")
    server = Server(tmp_path / "digits", *options)
    try:
        person = Person(chromium, server.address, target)
        person.press("Shift+E")  # nothing is labeled
        person.waits_for("text=There is no model yet")
        person.page.click("dialog >> text=Cancel")
        while person.spent() < 15:
            person.labels()
        person.press("Shift+E")
        person.waits_for("text=which learned from")
        assert "predictions.parquet" in person.page.text_content("#dialog")
        person.press("Enter")
        person.press("Shift+S")
        person.page.click("text=Final training …")
        person.waits_for("text=A network is trained from scratch")
        assert "Expected: " in person.page.text_content("#dialog")
        person.page.click("dialog >> text=Start")
        person.waits_for(".job >> text=/Final training … Expected: .* s so far/")
        person.waits_for(".job progress[aria-label='Final training']")
        seen = set()
        while len(seen - {None}) < 3:  # it moves, at every step
            bar = person.page.query_selector(".job progress[value]")
            seen.add(bar and bar.get_attribute("value"))
            time.sleep(0.2)
        person.page.click(".job >> text=Stop")
        person.page.wait_for_selector(".job", state="detached", timeout=300_000)
        assert person.errors == []
    finally:
        server.stop()
    with Project.open(tmp_path / "digits-labels") as project:
        assert {one.trainer for one in project.records()} == {training_plan.HEAD}


def test_a_page_without_images_asks_now_and_then(tmp_path, chromium):
    target = digits(tmp_path / "digits", range(60))
    options = ("--budget", "5", "--audit", "0", "--query", "5")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    server = Server(tmp_path / "digits", "--classes", NAMES, *options)
    try:
        person, asked = Person(chromium, server.address, target), []
        while person.spent() < 5:
            person.labels()
        person.waits_for("text=The budget is spent")
        person.page.on("request", lambda request: asked.append(request.url))
        person.page.wait_for_timeout(5000)
        assert 1 <= sum("/api/lease" in one for one in asked) <= 5
    finally:
        server.stop()


NUM_KILLS = 50
PACE = 0.2  # seconds for a label


def test_a_server_killed_at_random_moments_loses_no_label(tmp_path, chromium):
    target = digits(tmp_path / "digits", range(1797))
    options = ("--classes", NAMES, "--budget", "1700", "--query", "600")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    server = Server(tmp_path / "digits", *options)
    draws, said, num_lost = random.Random(0), {}, 0
    try:
        person = Person(chromium, server.address, target)

        def go_on(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                name = person.file
                if name:
                    assert name not in said  # no image comes twice
                    said[name] = int(target[int(name[:4])])
                    person.press(str((said[name] + 1) % 10))
                person.page.wait_for_timeout(1000 * PACE)

        for _ in range(NUM_KILLS):
            go_on(draws.uniform(0.1, 1.5))
            server.kill()
            go_on(draws.uniform(0.1, 0.5))
            told = person.page.eval_on_selector(
                "#saved", "box => [Number(box.dataset.unsent), box.textContent]"
            )
            num_lost += told[0]
            assert told[0] == 0 or told[1] != "Saved"
            server.start()
        person.is_saved()  # by itself
        go_on(2)
        person.is_saved()
        assert person.errors == []
    finally:
        server.stop()
    assert num_lost  # there was something to lose
    with Project.open(tmp_path / "digits-labels") as project:
        path_of = {one.id: one.path for one in project.store.items()}
        events = [one for one in project.store.events() if one.item]
    told = [(path_of[one.item], one.class_number) for one in events]
    assert dict(told) == said
    assert len(told) == len(said) > NUM_KILLS
