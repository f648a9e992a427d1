"""Nobody but whoever started the page gets anything of it."""

import socket
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from fastapi.testclient import TestClient
from tests.web.pages import HEADERS, TOKEN, uuid

from fewlabels.errors import UsageError
from fewlabels.web import serving
from fewlabels.web.guard import MOST_BYTES, Guard
from fewlabels.web.keys import Keys
from fewlabels.web.serving import check_reach


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
        address = serving._address("127.0.0.1", listener, keys)
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


def test_a_key_that_was_cut_off_is_made_anew(project):
    (project.folder / ".page-key").write_bytes(b"short")
    keys = Keys.of(project.folder)
    assert len((project.folder / ".page-key").read_bytes()) == 32
    assert keys.is_cookie(Keys.of(project.folder).cookie())


def test_another_host_needs_a_token_that_cannot_be_guessed(project):
    for host in ("127.0.0.1", "localhost", "::1"):
        check_reach(host, None)
    with pytest.raises(UsageError, match="other machines can reach the page"):
        check_reach("0.0.0.0", None)
    with pytest.raises(UsageError, match="has 5 characters and could be guessed"):
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


@pytest.fixture
def port(browser, monkeypatch):
    """Serve the page for real, with little patience."""
    monkeypatch.setattr(serving, "_HEADER_SECONDS", 0.3)
    guard = Guard(browser.guard.app, browser.guard.keys, most_seconds=0.3)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        guard, http=serving.Patient, log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def said_to(port, text):
    """Return what a server answers to a client that stops in the middle."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(text.encode())
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_a_slow_client_is_left_alone(port, browser):
    cookie = f"{browser.guard.keys.cookie_name}={browser.guard.keys.cookie()}"
    head = f"Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nx-fewlabels: 1\r\n"
    assert said_to(port, f"POST /api/act HTTP/1.1\r\n{head}") == b""
    slow = f"POST /api/act HTTP/1.1\r\n{head}Content-Length: 100\r\n\r\nabc"
    assert b" 408 " in said_to(port, slow)
    whole = f"GET /api/project HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
    assert b" 200 " in said_to(port, whole)  # it is alive


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
