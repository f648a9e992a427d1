"""The server of the page gives places and time to sessions first."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest
import uvicorn

from fewlabels.errors import UsageError
from fewlabels.web import app as web_app
from fewlabels.web import server as server_module
from fewlabels.web.guard import Guard


def serve(stack, guard):
    """Serve an application like the page, and return its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    options = server_module.LIMITS | {"log_level": "error", "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(guard, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()

    def stop():
        server.should_exit = True
        thread.join()

    stack.callback(stop)
    return listener.getsockname()[1]


@pytest.fixture
def page(browser):
    """Serve the page; return its port and the head of a request with a cookie."""
    guard = Guard(browser.guard.app, browser.guard.keys, most_seconds=0.3)
    with ExitStack() as stack:
        port = serve(stack, guard)
        yield port, head(port, browser.guard.keys)
        browser.guard.app.state.broadcaster.close()  # whoever listens goes


def head(port, keys):
    cookie = f"{keys.cookie_name}={keys.cookie()}"
    return f"Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nx-fewlabels: 1\r\n"


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def read_all(client):
    """Return what a server says until it closes the connection."""
    return b"".join(iter(lambda: client.recv(4096), b""))


def request(port, text):
    """Return the answer to a request, and nothing if the connection is cut off."""
    with suppress(ConnectionError), connect(port) as client:
        client.sendall(text.encode())
        return read_all(client)
    return b""


def is_closed(client):
    """Return whether a server has closed a connection."""
    client.settimeout(5)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_a_slow_request_is_cut_off(page, monkeypatch):
    monkeypatch.setattr(server_module, "_HEAD_SECONDS", 0.3)
    port, own = page
    assert request(port, f"POST /api/act HTTP/1.1\r\n{own}") == b""
    slow = f"POST /api/act HTTP/1.1\r\n{own}Content-Length: 100\r\n\r\nabc"
    assert b" 408 " in request(port, slow)
    whole = f"GET /api/project HTTP/1.1\r\n{own}Connection: close\r\n\r\n"
    assert b" 200 " in request(port, whole)  # it is alive


def test_a_later_head_on_the_same_connection_may_not_drip(page, monkeypatch):
    monkeypatch.setattr(server_module, "_HEAD_SECONDS", 0.3)
    port, own = page
    with connect(port) as client:
        for _ in range(2):  # waiting between two requests is no drip
            client.sendall(f"HEAD /api/project HTTP/1.1\r\n{own}\r\n".encode())
            assert b"HTTP/1.1 " in client.recv(4096)
            time.sleep(0.5)
        begun = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() < begun + 10:
                client.sendall(b"G" * 2)
                time.sleep(0.1)
            pytest.fail("The server listened to an endless head.")


async def _connect_again_and_again(port, text, is_over):
    while not is_over.is_set():
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(text)
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), 0.5)
            writer.close()


class Crowd:
    """Many clients without a token that connect again whenever they are closed."""

    def __init__(self, port, number):
        self._port, self._number = port, number
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self):
        texts = (b"", b"GET / HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\n\r\n", b"?")
        clients = (
            _connect_again_and_again(self._port, texts[i % len(texts)], self._is_over)
            for i in range(self._number)
        )
        await asyncio.gather(*clients)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()


def test_clients_without_a_token_cannot_lock_out_the_page(page):
    port, own = page
    whole = f"GET /api/project HTTP/1.1\r\n{own}Connection: close\r\n\r\n"
    with connect(port) as kept:
        kept.sendall(f"GET /api/events HTTP/1.1\r\n{own}\r\n".encode())
        assert b" 200 " in kept.recv(4096)
        with Crowd(port, 100):
            time.sleep(0.5)
            answers = [request(port, whole) for _ in range(40)]
        kept.setblocking(False)
        with suppress(BlockingIOError):
            assert kept.recv(4096)  # it is still open
    assert all(b" 200 " in answer for answer in answers)


def test_the_oldest_connection_without_a_session_makes_room(page, monkeypatch):
    monkeypatch.setattr(server_module, "_MOST_WITHOUT_SESSION", 2)
    port, own = page
    with ExitStack() as stack:
        kept = stack.enter_context(connect(port))
        kept.sendall(f"HEAD /api/project HTTP/1.1\r\n{own}\r\n".encode())
        assert b"HTTP/1.1 " in kept.recv(4096)
        silent = [stack.enter_context(connect(port)) for _ in range(3)]
        assert is_closed(silent[0])
        for client in (kept, *silent[1:]):
            client.sendall(f"HEAD /api/project HTTP/1.1\r\n{own}\r\n".encode())
            assert b"HTTP/1.1 " in client.recv(4096)


def test_a_session_has_so_many_connections_and_leaves_the_others_theirs(
    page, browser, monkeypatch
):
    monkeypatch.setattr(server_module, "_MOST_PER_SESSION", 2)
    port, own = page
    keys = browser.guard.keys
    other = own.replace(keys.cookie(), keys.cookie(now=time.time() - 100))
    text = "HEAD /api/project HTTP/1.1\r\n"

    def status(client, cookie):
        client.sendall(f"{text}{cookie}\r\n".encode())
        return client.recv(4096).split()[1]

    with ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(4)]
        assert [status(client, own) for client in clients[:3]] == [
            b"405",
            b"405",
            b"503",
        ]
        assert status(clients[3], other) == b"405"
        clients[0].close()
        end = time.monotonic() + 10
        while b" 405 " not in request(port, f"{text}{own}Connection: close\r\n\r\n"):
            assert time.monotonic() < end


def test_no_more_listen_than_the_limit_says(page, monkeypatch):
    monkeypatch.setattr(web_app, "_MOST_LISTENERS", 5)
    port, own = page
    text = f"GET /api/events HTTP/1.1\r\n{own}\r\n".encode()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(port)) for _ in range(20)]
        for client in clients:
            client.sendall(text)
        codes = [client.recv(4096).split()[1] for client in clients]
        assert (codes.count(b"200"), codes.count(b"503")) == (5, 15)
    end = time.monotonic() + 10
    while True:  # whoever goes makes room
        with connect(port) as client:
            client.sendall(text)
            if client.recv(4096).split()[1] == b"200":
                return
        assert time.monotonic() < end


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
def test_a_host_that_is_not_here_is_not_a_question_of_the_port(host, tmp_path):
    with pytest.raises(
        UsageError, match="not an address of this machine; give one of its own"
    ):
        server_module.listen(host, None, tmp_path)


def test_the_content_of_an_answer_does_not_wait_for_its_headers(tmp_path):
    with (
        server_module.listen("127.0.0.1", 0, tmp_path) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
