"""The server of the page: one process, one project, this machine unless told so."""

import os
import socket
from collections import Counter
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote
from zlib import crc32

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fewlabels.errors import UsageError
from fewlabels.naming import AllowCode
from fewlabels.projects import Project
from fewlabels.web.app import make_app
from fewlabels.web.background import Background
from fewlabels.web.board import Board
from fewlabels.web.desk import Desk
from fewlabels.web.guard import LOOPBACK, Guard
from fewlabels.web.keys import Keys, write_private

_FIRST_PORT, _NUM_PORTS = 8800, 200
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognized, not chosen
_HEADER_SECONDS = 10.0
_MOST_CONNECTIONS = 200
_MOST_FROM_ONE = 60  # a browser has six, and one more for each tab that listens
_LAUNCH = "open-page.html"
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={address}">
<title>fewlabels</title>
<p><a href="{address}">Open the labeling page</a></p>
"""


class Patient(H11Protocol):
    """HTTP that waits only so long for a client, and lets none take all places."""

    open_from: ClassVar[Counter[str]] = Counter()
    """Connections of each address."""

    def connection_made(self, transport: Any) -> None:
        """Set a time by which the first request has to be there."""
        super().connection_made(transport)
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self.open_from[self._address] += 1
        if self.open_from[self._address] > _MOST_FROM_ONE:
            transport.close()
            return
        self.loop.call_later(_HEADER_SECONDS, self._leave_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place of a connection to another."""
        super().connection_lost(exc)
        self.open_from[self._address] -= 1
        if not self.open_from[self._address]:
            del self.open_from[self._address]

    def _leave_if_silent(self) -> None:
        transport: Any = self.transport
        if not self._has_begun and not transport.is_closing():
            transport.close()

    @property
    def _has_begun(self) -> bool:
        """Whether the head of a request has arrived."""
        return bool(getattr(self, "cycle", None))


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    allow_code: AllowCode = False,
    on_ready: Callable[[str, Callable[[], Path]], object],
) -> None:
    """Serve the page of a project until somebody stops it.

    Args:
        folder: The project's.
        host: Address to listen at; another than this machine's own needs a token.
        port: Port to listen at; None: one that the project has kept so far.
        token: What people sign in with; None: a new one.
        allow_code: Which import paths ``project.json`` may name.
        on_ready: Called with the address to open, when it can be opened, and with what
            makes a file that leads there: no other user of the machine can read it,
            and what it tells the browser is void afterwards.
    """
    check_reach(host, token)
    keys = Keys.of(folder, token)
    with (
        Project.open(folder, allow_code=allow_code) as project,
        _listening(host, port, folder) as listener,
    ):
        _check_pictures(project)
        guard = guarded(project, keys, host, allow_code=allow_code)
        config = uvicorn.Config(
            guard,
            http=Patient,
            ws="none",
            log_level="warning",
            access_log=False,  # it would write the token down
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=32 * 1024,
        )
        server = uvicorn.Server(config)
        app: Any = guard.app
        app.state.board.is_stopping = lambda: server.should_exit
        own = folder / _LAUNCH

        def launch() -> Path:
            told = escape(_address(host, listener, keys.ticket()))
            write_private(own, _PAGE.format(address=told).encode())
            return own

        try:
            on_ready(_address(host, listener, keys.token), launch)
            server.run(sockets=[listener])
        finally:
            own.unlink(missing_ok=True)


def guarded(
    project: Project, keys: Keys, host: str, *, allow_code: AllowCode = False
) -> Guard:
    """Return the application of a project with a guard in front of it."""
    background = Background(project.folder, allow_code=allow_code)
    desk = Desk(project)
    board = Board(
        lambda: desk.state() | {"jobs": background.told()}, background.consider
    )
    desk.on_change = background.on_change = board.stir
    is_open = host in _EVERYWHERE
    names = {host.lower()} | ({socket.gethostname().lower()} if is_open else set())
    app = make_app(desk, background, board)
    return Guard(app, keys, frozenset(names - _EVERYWHERE), any_address=is_open)


def check_reach(host: str, token: str | None) -> None:
    """Raise if other machines could reach the page and nobody chose a token."""
    if host not in LOOPBACK and not token:
        raise UsageError(
            f"At '{host}' other machines can reach the page, so it needs a token that "
            "you choose, of at least 16 characters. What is sent is not encrypted: in "
            "a network that you do not trust, leave the host out and use an SSH "
            "tunnel."
        )


def _check_pictures(project: Project) -> None:
    if project.settings.images is None:
        raise UsageError(
            "The project has rows and no images, so there is nothing to look at on a "
            "page. Label the rows in a file: ask, then tell."
        )


def _listening(host: str, port: int | None, folder: Path) -> socket.socket:
    """Return a socket at a port; without one, at the port of the project if free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    usual = _FIRST_PORT + crc32(str(folder.resolve()).encode()) % _NUM_PORTS
    ports = [usual, 0] if port is None else [port]
    reason = ""
    for number in ports:
        try:
            return socket.create_server((host, number), family=family)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
    raise UsageError(
        f"Nobody can listen at {host}, port {ports[0]}: {reason}. Give another port, "
        "or another host."
    )


def _address(host: str, listener: socket.socket, token: str) -> str:
    shown = socket.gethostname() if host in _EVERYWHERE else host
    named = f"[{shown}]" if ":" in shown else shown
    told = quote(token, safe="")
    return f"http://{named}:{listener.getsockname()[1]}/?token={told}"
