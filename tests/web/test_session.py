"""The verbs of a project, as the page says them."""

import json
import warnings
from importlib.resources import files

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.projects.toy import num_events
from tests.web.pages import HEADERS, Browser, uuid

from fewlabels.projects import Project
from fewlabels.projects.store import Store


def labels(project):
    names = [one.name for one in project.store.classes()]
    return {one.item: names[one.class_number] for one in project.store.labels()}


def test_images_are_handed_out_to_one_tab_only(project):
    first, second = Browser(project), Browser(project)
    one, two = first.lease(4), second.lease(4)
    assert len(one) == 4
    assert len(two) == 3
    assert not {item["id"] for item in one} & {item["id"] for item in two}
    assert first.lease(4) == one  # the same tab after a reload
    told = Browser(project).post("/api/lease").json()
    assert (told["items"], told["num_held"]) == ([], 7)
    assert told["frees_at"]
    assert first.post("/api/leave").json() == {"num_released": 4}
    third = Browser(project)
    assert third.lease(4) == one  # a closed tab's images come back


def test_what_measures_looks_like_all_others(project, browser):
    roles = {one.item: one.role for one in project.store.rounds()[0].items}
    assert set(roles.values()) == {"audit", "query"}
    shown = browser.lease(7)
    assert len({(item["why"], *item) for item in shown}) == 1
    assert "only check how good" in shown[0]["why"]
    assert "probabilities" not in shown[0]


def test_a_label_sent_twice_counts_once(project, browser):
    item = browser.lease()[0]
    label = {"verb": "label", "item": item["id"], "name": "odd", "uuid": uuid()}
    first = browser.post("/api/act", {**label, "lead_time": 1.5})
    assert browser.post("/api/act", label).json() == first.json()
    assert list(labels(project).values()) == ["odd"]
    other = browser.post("/api/act", {**label, "name": "even"})
    assert other.status_code == 409
    again = browser.act("label", item=item["id"], name="even")
    assert again.status_code == 409
    assert "already" in again.json()["error"]
    assert browser.act("change", item=item["id"], name="even").status_code == 200
    assert list(labels(project).values()) == ["even"]


def test_skip_unsure_and_undo_at_any_depth(project, browser):
    one, two, three = browser.lease(3)
    browser.act("skip", item=one["id"])
    browser.act("unsure", item=two["id"])
    sent = uuid()
    browser.post(
        "/api/act",
        {"verb": "label", "item": three["id"], "name": "odd", "uuid": sent},
    )
    assert browser.act("undo", target=sent).json()["item"] == three
    assert browser.act("undo").json()["item"] == two
    assert browser.act("undo").json()["item"] == one
    told = browser.act("undo")
    assert told.status_code == 422
    assert "nothing to undo" in told.json()["error"]
    assert not project.store.verdicts()
    assert browser.lease(3) == [one, two, three]


def test_undo_goes_back_across_rounds(project, browser):
    items = browser.lease(7)
    for item in items:
        browser.act("label", item=item["id"], name="odd")
    with pytest.warns(UserWarning, match="no model"):
        project.ask()
    later = browser.lease(1)[0]
    browser.act("label", item=later["id"], name="even")
    assert later["round"] == 1
    assert browser.act("undo").json()["item"] == later
    assert browser.act("undo").json()["item"] == items[-1]


def test_a_new_class_and_several_people(project, browser):
    browser.act("add_class", name="neither")
    item = browser.lease(annotator="bob")[0]
    browser.act("label", item=item["id"], name="neither", annotator="bob")
    state = browser.session.state()
    assert [one["count"] for one in state["classes"]] == [0, 0, 1]
    assert state["round"] == {"number": 0, "size": 7, "open": 6}
    assert (state["spent"], state["budget"]) == (1, 12)
    assert browser.act("add_class", name="Neither").status_code == 422
    assert browser.act("undo").status_code == 422  # it is not the user's


def recorded(method, read):
    """Return a method of a store that also adds what it returns to a list."""

    def call(store, *given, **options):
        answer = tuple(method(store, *given, **options))
        read.extend(answer)
        return answer

    return call


def test_only_what_is_new_is_read(project, browser, monkeypatch):
    browser.session.state()
    read = []
    for name in ("verdicts", "rounds", "events"):
        monkeypatch.setattr(Store, name, recorded(getattr(Store, name), read))
    for item in browser.lease(3):
        browser.act("label", item=item["id"], name="even")
    assert browser.session.state()["spent"] == 3
    assert len(read) == 3  # the labels
    assert browser.session.state()["spent"] == 3
    browser.lease(3)
    assert len(read) == 3


def test_names_from_outside_are_only_ever_text(project, browser):
    evil = "<img src=x onerror=alert(1)>"
    assert browser.act("add_class", name=evil).status_code == 200
    told = browser.post("/api/lease")
    assert told.headers["content-type"] == "application/json"
    for one in (files("fewlabels.web") / "static").iterdir():
        text = one.read_text("utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"):
            assert way not in text
        assert "eval(" not in text
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text


def test_the_page_is_complete(browser):
    page = browser.get("/").text
    for name in ("style.css", "app.js", "icon.svg"):
        assert f"/static/{name}" in page
        assert browser.get(f"/static/{name}").status_code == 200
    assert "<script>" not in page
    assert "style=" not in page
    assert browser.get("/static/index.htm").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "label", "name": "odd"},
        {"verb": "label", "item": "0" * 24, "name": "odd"},
        {"verb": "label", "item": "x"},
        {"verb": "drop"},
        {"verb": "label", "item": "0" * 24, "name": "\ud800"},
        {"verb": "add_class", "name": "\ud800"},
        {"verb": "add_class", "name": "x" * 201},
        {"verb": "add_class"},
        {"verb": "undo", "target": str(uuid())},
        {"verb": "skip", "annotator": ""},
        {"verb": "skip", "surprise": 1},
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(project, browser, wrong):
    before = num_events(project)
    body = json.dumps({"uuid": uuid(), "tab": browser.tab, **wrong})
    told = browser.client.post("/api/act", content=body, headers=HEADERS)
    assert told.status_code in {409, 422}
    assert told.json()["error"]
    assert num_events(project) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(["uuid", "tab", "verb", "item", "name", "count", "annotator"])
VALUES = JSON | st.sampled_from(["label", "undo", "add_class", "0" * 24, str(uuid())])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=JSON | st.dictionaries(FIELDS, VALUES), path=st.sampled_from(["act", "lease"])
)
def test_nothing_that_is_sent_breaks_the_server(browser, body, path):
    content = json.dumps(body).encode()
    told = browser.client.post(f"/api/{path}", content=content, headers=HEADERS)
    assert told.status_code < 500


def test_all_views_count_the_same_labels(project, browser):
    roles = {one.item: one.role for one in project.store.rounds()[0].items}
    asked = sorted(roles, key=lambda item: roles[item])  # what measures comes first
    project.label(asked[0], "odd")
    project.label(asked[-1], "even")
    project.unsure(asked[1])
    project.skip(asked[-2])
    on_page = {one["name"]: one["count"] for one in browser.session.state()["classes"]}
    told = browser.get("/api/results").json()
    assert on_page == {"even": 1, "odd": 1}
    assert {one["name"]: one["labels"] for one in told["classes"]} == on_page
    assert [one["measuring"] for one in told["classes"]] == [0, 1]
    assert not any("No labels yet" in note for note in told["notes"])
    assert "all their labels are random checks: odd" in " ".join(told["notes"])
    status = project.status()
    assert (status.num_skipped, status.num_unsure) == (1, 1)


def test_the_budget_is_changed_on_the_page(project, browser):
    budget = project.settings.budget
    told = browser.post("/api/budget", {"budget": budget + 40})
    assert told.json() == {"budget": budget + 40}
    assert browser.session.state()["budget"] == budget + 40
    loud = warnings.catch_warnings(action="error")  # nobody is warned of it
    with loud, Project.open(project.folder) as again:
        assert again.settings.budget == budget + 40
    shown = browser.get("/api/results").json()
    wish = {"budget": budget + 45, "audit": shown["audit"] + 5}
    assert browser.post("/api/budget", wish).json() == {"budget": budget + 45}
    assert browser.post("/api/budget", {"budget": budget + 40}).status_code == 200
    later = browser.get("/api/results").json()
    assert later["audit"] == shown["audit"] + 5
    assert later["num_awaited"] == shown["num_awaited"] + 5
    for wrong in (0, -1, 10**9, project.settings.audit):
        assert browser.post("/api/budget", {"budget": wrong}).status_code == 422
    for wrong in (-1, 10**9, budget + 40, "many"):
        wish = {"budget": budget + 40, "audit": wrong}
        assert browser.post("/api/budget", wish).status_code == 422
    assert browser.session.state()["budget"] == budget + 40
