"""A project behind its guard, and what a browser would send."""

from uuid import uuid4

from fastapi.testclient import TestClient

from fewlabels.web.background import Background
from fewlabels.web.guard import Guard, Keys
from fewlabels.web.server import guarded, page_app

TOKEN = "a token for the tests alone"
HEADERS = {"x-fewlabels": "1"}


def uuid():
    return str(uuid4())


class Browser:
    """A tab that has signed in; nothing runs behind the page."""

    def __init__(self, project, *, token=TOKEN, host="127.0.0.1"):
        keys = Keys.of(project.folder, token)
        background = Background(project.folder)
        self.guard: Guard = guarded(page_app(project, background), keys, host)
        self.session = self.guard.app.state.session
        self.tab = uuid()
        self.client = TestClient(self.guard, base_url="http://127.0.0.1:8800")
        answer = self.client.get("/", params={"token": token})
        assert answer.status_code == 200

    def get(self, path, **options):
        return self.client.get(path, **options)

    def post(self, path, body=None, **options):
        headers = HEADERS | options.pop("headers", {})
        told = {"tab": self.tab, **(body or {})}
        return self.client.post(path, json=told, headers=headers, **options)

    def lease(self, count=3, **more):
        return self.post("/api/lease", {"count": count, **more}).json()["items"]

    def act(self, verb, **more):
        return self.post("/api/act", {"uuid": uuid(), "verb": verb, **more})
