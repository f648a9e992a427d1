"""Whatever the page's own description allows, and what it does not: never a 500."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.web.pages import HEADERS, TOKEN, Browser

from fewlabels.errors import JobError
from fewlabels.web import background

schemathesis = pytest.importorskip("schemathesis")

ENDLESS = "/api/events"  # it is told for ever; see test_guard and test_work
KINDS = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)


@pytest.fixture
def browser(project, monkeypatch):
    """A page behind which no process is started."""

    def refused(*_, **__):
        raise JobError("Nothing runs in this test.")

    monkeypatch.setattr(background, "start", refused)
    monkeypatch.setattr(background.Worker, "start", refused)
    found = Browser(project)
    found.lease(3)
    return found


def sent(browser, case):
    """Send a request as it was made up, signed in; return what came back."""
    given = case.as_transport_kwargs(base_url="http://127.0.0.1:8800")
    del given["cookies"]
    if "data" in given:
        given["content"] = given.pop("data")
    own = {"authorization": f"Bearer {TOKEN}"} | HEADERS
    given["headers"] = {**given["headers"], **own}
    return browser.client.request(**given)


def tried(browser, operation, kind, num_examples):
    """Send requests to an address as it is described, or not; return the statuses."""
    seen = []

    @settings(
        max_examples=num_examples,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=kind))
    def send(case):
        told = sent(browser, case)
        seen.append(told.status_code)
        assert told.status_code < 500 or told.status_code == 503, told.text

    send()
    return seen


def check(browser, num_examples):
    description = browser.get("/api/openapi.json").json()
    schema = schemathesis.openapi.from_dict(description)
    operations = [one.ok() for one in schema.get_all_operations()]
    assert len(operations) >= 20
    every = []
    for one in operations:
        can_be_wrong = bool(one.body or one.path_parameters)
        for kind in KINDS[: 1 + can_be_wrong] if one.path != ENDLESS else ():
            every += tried(browser, one, kind, num_examples)
    assert {200, 422} <= set(every)
    assert not {401, 403} & set(every)  # all of it went through the guard
    assert browser.get("/api/project").status_code == 200  # it is alive
    return len(every)


def test_what_is_described_gives_no_500(browser):
    check(browser, 2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_is_described_gives_no_500_at_length(browser, record_testsuite_property):
    record_testsuite_property("requests", check(browser, 60))
