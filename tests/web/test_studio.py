"""People who stay in Label Studio: the four addresses that it calls."""

import json
from base64 import b64encode

import pytest
from fastapi.testclient import TestClient
from tests.projects.toy import begin, num_events, truth
from tests.web.pages import TOKEN, Browser

from fewlabels.experiments.settings import Choice
from fewlabels.web import guesses

HEAD = Choice(name="frozen-linear", options={"encoder": "pixels"})
CONFIG = (
    '<View><Choices name="kind" toName="photo"><Choice value="odd"/></Choices></View>'
)


def basic(password, name="anybody"):
    return {
        "authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"
    }


class Studio:
    """Label Studio, as far as it speaks to a backend: JSON by requests, no cookies."""

    def __init__(self, project):
        self.browser = Browser(project)
        self.client = TestClient(self.browser.guard, base_url="http://127.0.0.1:8800")
        self.background = self.browser.guard.app.state.background
        self.folder = str(project.folder)

    def guesses(self):
        """Let the job behind the page predict all images."""
        made = guesses.guess(self.folder, allow_code=False)
        self.background.predictions = made["predictions"]

    def post(self, path, body, **headers):
        return self.client.post(path, json=body, headers=basic(TOKEN) | headers)

    def tells(self, task, choice, action="ANNOTATION_CREATED", **more):
        value = {"type": "choices", "value": {"choices": [choice]}}
        annotation = {"id": 7, "completed_by": {"id": 1, "email": "ann@example.org"}}
        annotation |= {"result": [value], "lead_time": 1.5, **more}
        told = {"action": action, "task": task, "annotation": annotation}
        return self.post("/webhook", told | {"project": {"id": 1}})


@pytest.fixture
def studio(project):
    return Studio(project)


def tasks(project, asked, path):
    """Return the tasks that ``ask`` writes for Label Studio, once imported."""
    found = json.loads(project.write_query(asked, path).read_text())
    return [{"id": 100 + n, "data": one["data"]} for n, one in enumerate(found)]


def test_only_a_program_with_the_token_gets_an_answer(studio):
    client = studio.client
    good = client.get("/health", headers=basic(TOKEN))
    assert good.json() == {"status": "UP", "model_class": "fewlabels"}
    own = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/health", headers=own).status_code == 200
    for wrong in (
        {},
        basic("another"),
        basic("", name=TOKEN),
        {"authorization": TOKEN},
        {"authorization": f"Digest {TOKEN}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Basic ???"},
        {"authorization": "Basic /w=="},
    ):
        told = client.get("/health", headers=wrong)
        assert told.status_code == 401
        assert "www-authenticate" not in told.headers  # no browser asks its user
    for from_a_browser in (
        {"origin": "http://127.0.0.1:8800"},
        {"sec-fetch-site": "none"},
        {"host": "evil.example"},
    ):
        headers = basic(TOKEN) | from_a_browser
        assert client.get("/health", headers=headers).status_code == 403
        assert client.post("/webhook", json={}, headers=headers).status_code == 403
    assert studio.browser.get("/health").status_code == 401  # a cookie does not do
    assert client.get("/api/project", headers=basic(TOKEN)).status_code == 401


def test_annotations_become_labels_and_are_changed(project, studio, tmp_path):
    first, second, *_ = tasks(project, project.ask(), tmp_path / "round.json")
    before = studio.post("/setup", {"project": "1.5", "schema": CONFIG}).json()
    assert studio.tells(first, "odd").json() == {"taken": 1}
    after = studio.post("/setup", {"project": "1.5", "schema": CONFIG}).json()
    assert before != after  # so that it asks for new predictions
    (label,) = project.store.labels()
    assert (label.annotator, label.class_number) == ("ann@example.org", 1)
    assert studio.tells(first, "odd").json() == {"taken": 0}
    assert studio.tells(first, "even", "ANNOTATION_UPDATED").json() == {"taken": 1}
    assert project.store.labels()[0].class_number == 0
    skipped = studio.tells(second, "odd", was_cancelled=True)
    assert skipped.status_code == 201
    assert [one.kind for one in project.store.verdicts()].count("skip") == 1
    assert studio.browser.session.state()["spent"] == 1


def test_what_cannot_be_taken_is_said_and_changes_nothing(project, studio, tmp_path):
    first, *_ = tasks(project, project.ask(), tmp_path / "round.json")
    asked = {one.item for one in project.store.rounds()[0].items}
    other = next(one for one in project.store.items() if one.id not in asked)
    before = num_events(project)
    for task, choice, told in (
        (first, "neither", "there is no class 'neither'"),
        ({"data": {"file_name": other.path}}, "odd", "nobody asked about"),
        ({"data": {"file_name": "../../etc/passwd"}}, "odd", "there is no image"),
        ({"data": {}}, "odd", "names no image"),
    ):
        answer = studio.tells(task, choice)
        assert answer.status_code == 422
        assert told in answer.json()["error"]
        assert "/tmp" not in answer.json()["error"]
    deleted = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 7}]}
    assert studio.post("/webhook", deleted).json() == {"taken": 0}
    assert num_events(project) == before


def test_predictions_for_what_does_not_measure(tmp_path):
    with begin(tmp_path, trainer=HEAD) as project:
        studio = Studio(project)
        audited = tasks(project, project.ask(), tmp_path / "0.json")
        for task in audited:
            studio.tells(task, truth(task["data"]["file_name"]))
        with pytest.warns(UserWarning, match="no model"):
            asked = project.ask()
        assert all(one.role == "query" for one in asked.items)
        fresh = tasks(project, asked, tmp_path / "1.json")
        by_address = {"data": {"image": fresh[1]["data"]["image"]}}
        stranger = {"data": {"image": "/data/upload/1/x.png"}}
        wish = [fresh[0], by_address, audited[0], stranger]
        told = studio.post("/predict", {"tasks": wish}).json()
        assert [one["result"] for one in told["results"]] == [[]] * 4
        studio.guesses()
        told = studio.post("/predict", {"tasks": wish, "label_config": CONFIG}).json()
        results = told["results"]
        assert len(results) == 4
        names = [one.name for one in project.store.classes()]
        for one in results[:2]:
            (choice,) = one["result"]
            assert (choice["from_name"], choice["to_name"]) == ("kind", "photo")
            assert choice["value"]["choices"][0] in names
            assert 0 < one["score"] <= 1
        assert [one["result"] for one in results[2:]] == [[], []]
        assert {one["model_version"] for one in results} == {told["model_version"]}


def test_it_may_start_a_training(studio, monkeypatch):
    begun = []
    monkeypatch.setattr(studio.background, "train", lambda: begun.append(1))
    told = studio.post("/webhook", {"action": "START_TRAINING", "project": {"id": 1}})
    assert told.status_code == 201
    assert begun == [1]
    assert studio.post("/webhook", {"action": "PROJECT_UPDATED"}).status_code == 201
    assert begun == [1]


def test_a_hundred_tasks_fit_in_a_request_and_no_more_than_that(studio):
    many = [{"data": {"image": "x", "text": "y" * 5_000}} for _ in range(100)]
    assert studio.post("/predict", {"tasks": many}).status_code == 200
    assert studio.post("/predict", {"tasks": [{}] * 1001}).status_code == 422
    huge = studio.client.post(
        "/webhook", content=b" " * (8 * 2**20 + 1), headers=basic(TOKEN)
    )
    assert huge.status_code == 413
