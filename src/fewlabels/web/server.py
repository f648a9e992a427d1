"""The server of the page: one process, one project, on this machine by default."""

import logging
import os
import socket
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from errno import EADDRNOTAVAIL
from html import escape
from pathlib import Path
from threading import Thread, Timer
from typing import Any
from urllib.parse import quote
from zlib import crc32

import h11
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from fewlabels.errors import UsageError
from fewlabels.jobs import Event, error_of
from fewlabels.names import AllowCode
from fewlabels.projects import Project
from fewlabels.projects.settings import FILE
from fewlabels.web.app import make_app
from fewlabels.web.background import Background, StateBroadcaster
from fewlabels.web.guard import JOIN, KEY_FILE, LOOPBACK, Guard, Keys, write_private
from fewlabels.web.session import Session

_FIRST_PORT, _NUM_PORTS = 8800, 200
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognized, not chosen
_HEAD_SECONDS = 10.0
_MOST_WITHOUT_SESSION = 128
_MOST_PER_SESSION = 60  # a browser has six, and one more for each tab that listens
_MOST_CONNECTIONS = 200  # of all sessions together
# As many are accepted at once. It takes four times as many to push out a connection
# that has just been accepted, so a head that was sent at once is read before.
_BACKLOG = _MOST_WITHOUT_SESSION // 4
_MOST_SECONDS_TO_END = 4.0  # for all that goes on after Ctrl-C
_NOT_HERE = frozenset(
    {EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_FAIL}
)  # what the system says of an address that this machine does not have
_INTERVAL = 0.1  # seconds between two looks whether it was pressed
_FAREWELL = 3.0  # seconds in which open pages learn why there is no project
_LAUNCH = "open-page.html"
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={address}">
<title>fewlabels</title>
<p><a href="{address}">Open the labeling page</a></p>
"""


class TimeoutProtocol(H11Protocol):
    """HTTP with a deadline for each request head, and places kept for sessions.

    A connection waits without a session until the guard has seen its token or cookie.
    Connections with a session are counted by session and never closed for others. Of
    those without, the oldest is closed when there are too many.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.session: str | None = None
        self._deadline: TimerHandle | None = None
        self.app_state = {**self.app_state, JOIN: self.join}

    def connection_made(self, transport: Any) -> None:
        """Set the first deadline; close the oldest of too many without a session."""
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._watch_head()
        without = [peer for peer in self._peers() if peer.session is None]
        if len(without) > _MOST_WITHOUT_SESSION:
            oldest = min(without, key=lambda peer: peer._opened)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take data; a head that has begun has to be complete before its deadline."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def join(self, session: str) -> bool:
        """Count this connection to a session; return whether there is room for it."""
        if self.session is None:
            sessions = Counter(peer.session for peer in self._peers() if peer.session)
            is_full = sessions.total() >= _MOST_CONNECTIONS
            if is_full or sessions[session] >= _MOST_PER_SESSION:
                return False
            self.session = session
        return True

    def _peers(self) -> list[Any]:
        """Return all open connections of this server."""
        peers: Iterable[Any] = self.connections
        return [peer for peer in peers if not peer.transport.is_closing()]

    def _watch_head(self) -> None:
        """Keep a deadline while a request head is incomplete, and only then."""
        if self.conn.their_state is not h11.IDLE:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)


LIMITS: dict[str, Any] = {
    "http": TimeoutProtocol,
    "ws": "none",
    "backlog": _BACKLOG,
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": 2,
    "h11_max_incomplete_event_size": 32 * 1024,
    "log_level": "warning",
    "access_log": False,  # it would write the token down
    "server_header": False,
    "proxy_headers": False,
}
"""Settings of the server that bound what a client can take and learn."""


def run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Run a server until it is stopped, and then for a few seconds at most.

    Threads of requests may wait for a store or read a large file. They are daemons,
    like the thread that starts them, so the process does not wait for them. A write
    that is cut off is complete or absent.
    """
    thread = Thread(target=server.run, args=([listener],), daemon=True)
    with server.capture_signals():
        thread.start()
        while thread.is_alive() and not server.should_exit:
            thread.join(_INTERVAL)
        # Requests that are cut off now are no errors to report.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        thread.join(_MOST_SECONDS_TO_END)


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    allow_code: AllowCode = False,
    creation: Mapping[str, Any] | None = None,
    on_ready: Callable[[str, Callable[[], Path]], object],
    on_created: Callable[[dict[str, Any]], object] = lambda _: None,
) -> None:
    """Serve the page of a project until somebody stops it.

    Args:
        folder: The project's.
        host: Address to listen at; another than this machine's own needs a token.
        port: Port to listen at; None: one that the project has kept so far.
        token: What people sign in with; None: a new one.
        allow_code: Which import paths ``project.json`` may name.
        creation: What :func:`fewlabels.web.work.begin` needs to create the project
            while the page is open; None: it exists. If the creation fails, pages
            show why, and the same error is raised here.
        on_ready: Called with the address to open, when it can be opened, and with what
            makes a file that leads there: no other user of the machine can read it,
            and its address is void once it was used.
        on_created: Called with what the creation returned.
    """
    check_reach(host, token)
    with ExitStack() as stack:
        project = None
        if creation is None:
            project = stack.enter_context(Project.open(folder, allow_code=allow_code))
            if project.settings.images is None:
                raise UsageError("The project has rows, no images; use ask and tell.")
        else:
            stack.enter_context(_new_folder(folder))
        keys = Keys.of(folder, token)
        listener = stack.enter_context(listen(host, port, folder))
        background = Background(folder, allow_code=allow_code, creation=creation)
        guard = guarded(page_app(project, background), keys, host)
        server = uvicorn.Server(uvicorn.Config(guard, **LIMITS))
        app: Any = guard.app
        app.state.broadcaster.is_stopping = lambda: server.should_exit
        failures: list[Event] = []

        def open_project(end: Event) -> None:
            if end["event"] != "done":
                failures.append(end)
                Timer(_FAREWELL, setattr, (server, "should_exit", True)).start()
                return
            new = stack.enter_context(Project.open(folder, allow_code=allow_code))
            app.state.session.open(new)
            app.state.broadcaster.open()
            on_created(end["result"])

        background.on_created = open_project
        own = folder / _LAUNCH

        def launch() -> Path:
            address = escape(_address(host, listener, keys.ticket()))
            write_private(own, _PAGE.format(address=address).encode())
            return own

        try:
            on_ready(_address(host, listener, keys.token), launch)
            run(server, listener)
        finally:
            own.unlink(missing_ok=True)
        if failures:
            raise error_of(failures[0])


def page_app(project: Project | None, background: Background) -> FastAPI:
    """Return the application of a project, whose parts tell each other of changes."""
    session = Session(project)
    broadcaster = StateBroadcaster(
        lambda: session.state() | {"jobs": background.status()}, background.consider
    )
    background.on_change = broadcaster.notify
    session.on_shortage = background.want_images
    return make_app(session, background, broadcaster)


def guarded(app: ASGIApp, keys: Keys, host: str, **bounds: Any) -> Guard:
    """Return an application with a guard in front of it.

    Args:
        app: The application.
        keys: What lets people in.
        host: The address that it listens at; only requests to this name are let in.
        **bounds: Further fields of the :class:`Guard`.

    Returns:
        The guard.
    """
    is_open = host in _EVERYWHERE
    names = {host.lower()} | ({socket.gethostname().lower()} if is_open else set())
    served = frozenset(names - _EVERYWHERE)
    return Guard(app, keys, served, any_address=is_open, **bounds)


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Make the folder of a new project; without one in the end, remove it again."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"'{folder}' cannot be made: {error.strerror}. Give another folder."
        ) from error
    try:
        yield
    finally:
        if not (folder / FILE).exists():
            (folder / KEY_FILE).unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it
                folder.rmdir()


def check_reach(host: str, token: str | None) -> None:
    """Raise if other machines could reach the page and nobody chose a token."""
    if host not in LOOPBACK and not token:
        raise UsageError(
            f"Other machines reach '{host}': put a token of 16 characters or more into "
            "FEWLABELS_TOKEN. Nothing is encrypted; an SSH tunnel is safer."
        )


def listen(host: str, port: int | None, folder: Path) -> socket.socket:
    """Return a socket that listens at a port; None: the project's usual one if free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    usual = _FIRST_PORT + crc32(str(folder.resolve()).encode()) % _NUM_PORTS
    ports = [usual, 0] if port is None else [port]
    reason, advice = "", "try another port"
    for number in ports:
        try:
            listener = socket.create_server((host, number), family=family)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            if error.errno in _NOT_HERE:
                reason = "it is not an address of this machine"
                advice = "give one of its own, or 0.0.0.0 for all of them"
        else:
            # Connections inherit it; without it every answer takes 40 ms more, since
            # its content would wait until the browser has confirmed the headers.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
    raise UsageError(f"Cannot listen at {host}:{ports[0]}: {reason}; {advice}.")


def _address(host: str, listener: socket.socket, token: str) -> str:
    shown = socket.gethostname() if host in _EVERYWHERE else host
    named = f"[{shown}]" if ":" in shown else shown
    port = listener.getsockname()[1]
    return f"http://{named}:{port}/?token={quote(token, safe='')}"
