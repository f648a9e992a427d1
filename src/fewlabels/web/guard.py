"""The guard: checks each request before anything else sees it.

A server on this machine can be reached by every web page that its owner visits. So a
request must name a host that is this machine (else a foreign name may have been made to
point here), must not come from another site (unless somebody follows a link to the
first page), and must bring a cookie that only the printed address gives. Its body is
read here, bounded in size and time, and every answer carries headers that let a browser
load nothing from elsewhere.

A token in the printed address becomes a cookie, signed by a key. The token is new with
each start, unless somebody chose one. The key stays in the project's folder, readable
to its owner alone, so that a browser need not sign in again after a restart.
"""

import asyncio
import hmac
import os
import secrets
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse

from fewlabels.errors import check_range
from fewlabels.files import open_regular, replace_file

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

MOST_BYTES = 256 * 1024
"""Largest body of a request."""
MOST_SECONDS = 10.0
"""Time that a body may take to arrive."""
JOIN = "fewlabels.join"
"""Key of a scope: what counts its connection to a session, if there is room."""
HEADER = "x-fewlabels"
"""Every change has to carry it; no form and no other site can send it."""
PROGRAMS = frozenset({"/health", "/setup", "/predict", "/webhook"})
"""What Label Studio calls, never a browser; it brings the token each time."""
MOST_PROGRAM_BYTES = 8 * 1024 * 1024
"""Largest body of such a request: a hundred tasks with all that belongs to them."""

UPLOADS = frozenset({"/api/import"})
"""Where the page sends a file."""
MOST_UPLOAD_BYTES = 20 * 1024 * 1024
"""Largest such file."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
KEY_FILE = ".page-key"
"""Where a project's folder keeps the signing key."""
LEAST_TOKEN = 16
"""Characters that a token must have at least."""

_KEY_BYTES = 32
_LIFETIME = 30 * 24 * 3600  # seconds
_TICKET_SECONDS = 300.0  # a browser may be slow to begin
_OTHERS = 0o077  # what anybody but the owner may do with a file

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_SAFE = frozenset({"GET", "HEAD"})
_FOR_PROGRAMS = (
    "This address is for Label Studio, which has to sign in: basic authentication with "
    "any user name, and the token of the page as its password."
)
_SIGN_IN = (
    "This page is for whoever started it. Open the address that the command printed, "
    "which ends in ?token=..., in this browser."
)


@dataclass(frozen=True)
class Keys:
    """A token, and the key that signs cookies."""

    token: str
    key: bytes
    _tickets: dict[str, float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, folder: Path, token: str | None = None) -> "Keys":
        """Return the keys of the project in a folder.

        Args:
            folder: Where the signing key is kept.
            token: What people sign in with, and all that lets them in: cookies that
                another token has given are void. None: a new one.

        Returns:
            The keys.
        """
        if token is not None:
            check_range("The length of the token", len(token), at_least=LEAST_TOKEN)
        kept = _signing_key(folder / KEY_FILE)
        key = sha256(kept + (token or "").encode()).digest()
        return cls(token or secrets.token_urlsafe(24), key)

    @property
    def cookie_name(self) -> str:
        """Name of the cookie; browsers share cookies between ports of a host."""
        digest = blake2b(self.key, digest_size=4, person=b"name").hexdigest()
        return f"fewlabels-{digest}"

    def ticket(self) -> str:
        """Return a ticket that replaces the token once, within five minutes."""
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = time.monotonic() + _TICKET_SECONDS
        return ticket

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, or a ticket, which is then used up."""
        if hmac.compare_digest(given.encode(), self.token.encode()):
            return True
        return time.monotonic() < self._tickets.pop(given, 0.0)

    def is_password(self, authorization: str) -> bool:
        """Return whether a header has the token, as a password or by itself."""
        kind, _, value = authorization.partition(" ")
        given = value.strip() if kind.lower() == "bearer" else ""  # which no token is
        if kind.lower() == "basic":
            with suppress(ValueError):  # no base64: then it is no password either
                pair = b64decode(value.strip(), validate=True).decode()
                given = pair.partition(":")[2]
        return hmac.compare_digest(given.encode(), self.token.encode())

    def cookie(self, now: float | None = None) -> str:
        """Return the value of a cookie that is good for thirty days."""
        until = str(int((time.time() if now is None else now) + _LIFETIME))
        return f"{until}.{self._signature(until)}"

    def is_cookie(self, given: str, now: float | None = None) -> bool:
        """Return whether a cookie was made here and has not expired."""
        until, _, signature = given.partition(".")
        expected = self._signature(until)
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            return False
        return int(until) > (time.time() if now is None else now)

    def header(self, cookie: str) -> str:
        """Return the header of a cookie, hidden from scripts and other sites."""
        value = f"{self.cookie_name}={cookie}; Max-Age={_LIFETIME}; Path=/"
        return f"{value}; HttpOnly; SameSite=Strict"

    def _signature(self, until: str) -> str:
        return hmac.new(self.key, until.encode(), sha256).hexdigest()


def _signing_key(path: Path) -> bytes:
    """Return the key in a file; one that others may know or have made is replaced."""
    if not path.is_symlink():
        with suppress(OSError), open_regular(path, _KEY_BYTES) as file:
            state, key = os.fstat(file.fileno()), file.read()
            is_ours = os.name == "nt" or (
                state.st_uid == os.geteuid() and not state.st_mode & _OTHERS
            )
            if is_ours and len(key) == _KEY_BYTES:
                return key
    key = secrets.token_bytes(_KEY_BYTES)
    write_private(path, key)
    return key


def write_private(path: Path, content: bytes) -> None:
    """Put content into a file that only its owner can read."""
    with replace_file(path) as partial:
        partial.chmod(0o600)
        partial.write_bytes(content)


@dataclass
class Refusal(Exception):  # noqa: N818 - nobody outside sees it
    """Why a request goes no further."""

    status: int
    reason: str


@dataclass(frozen=True)
class Guard:
    """An application that lets only some requests through to another."""

    app: Application
    keys: Keys
    hosts: frozenset[str] = frozenset()
    """Names of this machine besides those that never leave it."""
    any_address: bool = False
    """Whether numeric addresses count, too; nobody can make one point elsewhere."""
    most_seconds: float = MOST_SECONDS

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        try:
            most, extra = self._admit(scope, headers)
            body = await self._body(headers, receive, most)
        except Refusal as refusal:
            answer = PlainTextResponse(
                refusal.reason, refusal.status, {"connection": "close"}
            )
            await answer(scope, receive, _with_headers(send, ()))
            return
        await self.app(scope, _replay(body, receive), _with_headers(send, extra))

    def _admit(
        self, scope: Message, headers: dict[str, str]
    ) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Check a request; return how large its body may be, and a new cookie."""
        extra: list[tuple[bytes, bytes]] = []
        most = MOST_UPLOAD_BYTES if scope["path"] in UPLOADS else MOST_BYTES
        if scope["path"] in PROGRAMS:
            self._check_program(headers)
            session, most = "program", MOST_PROGRAM_BYTES
        else:
            self._check_origin(scope, headers)
            session = self._cookie(headers)
            if not session:
                self._check_token(scope)
                session = self.keys.cookie()
                extra.append((b"set-cookie", self.keys.header(session).encode()))
        if JOIN in scope and not scope[JOIN](session):
            raise Refusal(503, "Too many connections are open; close some tabs.")
        return most, extra

    def _check_program(self, headers: dict[str, str]) -> None:
        """Raise unless a program that has the token calls; browsers are recognized."""
        self._check_host(headers)
        names = (name for name in headers if name.startswith("sec-fetch-"))
        if "origin" in headers or any(names):
            raise Refusal(403, "This address is not for browsers.")
        if not self.keys.is_password(headers.get("authorization", "")):
            raise Refusal(401, _FOR_PROGRAMS)

    def _check_host(self, headers: dict[str, str]) -> str:
        host, is_here = headers.get("host", ""), False
        with suppress(ValueError):
            name = (urlsplit(f"//{host}").hostname or "").lower()
            is_named = name in LOOPBACK or name in self.hosts
            is_here = is_named or (self.any_address and bool(ip_address(name)))
        if not is_here:
            raise Refusal(403, "This name is not one of this machine.")
        return host

    def _check_origin(self, scope: Message, headers: dict[str, str]) -> None:
        """Raise unless a request was meant for this machine, by a page of its own."""
        host = self._check_host(headers)
        origin = headers.get("origin")
        is_same = origin is None or origin == f"{scope.get('scheme', 'http')}://{host}"
        is_foreign = headers.get("sec-fetch-site") in {"cross-site", "same-site"}
        how = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        is_link = _is_first_page(scope) and how == ("navigate", "document")
        if not is_same or (is_foreign and not is_link):
            raise Refusal(403, "The request comes from another site.")
        if scope["method"] not in _SAFE and HEADER not in headers:
            raise Refusal(403, f"A change needs the header {HEADER}.")

    def _cookie(self, headers: dict[str, str]) -> str:
        """Return the value of a valid cookie, and nothing if there is none."""
        # Other programs of this machine may have set cookies of any form.
        for pair in headers.get("cookie", "").split(";"):
            name, _, value = pair.partition("=")
            is_ours = name.strip() == self.keys.cookie_name
            if is_ours and self.keys.is_cookie(value.strip()):
                return value.strip()
        return ""

    def _check_token(self, scope: Message) -> None:
        """Raise unless the first page is asked for with the token."""
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token")
        if not (_is_first_page(scope) and given and self.keys.is_token(given[0])):
            raise Refusal(401, _SIGN_IN)

    async def _body(
        self, headers: dict[str, str], receive: Receive, most: int
    ) -> bytes:
        too_large = Refusal(413, f"A request may have {most:,} bytes.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise too_large
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self.most_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "The request ended early.")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > most:
                        raise too_large
        except TimeoutError as error:
            raise Refusal(408, "The request took too long to arrive.") from error
        return bytes(body)


def _is_first_page(scope: Message) -> bool:
    return bool(scope["path"] == "/" and scope["method"] == "GET")


def _headers(scope: Message) -> dict[str, str]:
    """Return the headers by name; values that come twice are joined, so not valid."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        joined = "; " if key == "cookie" else ", "
        headers[key] = f"{headers[key]}{joined}{text}" if key in headers else text
    return headers


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that begins with a body that was read already."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return parts.pop() if parts else await receive()

    return replay


def _with_headers(send: Send, extra: Iterable[tuple[bytes, bytes]]) -> Send:
    """Return a sender that adds the headers that every answer has."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            if b"cache-control" not in names:
                own.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*own, *_HEADERS, *extra]}
        await send(message)

    return send_with_headers
