"""Many images at a glance: guesses, confirmed labels, and what they must not touch."""

import shutil
from base64 import b64decode
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from PIL import Image
from tests.projects.toy import CLASSES, QUICK, changed, num_events
from tests.web.pages import Browser, uuid

from fewlabels import strategies, training
from fewlabels.errors import StoreError, UnknownNameError, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project, snapshot
from fewlabels.rng import stream
from fewlabels.web import guesses, session
from fewlabels.web.pictures import ordered_digest

HEAD = Choice(name="frozen-linear", options={"encoder": "pixels"})


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A project of pictures that are light on one side, with labels on some."""
    place = tmp_path_factory.mktemp("review")
    draws = np.random.default_rng(0)
    (place / "images").mkdir()
    for number in range(30):
        pixels = draws.integers(0, 60, (8, 8), dtype=np.uint8)
        pixels[:, 4 * (number % 2) : 4 * (number % 2) + 4] += 150
        Image.fromarray(pixels).save(place / "images" / f"{number:02d}.png")
    options = {"budget": 12, "audit": 3, "query": 6, "strategy": "random"}
    with Project.create(
        place / "project", place / "images", CLASSES, trainer=HEAD, **options
    ) as project:
        for asked in project.ask().items:
            project.label(asked.item, truth(asked.item), annotator="ann")
    return place


@pytest.fixture
def project(begun, tmp_path):
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    guesses._last.clear()
    with Project.open(tmp_path / "project") as project:
        yield project


def truth(item):
    return CLASSES[int(item[:2]) % 2]


def review(project, **wish):
    options = {"name": None, "like": None, "count": 60, "without": []}
    options["order"] = "surest"
    return guesses.review(str(project.folder), allow_code=False, **(options | wish))


def confirm(project, items, name, **options):
    """Confirm a class for images that were seen at a glance; return which have it."""
    options = {"uuid": uuid(), "predicted": items} | options
    return project.revise(items, name, unanswered=True, **options).items


def looks(project):
    return guesses.second_looks(str(project.folder), allow_code=False)


def test_the_review_shows_what_nobody_has_spoken_of_surest_first(project):
    spoken = {one.item for one in project.store.verdicts()}
    even = review(project, name="even")
    items = [one["item"] for one in even["tiles"]]
    assert items
    assert not spoken & set(items)
    assert {truth(item) for item in items} == {"even"}
    sure = [one["sure"] for one in even["tiles"]]
    assert sure == sorted(sure, reverse=True)
    assert even["num_all"] + review(project, name="odd")["num_all"] == 30 - len(spoken)
    told = guesses.guess(str(project.folder), allow_code=False)
    assert told["counts"] == {
        "even": even["num_all"],
        "odd": review(project, name="odd")["num_all"],
    }
    fewer = review(project, name="even", count=2, without=items[:1])
    assert [one["item"] for one in fewer["tiles"]] == items[1:3]


def test_doubtful_images_first_or_the_likeliest_of_a_class_whatever_it_is_taken_for(
    project,
):
    surest = review(project, name="even")["tiles"]
    assert review(project, name="even", order="doubt")["tiles"] == surest[::-1]
    mistakes = review(project, name="even", order="mistakes")["tiles"]
    assert {tile["item"] for tile in mistakes} == {tile["item"] for tile in surest}
    assert {tile["other"] for tile in mistakes} == {"odd"}  # there are two classes
    same = review(project, name="even", order="mistakes", other="odd")["tiles"]
    assert same == mistakes
    found = review(project, name="even", order="likely")
    spoken = {one.item for one in project.store.verdicts()}
    assert found["num_all"] == len(found["tiles"]) == 30 - len(spoken)
    assert found["tiles"][: len(surest)] == surest
    rest = found["tiles"][len(surest) :]  # taken for odd; told is how likely it is even
    assert {(one["class"], one["sure"] < 0.5) for one in rest} == {("even", True)}
    sure = [one["sure"] for one in found["tiles"]]
    assert sure == sorted(sure, reverse=True)


def test_typical_images_of_a_class_cover_it(project):
    surest = [tile["item"] for tile in review(project, name="even")["tiles"]]
    typical = [
        tile["item"]
        for tile in review(project, name="even", order="typical", count=4)["tiles"]
    ]
    assert len(typical) == 4
    assert set(typical) < set(surest)
    # As few as these say more about all others than the surest ones do.
    snapshot = project.snapshot()
    pool = snapshot.pool(project.images(snapshot))
    head = training.make("frozen-blend", encoder="pixels")
    classifier = head.fit(pool, stream(0, "guess"))
    covering = strategies.resolve("v-opt", {"kernel": "joint", "noise": 0.3})

    def left_by(items):
        places = torch.tensor(sorted(snapshot.positions[item] for item in items))
        only = replace(pool, candidates=places)
        query = covering.select(classifier, only, len(items), stream(0, "test"))
        return query.record["left_after"]

    assert left_by(typical) < left_by(surest[:4])


def test_what_measures_is_never_in_review_and_cannot_be_confirmed(project):
    audit = {o.item for o in project.store.rounds()[0].items if o.role == "audit"}
    one = min(audit)
    project.undo(
        annotator="ann",
        target=next(v.uuid for v in project.store.verdicts() if v.item == one),
    )
    every = {tile["item"] for tile in review(project)["tiles"]}
    assert not every & audit
    with pytest.raises(UsageError, match="1 image of these measure"):
        confirm(project, [one], "even")


def test_confirmed_labels_train_cost_nothing_and_stay_apart(project):
    before = project.status()
    tiles = [one["item"] for one in review(project, name="even", count=5)["tiles"]]
    name = uuid()
    done = confirm(project, tiles, "even", uuid=name, annotator="ann")
    assert done == tuple(tiles)
    num = num_events(project)
    assert confirm(project, tiles, "even", uuid=name, annotator="ann") == done
    assert num_events(project) == num  # sent twice, it counts once
    after = project.status()
    assert after.num_spent == before.num_spent
    assert after.num_audited == before.num_audited
    assert sum(after.class_counts) == sum(before.class_counts) + 5
    kinds = {one.item: one.strategy for one in project.store.labels()}
    assert [kinds[item] for item in tiles] == ["confirmed"] * 5
    assert not set(tiles) & {one["item"] for one in review(project)["tiles"]}
    with pytest.warns(UserWarning, match="no model"):
        asked = {one.item for one in project.ask().items}
    assert not asked & set(tiles)
    project.restore(tiles, name, uuid=uuid(), annotator="ann")
    assert project.status().class_counts == before.class_counts
    assert confirm(project, tiles, "odd", annotator="bob", predicted=()) == done
    kinds = {one.item: one.strategy for one in project.store.labels()}
    assert [kinds[item] for item in tiles] == ["corrected"] * 5
    assert project.status().num_spent == before.num_spent


def test_what_somebody_has_said_is_not_confirmed_over(project):
    spoken = project.store.verdicts()[0].item
    free = review(project)["tiles"][0]["item"]
    assert confirm(project, [spoken, free], "odd") == (free,)
    with pytest.raises(UnknownNameError):
        confirm(project, [free], "neither")
    with pytest.raises(UsageError, match="not a UUID"):
        confirm(project, [free], "odd", uuid="x")


def test_what_is_being_asked_about_is_left_to_whoever_was_asked(project):
    every = {one["item"] for one in review(project)["tiles"]}
    with pytest.warns(UserWarning, match="no model"):
        asked = {one.item for one in project.ask().items} & every
    assert asked
    assert {one["item"] for one in review(project)["tiles"]} == every - asked
    held = project.lease(1, annotator="bob").items[0]
    free = min(every - asked)
    for who in ("ann", "bob"):
        given = confirm(project, [held, free], "odd", annotator=who)
        assert given == ((free,) if who == "ann" else ())
    assert project.label(held, "odd", annotator="bob")


def test_an_undo_leaves_alone_what_was_confirmed(project):
    last = project.store.verdicts()
    last = max(last, key=lambda one: one.sequence).item
    tiles = [one["item"] for one in review(project, count=3)["tiles"]]
    name, back = uuid(), uuid()
    confirm(project, tiles, "even", uuid=name, annotator="ann")
    assert project.undo(annotator="ann").item == last
    parts = {one.item: one.uuid for one in project.store.labels()}
    project.undo(annotator="ann", target=parts[tiles[0]])
    rest = tuple(tiles[1:])
    confirm(project, tiles, "even", uuid=name, annotator="ann")  # sent twice
    assert not project.store.verdicts(items=tiles[:1])
    for _ in range(2):
        assert project.restore(tiles, name, uuid=back, annotator="ann") == rest
    assert not {one.item for one in project.store.verdicts()} & set(tiles)


def test_more_like_this_and_slips(project, monkeypatch):
    tiles = review(project, name="odd")["tiles"]
    near = review(project, like=tiles[0]["item"])["tiles"]
    assert near[0]["item"] == tiles[0]["item"]
    assert {truth(one["item"]) for one in near[: len(tiles) // 2]} == {"odd"}
    assert looks(project)["slips"] == []
    audit = {o.item for o in project.store.rounds()[0].items if o.role == "audit"}
    wrong = next(v for v in project.store.labels() if v.item not in audit)
    other = CLASSES[1 - wrong.class_number]
    project.change(wrong.item, other, annotator="ann")
    found = looks(project)["slips"]
    assert wrong.item in {one["item"] for one in found}
    told = next(one for one in found if one["item"] == wrong.item)
    assert (told["label"], told["other"]) == (other, truth(wrong.item))
    monkeypatch.setattr(guesses, "_shares", None)  # the same labels: it is known
    assert looks(project)["slips"] == found


def test_a_confirmed_label_can_be_a_slip_and_is_changed_like_any_other(project):
    before = project.status()
    tiles = [one["item"] for one in review(project, name="even")["tiles"]]
    wrong = tiles.pop(0)
    confirm(project, tiles, "even", annotator="ann")
    odd = [one["item"] for one in review(project, name="odd")["tiles"]]
    confirm(project, [*odd, wrong], "odd", annotator="ann")
    slip, *others = looks(project)["slips"]
    assert (slip["item"], slip["label"], slip["other"]) == (wrong, "odd", "even")
    assert others == []
    with pytest.raises(StoreError, match="has not answered"):
        project.change(wrong, "even", annotator="bob")
    project.change(wrong, "even", annotator="ann")
    assert looks(project)["slips"] == []
    after = project.status()
    assert after.num_spent == before.num_spent  # it is still a confirmed label
    kinds = {one.item: one.strategy for one in project.store.labels()}
    assert kinds[wrong] == "confirmed"


def test_an_imported_label_can_be_a_slip_and_is_changed_by_anybody(project):
    wrong, *even = [tile["item"] for tile in review(project, name="even")["tiles"]]
    odd = [tile["item"] for tile in review(project, name="odd")["tiles"]]
    path_of = {item.id: item.path for item in project.store.items()}
    label_of = dict.fromkeys(even, "even") | dict.fromkeys([*odd, wrong], "odd")
    rows = [f"{path_of[item]},{label}" for item, label in label_of.items()]
    content = "\n".join(["file_name,label", *rows]).encode()
    project.import_labels("labels.csv", content=content, annotator="ann")
    (slip,) = looks(project)["slips"]
    assert (slip["item"], slip["label"], slip["other"]) == (wrong, "odd", "even")
    project.change(wrong, "even", annotator="bob")
    assert looks(project)["slips"] == []


def test_a_class_of_one_label_is_not_judged(project):
    project.add_classes(["neither"])
    audit = {o.item for o in project.store.rounds()[0].items if o.role == "audit"}
    alone = next(v for v in project.store.labels() if v.item not in audit)
    project.change(alone.item, "neither", annotator="ann")
    assert alone.item not in {one["item"] for one in looks(project)["slips"]}


def test_before_there_is_a_model_slips_are_not_computed(project):
    for verdict in project.store.verdicts():
        project.undo(annotator="ann", target=verdict.uuid)
    none = {"slips": None, "doubts": [], "reason": guesses.NO_MODEL}
    assert looks(project) == none


def test_before_the_images_are_known_slips_are_not_computed(project):
    answer = Browser(project).get("/api/second-looks")
    assert answer.status_code == 200
    assert answer.json()["slips"] is None
    assert "still being looked at" in answer.json()["reason"]


def test_near_copies_are_shown_once(tmp_path):
    """Nine crops and brightnesses of a picture count as one; none comes back later."""
    draws = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()

    def save(name, small, crop=(0, 0), factor=1.0):
        large = Image.fromarray(small).resize((36, 36), Image.Resampling.BICUBIC)
        part = large.crop((*crop, crop[0] + 32, crop[1] + 32)).resize((24, 24))
        pixels = np.clip(np.asarray(part, np.float32) * factor, 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}.png")

    for number in range(40):
        save(f"{number:02d}", draws.integers(40, 200, (6, 6), dtype=np.uint8))
    with Project.create(
        tmp_path / "project",
        folder,
        CLASSES,
        trainer=HEAD,
        budget=8,
        audit=0,
        query=8,
        strategy="random",
    ) as project:
        for number, asked in enumerate(project.ask().items):
            project.label(asked.item, CLASSES[number % 2], annotator="ann")
        spoken = {one.item for one in project.store.verdicts()}
        car = draws.integers(40, 200, (6, 6), dtype=np.uint8)
        for number in range(9):
            crop = (2 + number % 3 - 1, 2 + number // 3 - 1)
            save(f"car{number}", car, crop, 0.92 + 0.02 * number)
        project.index()
        shown = [one["item"] for one in review(project)["tiles"]]
        cars = [item for item in shown if item.startswith("car")]
        assert len(cars) == 1
        assert len(shown) == 40 - len(spoken) + 1  # all others are there
        like = [one["item"] for one in review(project, like=cars[0])["tiles"]]
        assert [item for item in like if item.startswith("car")] == cars
        passed = review(project, without=cars)["tiles"]
        assert not any(one["item"].startswith("car") for one in passed)
        confirm(project, cars, "even", annotator="ann")
        labels = [one.item for one in project.store.labels()]
        assert [item for item in labels if item.startswith("car")] == cars
        rest = review(project)["tiles"]
        assert not any(one["item"].startswith("car") for one in rest)


def test_likely_mistakes_are_what_the_model_is_least_sure_about(project):
    doubts = looks(project)["doubts"]
    every = sorted(review(project)["tiles"], key=lambda one: one["sure"])
    assert [one["sure"] for one in doubts] == [
        one["sure"] for one in every[: guesses.MOST_DOUBTS]
    ]
    audit = {o.item for o in project.store.rounds()[0].items if o.role == "audit"}
    assert not audit & {one["item"] for one in doubts}


def test_a_trained_network_does_not_keep_the_page_from_comparing_images(project):
    tiles = review(project, name="odd")["tiles"]
    own = changed(project, trainer=QUICK)  # it has no features
    own.train()
    assert guesses.guess(str(own.folder), allow_code=False)["by"] == "model-000"
    near = review(own, like=tiles[0]["item"])["tiles"]
    assert near[0]["item"] == tiles[0]["item"]
    assert {truth(one["item"]) for one in near[: len(tiles) // 2]} == {"odd"}
    own.close()


def test_guesses_follow_every_label_where_training_takes_no_steps(project):
    own = changed(project, trainer=Choice(name="spreading"))  # it has no features
    own.train()
    assert guesses.guess(str(own.folder), allow_code=False)["by"] == "labels nearby"
    own.close()


def test_without_labels_there_is_no_guess(project):
    for _ in count():
        try:
            project.undo(annotator="ann")
        except UsageError:
            break
    folder = str(project.folder)
    nothing = {"by": None, "counts": {}, "predictions": {"by": None}}
    assert guesses.guess(folder, allow_code=False) == nothing
    assert review(project)["tiles"] == []


def test_the_page_confirms_and_takes_back(project):
    browser = Browser(project)
    browser.session.images._read(None)
    asked = []

    def ask(what, **arguments):
        asked.append(what)
        call = getattr(guesses, what)
        return call(str(project.folder), allow_code=False, **arguments)

    background = browser.guard.app.state.background
    background.ask, background._tasks["features"]["status"] = ask, "done"
    found = browser.post("/api/review", {"name": "even", "count": 4}).json()
    ids = [one["id"] for one in found["tiles"]]
    assert len(ids) == 4
    given = {"uuid": uuid(), "items": ids, "name": "even", "verb": "confirm"}
    assert browser.post("/api/change", given).json()["items"] == ids
    assert browser.session.state()["confirmed"] == 4
    assert browser.session.state()["spent"] == 9
    back = given | {"uuid": uuid(), "undoes": given["uuid"]}
    assert browser.post("/api/change", back).json() == {"items": ids}
    assert browser.session.state()["confirmed"] == 0
    like = browser.post("/api/review", {"like": ids[0], "without": ids[1:2]}).json()
    assert ids[1] not in {one["id"] for one in like["tiles"]}
    assert [(one["id"], "class" in one) for one in like["like"]] == [(ids[0], False)]
    half = {"region": [0, 0, 0.5, 0, 0.5, 1, 0, 1], "count": 100}
    listed = browser.post("/api/browse", half).json()["tiles"]
    near = browser.post("/api/review", {**half, "order": "surest"}).json()
    assert {one["id"] for one in near["tiles"]} < {one["id"] for one in listed}
    assert near["num_all"] == sum(near["counts"].values()) == len(near["tiles"]) > 4
    line = {"region": [0, 0, 1, 1]}
    assert browser.post("/api/review", line).status_code == 422
    told = browser.get("/api/second-looks").json()
    assert told["slips"] == []
    assert {"id", "file", "class", "sure"} <= told["doubts"][0].keys()
    assert asked == ["review", "review", "layout", "review", "second_looks"]
    wrong = {"uuid": uuid(), "items": ids, "verb": "correct"}
    assert browser.post("/api/change", wrong).status_code == 422


def test_before_the_images_are_known_the_review_says_so(project):
    told = Browser(project).post("/api/review", {"name": "even"})
    assert told.status_code == 503
    assert "still being looked at" in told.json()["error"]


def test_the_results_tell_what_is_known_and_what_is_not(project):
    browser = Browser(project)
    told = browser.get("/api/results").json()
    assert told["headline"] == "Accuracy not measured: no model has been trained yet."
    assert told["curve"] == []
    project.train()
    told = browser.get("/api/results").json()
    (point,) = told["curve"]
    assert point["num_labeled"] == 6
    audited = point["audited"]
    accuracy = audited["num_right"] / audited["num_audited"]
    assert 0 <= audited["low"] <= accuracy <= audited["high"] <= 1
    assert [one["name"] for one in told["classes"]] == list(CLASSES)
    assert sum(one["labels"] for one in told["classes"]) == 9  # as everywhere
    assert sum(one["measuring"] for one in told["classes"]) == 3
    assert sum(one["predicted"] for one in told["classes"]) == 30
    assert sum(cell["count"] for cell in told["confusion"]) == 3
    for side in ("recall", "precision"):
        shares = [one[side] for one in told["classes"]]
        assert sum(share["num_audited"] for share in shares) == 3
        assert all(share["low"] <= share["high"] for share in shares)
        assert sum(share["num_right"] for share in shares) == audited["num_right"]
    assert told["model"]["num_labels"] == sum(told["model"]["classes"].values()) == 6
    assert told["num_measuring"] == 3
    project.add_classes(["neither"])
    assert browser.get("/api/results").json()["classes"][2]["predicted"] is None


def test_files_are_listed_again_only_where_images_changed(project, monkeypatch):
    listed, images = [], Project.images

    def counted(self, snapshot):
        listed.append(len(snapshot.items))
        return images(self, snapshot)

    monkeypatch.setattr(Project, "images", counted)
    first, *_ = review(project)["tiles"]
    confirm(project, [first["item"]], first["class"])
    assert first not in review(project)["tiles"]
    assert listed == [30]
    new = project.images_folder / "99.png"
    Image.fromarray(np.full((8, 8), 99, np.uint8)).save(new)
    project.index()
    review(project)
    assert listed == [30, 31]


def test_confirmed_images_come_back_unmarked_and_show_how_often_people_slip(
    project, monkeypatch
):
    monkeypatch.setattr(snapshot, "REPEATED_ONE_IN", 1)
    tiles = [tile["item"] for tile in review(project, name="even", count=4)["tiles"]]
    confirm(project, tiles, "even", annotator="ann")
    project.train()
    project.ask()
    browser = Browser(project)
    shown = browser.lease(3, annotator="ann")
    assert not any("is_repeat" in image for image in shown)  # it is too early
    monkeypatch.setattr(session, "REPEATED_AFTER", 0)
    assert browser.session.state()["spent"] == 9
    for name in ("even", "odd"):
        assert not any("is_repeat" in i for i in browser.lease(3, annotator="bob"))
        (again,) = (i for i in browser.lease(3, annotator="ann") if "is_repeat" in i)
        assert browser.session.images.item(again["id"]) in tiles
        assert again["why"] == shown[-1]["why"]
        last = uuid()
        body = {"item": again["id"], "name": name, "annotator": "ann", "uuid": last}
        for _ in range(2):  # sent again, it counts once
            assert browser.act("repeat", **body).status_code == 200
    assert browser.session.state()["spent"] == 9  # it costs no budget
    told = browser.get("/api/results").json()["repeats"]
    assert (told["num_right"], told["num_audited"]) == (1, 2)
    assert 0 < told["low"] < 0.5 < told["high"] < 1
    assert browser.act("undo", annotator="ann", target=last).status_code == 200
    told = browser.get("/api/results").json()["repeats"]
    assert (told["num_right"], told["num_audited"]) == (1, 1)


def test_without_features_there_is_no_map(project, monkeypatch):
    monkeypatch.setattr(guesses, "_head", lambda _: None)
    monkeypatch.setattr(guesses, "_over_pixels", lambda _: None)
    found = guesses.layout(str(project.folder), allow_code=False)
    assert found == {"reason": guesses.NO_FEATURES}


def test_predictions_and_places_of_all_images_are_sent_as_columns(project):
    folder = str(project.folder)
    columns = guesses.guess(folder, allow_code=False)["predictions"]
    places = guesses.layout(folder, allow_code=False)
    items = [item.id for item in project.store.items()]
    assert columns["items"] == places["items"] == ordered_digest(items)
    parts = [*(columns[key] for key in ("classes", "sure")), *map(places.get, "xy")]
    classes, sure, x, y = (np.frombuffer(b64decode(p), "<u2") for p in parts)
    assert len(classes) == len(sure) == len(x) == len(y) == len(items)
    assert (x.min(), x.max()) == (y.min(), y.max()) == (0, 65_535)
    right = [
        CLASSES[number] == truth(i) for number, i in zip(classes, items, strict=True)
    ]
    assert np.mean(right) > 0.9
    middle = [x[classes == number].mean() for number in (0, 1)]
    assert abs(middle[0] - middle[1]) > 20_000  # light on the left, light on the right
    for verdict in project.store.verdicts():
        project.undo(annotator="ann", target=verdict.uuid)
    guesses._last.clear()
    assert guesses.guess(folder, allow_code=False)["predictions"] == {"by": None}
    assert guesses.layout(folder, allow_code=False) == places  # it needs no labels
