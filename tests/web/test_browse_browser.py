"""Browse in Chromium: an earlier label is found by its file and changed by keyboard."""

import pytest
from benchmarks.page import CHROMIUM, Server, chromium
from tests.web.person import NAMES, Person, digits

from fewlabels.projects import Project

pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH"),
]

COUNT = "document.querySelector('.browse-count').textContent"


def stored(tmp_path):
    """Return the labels of the project by the names of their files."""
    with Project.open(tmp_path / "digits-labels") as project:
        names = [entry.name for entry in project.store.classes()]
        labels = project.store.labels()
        return {v.item.split("@")[0]: names[v.class_number] for v in labels}


def test_an_earlier_label_is_found_by_its_file_and_changed_by_keyboard(tmp_path):
    target = digits(tmp_path / "digits", range(300))
    options = ("--classes", NAMES, "--budget", "60", "--audit", "10")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    with chromium() as browser:
        server = Server(tmp_path / "digits", *options)
        try:
            person = Person(browser, server.address, target)
            page = person.page
            first = person.file
            wrong = "zero" if person.sees() else "one"
            person.press("1" if wrong == "zero" else "2")
            for _ in range(5):
                person.labels()
            person.is_saved()
            assert stored(tmp_path)[first] == wrong
            person.press("Shift+B")
            person.until(f"{COUNT}.startsWith('300 images')")
            assert page.locator(".browse-cell").count() < 200  # the screen, not all
            person.press("End")
            person.until("!!document.querySelector('#image-299 img')")
            person.press("/")
            page.keyboard.type(first)
            person.press("Enter")
            person.until(f"{COUNT}.startsWith('1 of 300 images')")
            person.until(f"location.hash === '#browse?name={first}'")
            page.reload()  # the address is enough
            person.until(
                "!!document.querySelector('#image-0 img')"
                " && document.activeElement.role === 'grid'"
            )
            person.press("Enter")
            person.waits_for(".browse-history li")
            assert f"labeled it {wrong}" in page.text_content(".browse-history")
            digit = int(target[int(first[:4])])
            right = NAMES.split(",")[digit]
            person.press(str((digit + 1) % 10))
            person.waits_for(f".browse-history >> text=changed the label to {right}")
            person.is_saved()
            assert stored(tmp_path)[first] == right
            person.press("Backspace")
            person.waits_for(".browse-history .undone")
            person.is_saved()
            assert stored(tmp_path)[first] == wrong
            person.press(str((digit + 1) % 10))
            person.until("document.querySelectorAll('.browse-history li').length === 4")
            person.press("Escape")
            changes_many(person, tmp_path)
            assert stored(tmp_path)[first] == right
            draws_around_images_on_the_map(page, person)
            assert not person.errors
        finally:
            server.stop()


def changes_many(person, tmp_path):
    """Label a range at once, and take it back at once."""
    page, before = person.page, stored(tmp_path)
    person.until("!document.querySelector('dialog[open]')")
    page.click("text=Clear filters")
    page.select_option(".browse-filters label:nth-of-type(2) select", ":none")
    page.focus(".browse-grid")
    person.until(f"/^[2-9][0-9]+ of 300 images/.test({COUNT})")
    person.press("End")
    person.press("Shift+ArrowUp")
    person.until(
        "document.querySelector('.browse-actions').textContent.match(/^\\d+ s/)"
    )
    person.press("3")
    page.wait_for_selector("#toasts .toast")
    person.is_saved()
    text = page.text_content("#toasts")
    if "one at a time" in text:  # an image that may measure is among them
        assert stored(tmp_path) == before
        return
    assert "labeled as two" in text
    assert len(stored(tmp_path)) > len(before)
    person.press("Backspace")
    page.wait_for_selector("text=Taken back for")
    person.is_saved()
    assert stored(tmp_path) == before


def draws_around_images_on_the_map(page, person):
    """Draw around the left half of the map, and around nothing but a point."""
    page.click("text=Clear filters")
    person.until(f"{COUNT}.startsWith('300 images')")
    page.get_by_role("button", name="Map", exact=True).click()
    person.waits_for(".map-legend li")
    box = page.locator(".map-canvas").bounding_box()
    left, top = box["x"] + 2, box["y"] + 2
    middle, bottom = left + box["width"] / 2, top + box["height"] - 6
    page.get_by_role("button", name="Draw around images").click()
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((middle, top), (middle, bottom), (left, bottom)):
        page.mouse.move(x, y, steps=5)
    page.mouse.up()
    person.until("location.hash.startsWith('#browse?region=')")
    person.until(f"{COUNT}.includes('of 300 images')")
    num_inside = int(page.text_content(".browse-count b").split()[0])
    assert 30 < num_inside < 270
    page.get_by_role("button", name="Review these").click()
    person.waits_for(".tile img")
    person.until("location.hash.match(/^#review\\/.+region=/)")
    inside = page.locator(".review-tabs .count").all_text_contents()
    assert 0 < sum(map(int, inside)) < num_inside  # those without an answer
    page.reload()
    person.waits_for(".tile img")
    assert page.locator(".review-tabs .count").all_text_contents() == inside
    page.get_by_role("button", name="Whole map").click()
    person.until("location.hash.match(/^#review\\/\\w+$/)")
    page.go_back()
    page.go_back()
    page.get_by_role("button", name="Leave this part of the map").click()
    person.until(f"{COUNT}.startsWith('300 images')")
    page.dblclick("#image-7")
    person.until("location.hash.includes('image=')")
    file = page.text_content(".browse-facts h2")
    page.reload()
    person.waits_for(f".browse-facts h2 >> text={file}")
    person.press("Escape")
    person.until("!location.hash.includes('image=')")
