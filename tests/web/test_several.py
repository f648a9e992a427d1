"""Several people and tabs on one project, also after sleep and without a database."""

import sqlite3
import time

import pytest
from tests.harness import postgres
from tests.projects.store.conftest import emptied
from tests.projects.toy import CLASSES, QUICK, begin, pictures
from tests.web.pages import Browser, uuid

from fewlabels.errors import StoreError
from fewlabels.projects import Project
from fewlabels.projects.store import Store


def asleep(project, browser):
    """Let all leases of a tab expire."""
    project.store.heartbeat(browser.tab, ttl=1e-6)


def test_an_image_that_is_taken_back_is_free_at_no_moment(
    project, browser, monkeypatch
):
    (item,) = browser.lease(1)
    browser.act("label", item=item["id"], name="odd")
    seen, lease = [], Store.lease

    def late(store, *given, **wishes):
        """What somebody else would find who comes in between."""
        other = sqlite3.connect(project.folder / "labels.sqlite")
        seen.extend(other.execute("SELECT count(*) FROM verdicts").fetchone())
        other.close()
        return lease(store, *given, **wishes)

    monkeypatch.setattr(Store, "lease", late)
    assert browser.act("undo").json()["item"] == item
    assert seen == [1]  # the undo was not there yet
    monkeypatch.undo()
    others = Browser(project)
    assert item["id"] not in {one["id"] for one in others.lease(7)}


def test_a_tab_that_slept_does_not_label_what_others_took_over(project, browser):
    first, second, third = browser.lease(3, annotator="ann")
    asleep(project, browser)
    other = Browser(project)
    assert other.lease(2, annotator="bob") == [first, second]
    other.act("label", item=first["id"], name="odd", annotator="bob")
    for item in (first, second):
        told = browser.act("label", item=item["id"], name="even", annotator="ann")
        assert told.status_code == 409
        assert "'bob' took it over" in told.json()["error"]
    kept = browser.act("label", item=third["id"], name="even", annotator="ann")
    assert kept.status_code == 200  # nobody else wanted it
    for verb in ("skip", "unsure"):
        assert browser.act(verb, item=second["id"], annotator="ann").status_code == 409
    again = other.act("label", item=second["id"], name="odd", annotator="bob")
    assert again.status_code == 200
    assert len(project.store.labels()) == 3


def test_an_answer_that_a_closed_tab_left_behind_is_taken(project, browser):
    (item,) = browser.lease(1, annotator="ann")
    browser.post("/api/leave")
    fresh = Browser(project)  # the same person, who sends what was left unsent
    assert fresh.lease(1, annotator="ann") == [item]
    told = browser.act("label", item=item["id"], name="odd", annotator="ann")
    assert told.status_code == 200


def test_where_several_shall_answer_each_has_a_turn(tmp_path):
    with begin(tmp_path, overlap=2) as project:
        project.ask()
        tabs = [Browser(project) for _ in range(3)]
        (item,) = tabs[0].lease(1, annotator="ann")
        asleep(project, tabs[0])
        for tab, who in zip(tabs[1:], ("bob", "cleo"), strict=True):
            tab.lease(1, annotator=who)
        told = tabs[0].act("label", item=item["id"], name="odd", annotator="ann")
        assert told.status_code == 409
        assert "took it over" in told.json()["error"]
        project.store.release(tabs[2].tab)
        told = tabs[0].act("label", item=item["id"], name="odd", annotator="ann")
        assert told.status_code == 200


def test_a_script_labels_out_of_turn(project):
    item = project.store.rounds()[0].items[0].item
    project.label(item, "odd", annotator="ann")
    project.label(item, "odd", annotator="bob")
    with pytest.raises(StoreError, match="'ann', 'bob' took it over"):
        project.label(item, "odd", annotator="cleo", in_turn=True)


def test_a_round_ends_although_images_of_it_are_gone(project, browser):
    shown = browser.lease(7)
    for item in shown[:2]:
        browser.act("label", item=item["id"], name="odd")
    for item in shown[2:]:
        (project.images_folder / item["file"]).unlink()
    project.index()
    state = browser.session.state()
    assert state["round"] == {"number": 0, "size": 7, "open": 0}
    assert state["waiting"] == 0
    assert browser.lease(7) == []


def test_without_a_database_an_answer_is_asked_for_again(tmp_path):
    reason = postgres.why_not()
    if reason:
        pytest.skip(reason)
    own = postgres.start()
    try:
        pictures(tmp_path / "images")
        place, options = tmp_path / "project", {"audit": 3, "query": 4}
        with Project.create(
            *(place, tmp_path / "images", CLASSES),
            budget=12,
            trainer=QUICK,
            strategy="random",
            store=own.url("postgres"),
            **options,
        ) as project:
            project.ask()
            browser = Browser(project)
            (item,) = browser.lease(1)
            own.stop()
            begun = time.monotonic()
            told = browser.act("label", item=item["id"], name="odd")
            assert time.monotonic() - begun < 15
    finally:
        own.stop()
    assert told.status_code == 503
    assert "could not be reached" in told.json()["error"]


def test_what_the_database_cannot_keep_is_no_fault_of_the_server(server, tmp_path):
    pictures(tmp_path / "images")
    with Project.create(
        *(tmp_path / "project", tmp_path / "images", CLASSES),
        budget=12,
        audit=3,
        query=4,
        trainer=QUICK,
        strategy="random",
        store=emptied(server),
    ) as project:
        project.ask()
        browser = Browser(project)
        (item,) = browser.lease(1)
        body = {"verb": "label", "item": item["id"], "name": "odd", "uuid": uuid()}
        told = browser.post("/api/act", {**body, "annotator": "a\0b"})
        assert told.status_code in {409, 422}  # else it would be sent for ever
        assert browser.post("/api/act", body).status_code == 200


def test_looks_of_classes_are_kept_with_the_project(project, browser):
    def keep(*classes):
        return browser.post("/api/classes", {"classes": classes}).status_code

    def letters():
        return [one["letter"] for one in browser.session.state()["classes"]]

    assert letters() == ["", ""]
    assert keep({"name": "even"}, {"name": "odd", "letter": "q"}) == 200
    assert letters() == ["", "q"]
    project.rename_class("odd", "uneven")
    assert letters() == ["", "q"]  # it belongs to the class, not to its name
    with Project.open(project.folder) as again:
        assert Browser(again).session.state()["classes"][1]["letter"] == "q"
    for wrong in (
        [{"name": "nothing", "letter": "a"}],
        [{"name": "even", "letter": "A"}],
        [{"name": "even", "letter": "ab"}],
        [{"name": "even", "letter": "1"}],
        [{"name": "even", "letter": "é"}],
        [{"name": "even", "color": "red"}],
        [{"name": "even", "description": "x" * 501}],
        [{"name": "even"}, {"name": "even"}],
        [{"name": "even", "letter": "z"}, {"name": "uneven", "letter": "z"}],
    ):
        assert keep(*wrong) == 422
        assert letters() == ["", "q"]
    look = {"letter": "q", "color": "#112233", "description": "Leaves a rest."}
    assert keep({"name": "uneven", **look}) == 200  # it is the first now
    first, second = browser.session.state()["classes"]
    assert first == {"name": "uneven", "number": 1, "count": 0, **look}
    assert second["name"] == "even"
    for damaged in ("", "[1]", '{"x": "a"}', '{"0": 5}'):
        (project.folder / "page-classes.json").write_text(damaged)
        assert letters() == ["", ""]


def test_classes_are_merged_deleted_and_brought_back(project, browser):
    def change(verb, name, other=None, **more):
        body = {"uuid": uuid(), "verb": verb, "name": name, "other": other}
        return browser.post("/api/classes/change", {**body, **more})

    def counts():
        return {one["name"]: one["count"] for one in browser.session.state()["classes"]}

    project.add_classes(["two"])
    for item in browser.lease(3):
        browser.act("label", item=item["id"], name="two")
    body = {"uuid": uuid()}
    for _ in range(2):  # sent again, it counts once
        assert change("merge", "two", "even", **body).json() == {"num_labels": 3}
    assert counts() == {"even": 3, "odd": 0}
    removed = browser.get("/api/classes/removed").json()["removed"]
    assert removed == [{"name": "two", "into": "even", "num_labels": 3}]
    assert change("restore", "two").json() == {"num_labels": 3}
    assert counts() == {"even": 0, "odd": 0, "two": 3}
    assert change("delete", "two").json() == {"num_labels": 3}
    assert browser.session.state()["skipped"] == 3
    assert change("rename", "odd", "uneven").status_code == 200
    assert counts() == {"even": 0, "uneven": 0}
    for wrong in (("delete", "even"), ("merge", "even"), ("restore", "even")):
        assert change(*wrong).status_code == 422


def test_people_see_how_far_they_agree_and_where_they_do_not(tmp_path):
    with begin(tmp_path, overlap=2) as project:
        items = [one.item for one in project.ask().items]
        for item, one, other in zip(items[:4], "0011", "0111", strict=True):
            project.label(item, CLASSES[int(one)], annotator="ann", lead_time=int(one))
            project.label(item, CLASSES[int(other)], annotator="bob")
        project.label(items[4], "odd", annotator="ann")  # bob is still to be asked
        project.skip(items[5], annotator="bob")
        browser = Browser(project)
        told = browser.get("/api/people").json()
        assert told["people"] == [
            {"name": "ann", "labels": 5, "skipped": 0, "unsure": 0, "seconds": 0.5},
            {"name": "bob", "labels": 4, "skipped": 1, "unsure": 0, "seconds": None},
        ]
        (pair,) = told["pairs"]
        assert (pair["first"], pair["other"]) == ("ann", "bob")
        assert (pair["shared"], pair["same"], pair["kappa"]) == (4, 3, 0.5)
        (apart,) = told["apart"]
        assert told["num_apart"] == 1
        assert apart["id"] == browser.session.images.name_of(items[1])
        assert apart["answers"] == [
            {"annotator": "ann", "label": "even"},
            {"annotator": "bob", "label": "odd"},
        ]
        change = {"item": apart["id"], "name": "odd", "annotator": "ann"}
        assert browser.act("change", **change).status_code == 200
        assert browser.get("/api/people").json()["apart"] == []
        assert browser.act("undo", annotator="ann").status_code == 200
        assert browser.get("/api/people").json()["num_apart"] == 1  # as before
        settled = {**change, "name": "even", "annotator": "eve"}
        assert browser.act("label", **settled).status_code == 409  # nobody asks eve
        assert browser.act("settle", **settled).status_code == 200
        assert browser.get("/api/people").json()["apart"] == []  # two of three
        assert project.snapshot().consensus[items[1]].class_number == 0
        for wrong in ({"item": "0" * 24}, {"name": "neither"}, {"name": None}):
            assert browser.act("settle", **{**settled, **wrong}).status_code == 422
