"""Nobody but whoever started the page gets anything of it."""

import os
import re
import socket
import time
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from fastapi.testclient import TestClient
from tests.web.pages import HEADERS, TOKEN, uuid

from fewlabels.errors import UsageError
from fewlabels.web import server as server_module
from fewlabels.web.guard import MOST_BYTES, Keys
from fewlabels.web.server import check_reach


def stranger(browser, address="http://127.0.0.1:8800"):
    """Return a client without a cookie."""
    return TestClient(browser.guard, base_url=address)


def test_a_name_of_another_machine_is_refused(browser):
    told = browser.get("/api/project", headers={"host": "evil.example:8800"})
    assert told.status_code == 403
    for host in ("localhost:1234", "127.0.0.1", "[::1]:8800"):
        assert browser.get("/api/project", headers={"host": host}).status_code == 200
    for host in ("", "127.0.0.1.evil.example", "10.0.0.1:8800", "[::1"):
        assert browser.get("/api/project", headers={"host": host}).status_code == 403


def test_a_page_of_another_site_is_refused(browser):
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert browser.get("/api/project", headers=headers).status_code == 403
        assert browser.post("/api/lease", headers=headers).status_code == 403
    own = {"origin": "http://127.0.0.1:8800", "sec-fetch-site": "same-origin"}
    assert browser.post("/api/lease", headers=own).status_code == 200


def test_a_link_to_the_first_page_can_be_followed_from_anywhere(browser):
    link = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site} | link
        client, sign_in = stranger(browser), {"token": TOKEN}
        assert client.get("/", headers=headers).status_code == 401
        for name in link:  # a frame, or a script
            other = headers | {name: "iframe"}
            assert client.get("/", params=sign_in, headers=other).status_code == 403
        assert client.get("/", params=sign_in, headers=headers).status_code == 200
        assert browser.get("/api/project", headers=headers).status_code == 403
        assert browser.post("/", headers=headers).status_code == 403


def test_cookies_of_other_programs_do_no_harm(browser):
    keys = browser.guard.keys
    own = f"{keys.cookie_name}={keys.cookie()}"
    client = stranger(browser)
    for other in ('a={"x":1}', "theme=dark mode", "é", "=", f"{keys.cookie_name}=x"):
        for text in (f"{other}; {own}", f"{own};{other}"):
            headers = {"cookie": text.encode()}
            assert client.get("/api/project", headers=headers).status_code == 200
        assert client.get("/", headers={"cookie": other.encode()}).status_code == 401


def test_the_printed_address_holds_any_token(project):
    token = "a token & more #1+é of /16"
    keys = Keys.of(project.folder, token)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = server_module._address("127.0.0.1", listener, keys.token)
    assert parse_qs(urlsplit(address).query) == {"token": [token]}


def test_a_change_needs_a_header_that_no_form_can_send(browser):
    told = browser.client.post("/api/lease", json={"tab": browser.tab})
    assert told.status_code == 403


def test_without_the_token_there_is_nothing(browser):
    client = stranger(browser)
    for path in ("/", "/static/app.js", "/api/project", "/api/events", "/nothing"):
        assert client.get(path).status_code == 401
    assert client.get("/", params={"token": "another"}).status_code == 401
    assert client.get("/api/project", params={"token": TOKEN}).status_code == 401
    assert client.post("/", params={"token": TOKEN}, headers=HEADERS).status_code == 401


def test_no_address_answers_strangers_or_forms_of_other_sites(browser):
    description = browser.get("/api/openapi.json").json()["paths"]
    new = {"/api/browse", "/api/map", "/api/history", "/api/change", "/api/results"}
    assert new | {"/api/classes", "/api/classes/change", "/api/budget"} <= {
        *description
    }
    client, num_changing = stranger(browser), 0
    for path, methods in description.items():
        place = re.sub("[{}]", "", path)
        for method in methods:
            answer = client.request(method, place, headers=HEADERS)
            assert answer.status_code == 401, path
            if method != "get":
                num_changing += 1
                answer = browser.client.request(method, place, json={})
                assert answer.status_code in {401, 403}, path
    assert num_changing > 15


def test_the_token_becomes_a_cookie_that_scripts_do_not_see(browser):
    told = stranger(browser).get("/", params={"token": TOKEN})
    cookie = told.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie


def test_the_token_of_an_earlier_start_is_void_and_its_cookie_is_not(project):
    first, second = Keys.of(project.folder), Keys.of(project.folder)
    assert first.token != second.token
    assert not second.is_token(first.token)
    assert second.is_cookie(first.cookie())
    assert first.cookie_name == second.cookie_name
    chosen = Keys.of(project.folder, "1234567890abcdef")
    assert not chosen.is_cookie(first.cookie())
    assert (project.folder / ".page-key").stat().st_mode & 0o077 == 0


def test_a_cookie_that_was_changed_or_has_expired_is_void(project):
    keys = Keys.of(project.folder)
    cookie = keys.cookie(now=1000.0)
    assert keys.is_cookie(cookie, now=1001.0)
    assert not keys.is_cookie(cookie, now=1000.0 + 31 * 24 * 3600)
    until, _, signature = cookie.partition(".")
    for wrong in (
        "",
        ".",
        "x",
        until,
        f"{int(until) + 1}.{signature}",
        f"é.{signature}",
    ):
        assert not keys.is_cookie(wrong, now=1001.0)


def _cut_off(path, _):
    path.write_bytes(b"short")


def _too_long(path, _):
    path.write_bytes(b"x" * 33)


def _readable_to_others(path, _):
    path.chmod(0o640)


def _of_somebody_else(path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 12345)


def _a_link(path, _):
    path.rename(path.with_name("planted"))
    path.symlink_to(path.with_name("planted"))


def _a_pipe(path, _):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil",
    [_cut_off, _too_long, _readable_to_others, _of_somebody_else, _a_link, _a_pipe],
)
def test_a_key_that_others_may_know_or_have_made_is_replaced(
    project, monkeypatch, spoil
):
    path = project.folder / ".page-key"
    known = Keys.of(project.folder)
    assert Keys.of(project.folder).is_cookie(known.cookie())
    spoil(path, monkeypatch)
    fresh = Keys.of(project.folder)
    assert not fresh.is_cookie(known.cookie())
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes()) == 32


def test_a_ticket_opens_the_page_once_and_not_for_long(browser, monkeypatch):
    keys = browser.guard.keys
    ticket = keys.ticket()
    assert ticket != keys.token
    answers = [stranger(browser).get("/", params={"token": ticket}) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 401]
    late = keys.ticket()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 301)
    assert not keys.is_token(late)


def test_no_address_with_the_token_reaches_the_browser_or_its_history(
    project, monkeypatch
):
    seen = {}

    def ready(address, launch):
        path = launch()
        text = path.read_text()
        found = re.search(r'href="([^"]+)"', text)[1]
        seen.update(address=address, text=text, token=parse_qs(urlsplit(found).query))
        seen["mode"] = path.stat().st_mode & 0o777

    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    server_module.serve(project.folder, on_ready=ready)
    (token,) = parse_qs(urlsplit(seen["address"]).query)["token"]
    assert token not in seen["text"]
    assert seen["token"]["token"] != [token]
    assert seen["mode"] == 0o600
    assert not (project.folder / "open-page.html").exists()


def test_another_host_needs_a_token_that_cannot_be_guessed(project):
    for host in ("127.0.0.1", "localhost", "::1"):
        check_reach(host, None)
    with pytest.raises(UsageError, match="Other machines reach"):
        check_reach("0.0.0.0", None)
    with pytest.raises(UsageError, match="token has 5 characters; give at least 16"):
        Keys.of(project.folder, "12345")


def test_every_answer_forbids_what_comes_from_elsewhere(browser):
    for told in (browser.get("/"), browser.get("/nothing"), stranger(browser).get("/")):
        policy = told.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert told.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in told.headers


def test_a_huge_body_is_refused(browser):
    size = MOST_BYTES + 1
    told = browser.client.post("/api/act", content=b" " * size, headers=HEADERS)
    assert told.status_code == 413
    parts = (b" " * 1000 for _ in range(size // 1000 + 1))  # without a length
    told = browser.client.post("/api/act", content=parts, headers=HEADERS)
    assert told.status_code == 413
    false = HEADERS | {"content-length": "-1"}
    assert browser.client.post("/api/act", headers=false).status_code == 413


def test_nothing_but_http_is_spoken(browser):
    sent = []

    async def send(message):
        sent.append(message)

    async def called():
        await browser.guard({"type": "websocket"}, None, send)

    with pytest.raises(StopIteration):
        called().send(None)
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_tab_that_stays_signs_in_only_once(browser):
    assert browser.post("/api/stay", {"tab": uuid()}).status_code == 200
    assert "set-cookie" not in browser.get("/").headers
