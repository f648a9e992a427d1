"""Whoever hears the page, or sees little of it, can use it: axe finds nothing grave."""

import pytest
from benchmarks.page import CHROMIUM, Server, chromium
from tests.web.test_browser import NAMES, Person, digits

engine = pytest.importorskip("axe_playwright_python.sync_playwright")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH"),
]

SCREEN, TABLET = {"width": 1280, "height": 800}, {"width": 820, "height": 1180}
PHONE = {"width": 390, "height": 844}


# A key in the frame in which a dialog closes still goes to its input.
PRESSED_AT_ONCE = """() => {
    const dialog = document.getElementById("dialog");
    const input = dialog.querySelector("input");
    dialog.close();
    const key = { key: "X", shiftKey: true, bubbles: true };
    input.dispatchEvent(new KeyboardEvent("keydown", key));
    return dialog.open;
}"""


def findings(page):
    """Return what keeps people out, by its name, with the elements at fault."""
    found = engine.Axe().run(page).response
    assert len(found["passes"]) > 10
    return {
        one["id"]: [node["html"] for node in one["nodes"]]
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
    }


def views(person):
    """Go through all that there is to see."""
    page = person.page
    yield "label"
    for name, key in (
        ("keys", "?"),
        ("new class", "Shift+N"),
        ("examples", "Shift+X"),
    ):
        person.press(key)
        page.wait_for_selector("dialog[open]")
        yield name
        person.press("Escape")
    person.press("Shift+R")
    person.waits_for(".tile img")
    person.press("Space")
    yield "review"
    person.press("Shift+B")
    person.waits_for(".browse-frame img")
    page.wait_for_load_state("networkidle")
    person.press("Space")
    yield "browse"
    person.press("Enter")
    person.waits_for(".browse-steps")
    yield "one image"
    person.press("Escape")
    person.press("Escape")
    page.get_by_role("button", name="Map", exact=True).click()
    person.waits_for(".map-legend li")
    yield "map"
    page.get_by_role("button", name="Grid", exact=True).click()
    person.press("Shift+S")
    person.waits_for("text=Labels to look at again")
    page.wait_for_load_state("networkidle")
    yield "results"
    person.press("Shift+C")
    person.waits_for(".class-list li")
    yield "classes"
    page.click("[aria-label='Merge nine']")
    page.wait_for_selector("dialog[open]")
    yield "merge"
    person.press("Escape")
    person.press("Shift+L")
    page.evaluate("document.querySelector('.options').open = true")


def test_axe_finds_nothing_serious(tmp_path):
    target = digits(tmp_path / "digits", range(300))
    options = ("--classes", NAMES, "--budget", "60", "--audit", "10")
    options += ("--trainer", "frozen-linear", "--encoder", "pixels")
    with chromium() as browser:
        server = Server(tmp_path / "digits", *options)
        try:
            person = Person(browser, server.address, target)
            for _ in range(33):
                person.labels()
                person.page.wait_for_timeout(50)
            person.until("!document.querySelector('.job')")
            seen = {}
            for size in (SCREEN, TABLET, PHONE):
                for scheme in ("light", "dark"):
                    person.page.set_viewport_size(size)
                    person.page.emulate_media(color_scheme=scheme)
                    for view in views(person):
                        if found := findings(person.page):
                            seen[view, scheme, size["width"]] = found
            assert not seen
            person.press("Shift+N")
            person.waits_for("dialog[open] input")
            assert person.page.evaluate(PRESSED_AT_ONCE)
            person.press("Escape")
            person.page.evaluate(
                "document.body.append(document.createElement('button'))"
            )
            assert list(findings(person.page)) == ["button-name"]  # it does look
        finally:
            server.stop()
