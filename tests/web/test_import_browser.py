"""A file with labels, dropped on the page in Chromium or chosen with a button."""

import re

import pytest
from benchmarks import page
from benchmarks.page import Server
from tests.web.person import NAMES, Person, digits
from tests.web.test_accessibility import findings

from fewlabels.projects import Project

pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(page.CHROMIUM is None, reason="needs chromium on the PATH"),
]

DROP = """([name, text]) => {
  const given = new DataTransfer();
  given.items.add(new File([text], name));
  const event = new DragEvent("drop", { dataTransfer: given, bubbles: true });
  document.body.dispatchEvent(event);
}"""


def waits(person, held, words):
    """Check that the page says what it does until the server answers."""
    shown = person.page.locator("#toasts [role=status]")
    shown.get_by_text(words).wait_for()
    while not held:
        person.page.wait_for_timeout(50)
    person.page.wait_for_timeout(1200)
    assert shown.inner_text().startswith(words)
    silent = shown.locator("[aria-hidden]")  # nobody wants to hear each second
    assert re.fullmatch(r"\s*[1-9]\d* s", silent.text_content())
    assert person.page.locator("dialog[open]").count() == 0
    assert findings(person.page) == {}
    held.pop().continue_()
    shown.wait_for(state="detached")


def test_the_page_says_what_it_does_until_the_preview_is_there(tmp_path):
    target = digits(tmp_path / "digits", range(60))
    options = ("--classes", NAMES, "--budget", "20", "--audit", "5")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    names = NAMES.split(",")
    rows = [f"{number:04d}.png,{names[target[number]]}" for number in range(60)]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join(["image,class", *rows]))
    with page.chromium() as browser:
        server = Server(tmp_path / "digits", *options)
        try:
            person, held = Person(browser, server.address, target), []

            def hold(route):
                held.append(route)

            person.page.route("**/api/import?*", hold)
            person.page.set_input_files("#import-file", file)
            waits(
                person, held, "Reading labels.csv: comparing its rows with the images"
            )
            person.page.click("dialog >> text=Import 55 labels")
            waits(person, held, "Importing 55 labels")
            person.waits_for("#toasts >> text=55 labels imported.")
            assert person.errors == []
        finally:
            server.stop()


def test_a_file_is_chosen_or_dropped_and_taken_back(tmp_path):
    target = digits(tmp_path / "digits", range(60))
    options = ("--classes", NAMES, "--budget", "20", "--audit", "5")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    names = NAMES.split(",")
    rows = [f"{number:04d}.png,{names[target[number]]}" for number in range(60)]
    wrong = ["gone.png,one", "0001.png,zebra"]
    text = "\n".join(["image,class", *rows[2:], *wrong])
    file = tmp_path / "labels.csv"
    file.write_text(text)

    def num_imported():
        with Project.open(tmp_path / "digits-labels") as project:
            return project.status().num_imported

    with page.chromium() as browser:
        server = Server(tmp_path / "digits", *options)
        try:
            person = Person(browser, server.address, target)
            person.page.click("#import")
            person.waits_for("dialog[open]")
            assert findings(person.page) == {}
            person.press("Escape")
            person.page.set_input_files("#import-file", file)
            person.waits_for("dialog[open] .faults")
            shown = person.page.text_content("#dialog")
            assert "there is no image 'gone.png'" in shown
            assert "there is no class 'zebra'" in shown
            assert findings(person.page) == {}
            assert num_imported() == 0
            person.page.click("dialog >> text=good label")
            person.waits_for("#toasts >> text=imported.")
            assert 50 <= num_imported() <= 58
            person.page.click("#toasts >> text=Undo")
            person.waits_for("text=taken back.")
            assert num_imported() == 0
            person.page.evaluate(
                DROP, ["labels.csv", "\n".join(["image,class", *rows])]
            )
            person.waits_for("dialog[open]")
            assert (
                "Left out, because these images are random checks of the model: 5"
                in person.page.text_content("#dialog")
            )
            person.page.click("dialog >> text=Import 55 labels")
            person.waits_for("#toasts >> text=55 labels imported.")
            person.until("document.getElementById('file').textContent")
            person.page.click("#import")
            person.page.click("dialog >> text=Undo the last import")
            person.waits_for("text=55 imported labels taken back.")
            assert num_imported() == 0
            person.page.evaluate(DROP, ["picture.png", "x"])
            person.waits_for("text=There is no kind of file with answers or labels")
            assert person.errors == []
        finally:
            server.stop()
