"""All images: filters against a slow twin, and changes that are undone as a whole."""

from base64 import b64decode, b64encode
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.projects.toy import num_events
from tests.web.pages import HEADERS, Browser, uuid

from fewlabels.errors import ReplayError, StoreError, UnknownNameError, UsageError
from fewlabels.projects.snapshot import Tally
from fewlabels.projects.store import Kind
from fewlabels.projects.store.records import LABELS
from fewlabels.web.browse import SOURCES, ImageTable, source_of
from fewlabels.web.messages import MOST_REVISED, Filter
from fewlabels.web.pictures import ordered_digest

ANN, BOB = {"annotator": "ann"}, {"annotator": "bob"}


@pytest.fixture
def items(project):
    return [item.id for item in project.store.items()]


@pytest.fixture
def free(project, items):
    """Images that nobody asked about."""
    asked = {entry.item for entry in project.store.rounds()[0].items}
    return [item for item in items if item not in asked]


class Table(ImageTable):
    """A table with a tally of its own."""

    def __init__(self, overlap=1):
        super().__init__(overlap=overlap)
        self.tally = Tally(overlap=overlap)

    def read(self, store):
        self.tally.update(store)
        self.update(self.tally, store)


def labels(project):
    names = [entry.name for entry in project.store.classes()]
    return {label.item: names[label.class_number] for label in project.store.labels()}


def predictions(items):
    """Return the message of a model: odd where the number is odd, ever surer."""
    classes = np.arange(len(items)) % 2
    sure = np.linspace(0, 65_535, len(items))
    columns = {"classes": classes, "sure": sure}
    encoded = {k: b64encode(v.astype("<u2").tobytes()) for k, v in columns.items()}
    return {"by": "a model", "items": ordered_digest(items)} | encoded


def layout(items):
    """Return the message of a map: images on a diagonal."""
    line = b64encode(np.linspace(0, 65_535, len(items)).astype("<u2").tobytes())
    return {"items": ordered_digest(items), "x": line, "y": line}


def asked_of(project, role):
    entries = project.store.rounds()[0].items
    return [entry.item for entry in entries if entry.role == role]


def fill(project, free):
    """Write answers of all kinds by two people."""
    measuring, queried = asked_of(project, "audit"), asked_of(project, "query")
    project.label(measuring[0], "odd", **ANN)
    project.label(queried[0], "even", **ANN)
    project.skip(queried[1], **BOB)
    project.unsure(queried[2], **ANN)
    project.revise(free[:4], "odd", uuid=uuid(), predicted=free[:2], **ANN)
    project.revise(free[4:6], uuid=uuid(), skip=True, **BOB)
    project.change(queried[0], "odd", **ANN)
    text = "file_name,label\n" + "".join(f"{i.split('@')[0]},even\n" for i in free[6:9])
    project.import_labels("a.csv", content=text.encode(), annotator="cat", scan=False)


# ---------------------------------------------------------------------------- filters


def slowly(project, table, wish, who):
    """Return what a filter selects, image by image, from what the store says."""
    names = [entry.name for entry in project.store.classes()]
    snapshot = project.snapshot()
    together = [
        asked
        for asked in snapshot.rounds
        if any(entry.role == "audit" for entry in asked.items)
    ]
    hidden = {entry.item for asked in together for entry in asked.items}
    kept = []
    for row, item in enumerate(snapshot.items):
        given = [v for v in snapshot.verdicts if v.item == item.id]
        has_labels = any(verdict.kind in LABELS for verdict in given)
        number = snapshot.known.get(item.id)
        label = None if number is None else names[number]
        status = "none"
        if label is not None:
            status = "labeled"
        elif has_labels:
            status = "undecided"
        elif any(verdict.kind is Kind.SKIP for verdict in given):
            status = "skipped"
        elif given:
            status = "unsure"
        is_mine = any(verdict.annotator == who for verdict in given)
        shows = item.id not in hidden or is_mine
        predicted = names[table.predicted[row]] if shows else None
        sure = table.sure[row]
        matching = [
            verdict
            for verdict in given
            if (wish.person is None or verdict.annotator == wish.person)
            and (wish.source not in SOURCES or source_of(verdict) == wish.source)
            and (wish.since is None or verdict.server_time.timestamp() >= wish.since)
            and (wish.until is None or verdict.server_time.timestamp() < wish.until)
        ]
        is_about_answers = (
            wish.person is not None
            or wish.source in SOURCES
            or wish.since is not None
            or wish.until is not None
        )
        is_range = wish.sure_from > 0 or wish.sure_to < 1
        conditions = (
            wish.label in {None, label},
            wish.answer in {None, status},
            wish.predicted in {None, predicted},
            not is_range or (shows and wish.sure_from <= sure <= wish.sure_to),
            wish.agreement is None
            or (
                label is not None
                and shows
                and (label == predicted) == (wish.agreement == "same")
            ),
            not is_about_answers or matching,
            wish.source != "measuring" or (item.id in snapshot.audit and is_mine),
            wish.text.casefold() in item.path.casefold(),
        )
        if all(conditions):
            newest = max((v.server_time.timestamp() for v in given), default=0)
            order = {"name": 0, "newest": -newest, "doubt": sure if shows else 2}
            kept.append((order[wish.order], row))
    return [row for _, row in sorted(kept)]


def optional(*values):
    return st.sampled_from([None, *values])


CLASS = optional("even", "odd")
FILTERS = st.builds(
    dict,
    label=CLASS,
    answer=optional("none", "labeled", "undecided", "skipped", "unsure"),
    predicted=CLASS,
    sure_from=st.sampled_from([0, 0.25]),
    sure_to=st.sampled_from([1, 0.75]),
    agreement=optional("same", "other"),
    source=optional(*SOURCES, "measuring"),
    person=optional("ann", "bob", "cat", "nobody"),
    text=st.sampled_from(["", "1", "PNG", "no such"]),
    order=st.sampled_from(["name", "newest", "doubt"]),
    since=optional(0, 1e10),
    until=optional(0, 1e10),
)


def test_filters_select_what_a_slow_twin_selects(project, items, free):
    table = Table()
    table.read(project.store)
    table.predict(predictions(items))
    fill(project, free)
    table.read(project.store)
    sizes = set()

    @settings(
        max_examples=200,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(FILTERS, st.sampled_from(["ann", "bob", "nobody"]))
    def check(conditions, who):
        wish = Filter(tab=uuid(), **conditions)
        rows = table.select(wish, who).tolist()
        assert rows == slowly(project, table, wish, who)
        sizes.add(len(rows))

    check()
    single = ("label", "answer", "predicted", "agreement", "source", "person")
    values = {
        "label": ["even", "odd"],
        "answer": ["none", "labeled", "skipped", "unsure"],
        "predicted": ["even", "odd"],
        "agreement": ["same", "other"],
        "source": [*SOURCES, "measuring"],
        "person": ["ann", "bob", "cat"],
    }
    for name in single:
        for value, who in product(values[name], ["ann", "bob"]):
            wish = Filter(tab=uuid(), **{name: value})
            rows = table.select(wish, who).tolist()
            assert rows == slowly(project, table, wish, who)
            assert rows or (value, who) == ("measuring", "bob")
    assert len(sizes) > 3


def test_a_table_that_grew_event_by_event_equals_one_that_is_read_anew(
    project, items, free
):
    table = Table()
    table.read(project.store)
    fill(project, free)
    table.read(project.store)
    name = uuid()
    project.revise(free[:3], "even", uuid=name, **ANN)
    table.read(project.store)
    before = table.version
    table.read(project.store)
    assert table.version == before  # nothing was written meanwhile
    project.restore(free[:3], name, uuid=uuid(), **ANN)
    table.read(project.store)
    fresh = Table()
    fresh.read(project.store)
    for column in ("label", "status", "measures", "hides"):
        assert np.array_equal(getattr(table, column), getattr(fresh, column))
    for column in ("time", "source"):
        assert np.array_equal(table.answers[column], fresh.answers[column])
    assert table.ids == fresh.ids == items


def test_several_answers_about_an_image_have_columns_of_their_own(project):
    first = asked_of(project, "query")[0]
    project.label(first, "odd", **ANN)
    project.label(first, "even", **BOB)
    table = Table(overlap=2)
    table.read(project.store)
    assert len(table.answers) == 2
    for person in ("ann", "bob"):
        wish = Filter(tab=uuid(), person=person, answer="undecided")
        rows = table.select(wish, "ann").tolist()
        assert [table.ids[row] for row in rows] == [first]


def test_images_that_measure_show_no_prediction_before_they_are_labeled(
    project, items, browser, free
):
    seen = browser.post("/api/browse", ANN).json()
    assert seen["total"] == seen["num_images"] == len(items)
    browser.guard.app.state.background.predictions = predictions(items)
    tiles = browser.post("/api/browse", ANN).json()["tiles"]
    by_file = {tile["file"]: tile for tile in tiles}
    asked = {entry.item.split("@")[0] for entry in project.store.rounds()[0].items}
    for file, tile in by_file.items():
        assert (tile["predicted"] is None) == (file in asked)
        assert not tile["measures"]
    item = asked_of(project, "audit")[0]
    project.label(item, "odd", **ANN)
    for who, is_shown in ((ANN, True), (BOB, False)):
        body = {**who, "text": item.split("@")[0]}
        (tile,) = browser.post("/api/browse", body).json()["tiles"]
        assert (tile["predicted"] is not None) == is_shown == tile["measures"]
        found = browser.post("/api/browse", {**who, "source": "measuring"}).json()
        assert found["total"] == is_shown


def is_inside(x, y, corners):
    """Return whether a ray from a point to the right crosses an odd number of edges."""
    crossings = 0
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        if (y0 > y) != (y1 > y) and x < (x1 - x0) * (y - y0) / (y1 - y0) + x0:
            crossings += 1
    return crossings % 2 == 1


def test_a_part_of_the_map_is_a_filter(project, items):
    table = Table()
    table.read(project.store)
    wish = Filter(tab=uuid(), region=[0, 0, 1, 0, 1, 1])
    with pytest.raises(UsageError, match="needs a map"):
        table.select(wish, "ann")
    table.lay_out(layout(items[::-1]))  # of other images
    assert table.places is None
    table.lay_out(layout(items))
    draws = np.random.default_rng(0)
    table.places = draws.random((2, len(items)), dtype=np.float32)
    sizes = set()
    for num in range(3, 12):
        corners = draws.random((num, 2), dtype=np.float32)
        wish = Filter(tab=uuid(), region=corners.ravel().tolist())
        rows = table.select(wish, "ann").tolist()
        points = enumerate(zip(*table.places, strict=True))
        assert rows == [r for r, (x, y) in points if is_inside(x, y, corners.tolist())]
        sizes.add(len(rows))
    assert len(sizes) > 3
    for region in ([0.5, 0.5, 1, 1], [0.1] * 7):
        with pytest.raises(UsageError, match="three corners"):
            table.select(Filter(tab=uuid(), region=region), "ann")


def test_the_map_shows_no_prediction_of_images_that_measure(
    project, browser, items, monkeypatch
):
    background = browser.guard.app.state.background
    assert browser.post("/api/map").status_code == 503  # nothing is ready
    monkeypatch.setattr(background, "ask", lambda _: {"reason": "There is no model."})
    assert browser.post("/api/map").json() == {"reason": "There is no model."}
    monkeypatch.setattr(background, "ask", lambda _: layout(items))
    found = browser.post("/api/browse", {"region": [0, 0, 0.5, 0, 0.5, 1, 0, 1]})
    assert found.json()["total"] == len(items) // 2  # the map was made for it
    background.predictions = predictions(items)
    points = browser.post("/api/map", ANN).json()
    asked = {entry.item for entry in project.store.rounds()[0].items}
    for name in ("predicted", "sure"):
        column = np.frombuffer(b64decode(points[name]), "<u2")
        hidden = {i for i, value in zip(items, column, strict=True) if value == 65_535}
        assert hidden == asked
    assert points["total"] == len(items)


# --------------------------------------------------------------------------- changes


def test_a_change_of_many_is_one_action_and_one_undo(project, free):
    fill(project, free)
    before, num_before = labels(project), num_events(project)
    skipped = {v.item for v in project.store.verdicts() if v.kind is Kind.SKIP}
    name = uuid()
    wanted = free[:12]
    done = project.revise(wanted, "even", uuid=name, **ANN)
    assert done.num_others == 2  # bob skipped those
    assert done.num_same == 3  # imported as even
    assert set(done.items) == {*free[:4], *free[9:12]}
    assert {labels(project)[item] for item in done.items} == {"even"}
    num = num_events(project)
    again = project.revise(wanted, "even", uuid=name, **ANN)
    assert set(again.items) == set(done.items)
    assert num_events(project) == num  # sent twice, it counts once
    with pytest.raises(ReplayError):
        project.revise(wanted, "odd", uuid=name, **ANN)
    undo = uuid()
    assert set(project.restore(wanted, name, uuid=undo, **ANN)) == set(done.items)
    num = num_events(project)
    assert set(project.restore(wanted, name, uuid=undo, **ANN)) == set(done.items)
    assert num_events(project) == num > num_before
    assert labels(project) == before
    assert skipped == {v.item for v in project.store.verdicts() if v.kind is Kind.SKIP}
    assert project.restore(wanted, name, uuid=uuid(), **ANN) == ()  # undone already


def test_labels_are_removed_with_all_earlier_ones_below_them_and_come_back(
    project, free
):
    fill(project, free)
    project.revise(free[6:8], "odd", uuid=uuid(), **BOB)  # imported as even by cat
    project.revise(free[:2], "even", uuid=uuid(), **ANN)  # odd before
    before = {(v.item, v.uuid) for v in project.store.verdicts()}
    name, wanted = uuid(), [*free[:2], *free[6:8], free[10]]
    done = project.revise(wanted, uuid=name, **ANN)
    assert set(done.items) == {*free[:2], *free[6:8]}
    assert done.num_same == 1
    assert not set(wanted) & labels(project).keys()
    assert len(project.restore(wanted, name, uuid=uuid(), **ANN)) == 4
    assert {(v.item, v.uuid) for v in project.store.verdicts()} == before


def test_an_imported_label_is_replaced_by_whoever_corrects_it(project, free):
    fill(project, free)
    name = uuid()
    assert project.revise(free[6:7], "odd", uuid=name, **BOB).items == (free[6],)
    (verdict,) = project.store.verdicts(items=free[6:7])
    assert (verdict.annotator, verdict.strategy) == ("bob", "imported")
    with pytest.raises(StoreError, match="'bob' made this change"):
        project.restore(free[6:7], name, uuid=uuid(), **ANN)
    project.restore(free[6:7], name, uuid=uuid(), **BOB)
    (verdict,) = project.store.verdicts(items=free[6:7])
    assert (verdict.annotator, labels(project)[free[6]]) == ("cat", "even")


def test_what_changed_since_stays_when_a_change_is_undone(project, free):
    name = uuid()
    project.revise(free[:3], "odd", uuid=name, **ANN)
    project.revise(free[:1], "even", uuid=uuid(), **ANN)
    assert project.restore(free[:3], name, uuid=uuid(), **ANN) == tuple(free[1:3])
    assert labels(project) == {free[0]: "even"}


def test_labels_of_browsing_cost_nothing_and_say_where_they_come_from(project, free):
    before = project.status().num_spent
    project.revise(free[:3], "odd", uuid=uuid(), predicted=free[:1], **ANN)
    strategies = [v.strategy for v in project.store.verdicts(items=free[:3])]
    assert strategies == ["confirmed", "corrected", "corrected"]
    assert project.status().num_spent == before
    with pytest.raises(UsageError, match="nothing to undo"):
        project.undo(**ANN)  # it is no answer to a question


def test_images_that_measure_change_one_at_a_time(project, free):
    measuring, queried = asked_of(project, "audit"), asked_of(project, "query")
    for waiting in (measuring[0], queried[0]):  # nothing tells which of them measures
        with pytest.raises(UsageError, match="1 image of these measure") as refused:
            project.revise([free[0], waiting], "odd", uuid=uuid(), **ANN)
        assert "one at a time" in str(refused.value)
    assert not labels(project)
    assert project.revise(measuring[:1], "odd", uuid=uuid(), **ANN).items
    project.label(queried[0], "odd", **ANN)
    with pytest.raises(UsageError, match="measure"):
        project.revise([free[0], measuring[0]], "even", uuid=uuid(), **ANN)
    assert project.revise([free[0], queried[0]], "even", uuid=uuid(), **ANN).items
    assert project.revise(measuring[:1], "even", uuid=uuid(), **ANN).items
    assert project.status().num_audited == 1


def test_images_that_a_tab_is_about_to_label_are_left_out(project, free):
    leased = project.lease(1, **BOB).items[0]
    done = project.revise([leased], "odd", uuid=uuid(), **ANN)
    assert (done.items, done.num_held) == ((), 1)


def test_a_change_that_fails_halfway_writes_nothing(project, free, monkeypatch):
    project.revise(free[:2], "odd", uuid=uuid(), **ANN)
    fill_state = labels(project), num_events(project)
    store = type(project.store)
    original, calls = store.append, []

    def fail(self, events):
        calls.append(1)
        if len(calls) == 1:
            raise StoreError("The disk is full.")
        return original(self, events)

    monkeypatch.setattr(store, "append", fail)
    with pytest.raises(StoreError, match="full"):
        project.revise(free[:3], uuid=uuid(), **ANN)
    monkeypatch.undo()
    assert (labels(project), num_events(project)) == fill_state
    with pytest.raises(UnknownNameError):
        project.revise(free[:3], "no such class", uuid=uuid(), **ANN)
    with pytest.raises(UsageError, match="not a UUID"):
        project.revise(free[:3], "odd", uuid="x", **ANN)


# ---------------------------------------------------------------------------- routes


def test_labels_change_over_the_routes_and_their_history_tells_how(
    project, browser, free
):
    wish = {"answer": "none", "text": "png", "count": 2, "offset": 1}
    page = browser.post("/api/browse", wish).json()
    assert len(page["tiles"]) == 2
    every = browser.post("/api/browse", {"answer": "none"}).json()
    assert every["total"] == len(every["tiles"]) == page["total"]
    assert page["tiles"] == every["tiles"][1:3]
    names = [browser.session.images.name_of(item) for item in free[:2]]
    change = {"uuid": uuid(), "items": names, "name": "odd"}
    done = browser.post("/api/change", change).json()
    assert done["items"] == names
    assert browser.post("/api/change", change).json()["items"] == names
    found = browser.post("/api/browse", {"label": "odd"}).json()
    assert [tile["id"] for tile in found["tiles"]] == names
    browser.post("/api/change", {**change, "uuid": uuid(), "verb": "skip"})
    assert browser.post("/api/browse", {"answer": "skipped"}).json()["total"] == 2
    history = browser.post("/api/history", {"item": names[0]}).json()
    assert history["tile"]["answer"] == "skipped"
    kinds = [(e["kind"], e["label"], e["is_undone"]) for e in history["events"]]
    assert kinds == [("skip", None, False), ("label", "odd", False)]
    last = history["events"][0]["uuid"]
    undo = {"uuid": uuid(), "items": names[:1], "verb": "undo", "target": last}
    assert browser.post("/api/change", undo).json()["items"] == names[:1]
    history = browser.post("/api/history", {"item": names[0]}).json()
    assert history["tile"]["label"] == "odd"
    assert [e["is_undone"] for e in history["events"]] == [False, True, False]
    undoes = {"uuid": uuid(), "items": names, "undoes": change["uuid"]}
    assert browser.post("/api/change", undoes).json()["items"] == names[:1]


def test_answers_of_others_stay_hidden_while_an_own_one_is_wanted(project, browser):
    item = asked_of(project, "query")[0]
    project.label(item, "odd", **BOB)
    browse = browser.guard.app.state.browse
    browse._table = Table(overlap=2)
    name = browser.session.images.name_of(item)
    for who, num in ((ANN, 0), (BOB, 1)):
        told = browser.post("/api/history", {"item": name, **who}).json()
        assert len(told["events"]) == num


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/browse", {"count": MOST_REVISED + 1}),
        ("/api/browse", {"items": ["0" * 24] * 101}),
        ("/api/browse", {"offset": -1}),
        ("/api/browse", {"text": "x" * 201}),
        ("/api/browse", {"sure_from": 1.5}),
        ("/api/browse", {"since": -1}),
        ("/api/map", {"region": [0.5] * 201}),
        ("/api/review", {"region": [0.5] * 201}),
        ("/api/review", {"region": [0, 0, -1, 2, 0, 1]}),
        ("/api/review", {"region": [0.5, 0.5, "all", 1]}),
        ("/api/review", {"among": ["0" * 24]}),
        ("/api/act", {"uuid": uuid(), "verb": "settle"}),
        ("/api/act", {"uuid": uuid(), "verb": "settle", "item": "../a.png"}),
        ("/api/map", {"region": [0, 0, 2, 2, 0, 1]}),
        ("/api/browse", {"label": "no such class"}),
        ("/api/browse", {"path": "/etc/passwd"}),
        ("/api/change", {"uuid": uuid(), "items": []}),
        ("/api/change", {"uuid": uuid(), "items": ["../a.png"], "name": "odd"}),
        ("/api/change", {"uuid": uuid(), "items": ["0" * 24]}),
        ("/api/change", {"uuid": uuid(), "items": ["0" * 24], "verb": "undo"}),
        (
            "/api/change",
            {"uuid": uuid(), "items": ["0" * 24] * (MOST_REVISED + 1), "name": "odd"},
        ),
        ("/api/history", {"item": "0" * 24}),
        ("/api/history", {"item": "../a"}),
    ],
)
def test_what_is_out_of_bounds_is_refused(browser, path, body):
    assert browser.post(path, body).status_code == 422


def test_nothing_is_listed_without_the_token(browser, project):
    stranger = Browser(project)
    stranger.client.cookies.clear()
    for path in ("browse", "map", "change", "history"):
        answer = stranger.client.post(f"/api/{path}", json={}, headers=HEADERS)
        assert answer.status_code == 401
        bare = browser.client.post(f"/api/{path}", json={"tab": uuid()})
        assert bare.status_code == 403


def test_predictions_are_those_of_the_latest_guess(browser, project, items, free):
    background = browser.guard.app.state.background
    assert browser.post("/api/browse").json()["by"] is None
    background.predictions = predictions(items[1:])  # of other images
    assert browser.post("/api/browse").json()["by"] is None
    background.predictions = predictions(items)
    seen = browser.post("/api/browse", {"predicted": "odd"}).json()
    assert seen["by"] == "a model"
    assert seen["total"] > 3
    background.predictions = {"by": None}
    assert browser.post("/api/browse", {"predicted": "odd"}).json()["total"] == 0


def test_some_images_are_listed_by_their_names(browser, project, items, free):
    browser.guard.app.state.background.predictions = predictions(items)
    asked = asked_of(project, "query")[0]
    names = [browser.session.images.name_of(item) for item in (free[3], asked)]
    wish = {"items": [*names, "0" * 24]}
    seen = browser.post("/api/browse", wish).json()
    tiles = {tile["id"]: tile for tile in seen["tiles"]}
    assert tiles.keys() == set(names)
    assert tiles[names[0]]["predicted"] is not None
    assert tiles[names[1]]["predicted"] is None  # its round has images that measure
    assert browser.post("/api/browse", wish | {"label": "odd"}).json()["total"] == 0
    assert browser.post("/api/browse", {"items": []}).json()["total"] == 0
