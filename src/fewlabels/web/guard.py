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
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fewlabels.errors import UsageError, count
from fewlabels.files import open_regular, replace_file

MOST_BYTES = 256 * 1024
"""Largest body of a request."""
MOST_SECONDS = 10.0
"""Time that a body may take to arrive."""
JOIN = "fewlabels.join"
"""Key of a scope's state: counts its connection to a session, if there is room."""
HEADER = "x-fewlabels"
"""Every change has to carry it; no form and no other site can send it."""
PROGRAMS = frozenset({"/health", "/setup", "/predict", "/webhook"})
"""What programs call, never a browser; they bring the token each time."""
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
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_SAFE = frozenset({"GET", "HEAD"})
_FOR_PROGRAMS = (
    "This address is for programs, which have to sign in: with the header "
    "'Authorization: Bearer TOKEN', or, as Label Studio does, with any user name and "
    "the token as its password."
)
_SIGN_IN = (
    "This page is for whoever started it. Open the address that the command printed, "
    "which ends in ?token=..., in this browser."
)

_NO_PAGE = (
    "There is no page here. Send an image to /predict with POST, as the command shows."
)


@dataclass(frozen=True)
class Keys:
    """A token, and the key that signs cookies."""

    token: str
    key: bytes
    _tickets: dict[str, float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, folder: Path | None, token: str | None = None) -> "Keys":
        """Return the keys of the project in a folder.

        Args:
            folder: Where the signing key is kept; None: a new one.
            token: What people sign in with, and all that lets them in: cookies that
                another token has given are void. None: a new one.

        Returns:
            The keys.
        """
        if token is not None and len(token) < LEAST_TOKEN:
            raise UsageError(
                f"The token has {count(len(token), 'character')}; give at least "
                f"{LEAST_TOKEN}."
            )
        kept = _signing_key(folder / KEY_FILE) if folder else secrets.token_bytes(32)
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


@dataclass(frozen=True)
class Guard:
    """An application that lets only some requests through to another."""

    app: ASGIApp
    keys: Keys
    hosts: frozenset[str] = frozenset()
    """Names of this machine besides those that never leave it."""
    any_address: bool = False
    """Whether numeric addresses count, too; nobody can make one point elsewhere."""
    most_seconds: float = MOST_SECONDS
    most_program_bytes: int = MOST_PROGRAM_BYTES
    has_page: bool = True
    """Whether there is a page to sign in to, or only addresses for programs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        try:
            most, cookie = self._admit(request)
            body = await self._read_body(request, most)
        except HTTPException as refusal:
            close = {"connection": "close"}
            answer = PlainTextResponse(refusal.detail, refusal.status_code, close)
            await answer(scope, receive, _with_headers(send))
            return
        await self.app(scope, _replay(body, receive), _with_headers(send, cookie))

    def _admit(self, request: Request) -> tuple[int, str | None]:
        """Check a request; return how large its body may be, and a new cookie."""
        path, cookie = request.scope["path"], None
        most = MOST_UPLOAD_BYTES if path in UPLOADS else MOST_BYTES
        if path in PROGRAMS:
            self._check_program(request.headers)
            session, most = "program", self.most_program_bytes
        else:
            self._check_origin(request)
            if not self.has_page:
                raise HTTPException(404, _NO_PAGE)
            session = self._session(request.headers)
            if not session:
                token = request.query_params.get("token", "")
                if not (_is_first_page(request) and self.keys.is_token(token)):
                    raise HTTPException(401, _SIGN_IN)
                session = self.keys.cookie()
                cookie = self.keys.header(session)
        join = request.scope.get("state", {}).get(JOIN)
        if join is not None and not join(session):
            raise HTTPException(503, "Too many connections are open; close some.")
        return most, cookie

    def _check_program(self, headers: Headers) -> None:
        """Raise unless a program that has the token calls; browsers are recognized."""
        self._check_host(headers)
        if any(name == "origin" or name.startswith("sec-fetch-") for name in headers):
            raise HTTPException(403, "This address is not for browsers.")
        if not self.keys.is_password(headers.get("authorization", "")):
            raise HTTPException(401, _FOR_PROGRAMS)

    def _check_host(self, headers: Headers) -> str:
        host, is_here = headers.get("host", ""), False
        with suppress(ValueError):
            name = (urlsplit(f"//{host}").hostname or "").lower()
            is_named = name in LOOPBACK or name in self.hosts
            is_here = is_named or (self.any_address and bool(ip_address(name)))
        if not is_here:
            raise HTTPException(403, "This name is not one of this machine.")
        return host

    def _check_origin(self, request: Request) -> None:
        """Raise unless a request was meant for this machine, by a page of its own."""
        headers = request.headers
        own = f"{request.scope.get('scheme', 'http')}://{self._check_host(headers)}"
        is_foreign = headers.get("sec-fetch-site") in {"cross-site", "same-site"}
        how = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        is_link = _is_first_page(request) and how == ("navigate", "document")
        if headers.get("origin", own) != own or (is_foreign and not is_link):
            raise HTTPException(403, "The request comes from another site.")
        if request.method not in _SAFE and HEADER not in headers:
            raise HTTPException(403, f"A change needs the header {HEADER}.")

    def _session(self, headers: Headers) -> str:
        """Return the value of a valid cookie, and nothing if there is none."""
        # Other programs of this machine may have set cookies of any form.
        for pair in ";".join(headers.getlist("cookie")).split(";"):
            name, _, value = pair.partition("=")
            is_ours = name.strip() == self.keys.cookie_name
            if is_ours and self.keys.is_cookie(value.strip()):
                return value.strip()
        return ""

    async def _read_body(self, request: Request, most: int) -> bytes:
        """Return the body of a request, or refuse one that is too large or slow."""
        too_large = HTTPException(413, f"A request may have {most:,} bytes.")
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.most_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_large
        except TimeoutError as error:
            raise HTTPException(408, "The request took too long to arrive.") from error
        except ClientDisconnect as error:
            raise HTTPException(400, "The request ended early.") from error
        return bytes(body)


def _is_first_page(request: Request) -> bool:
    return bool(request.scope["path"] == "/" and request.method == "GET")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that begins with a body that was read already."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return parts.pop() if parts else await receive()

    return replay


def _with_headers(send: Send, cookie: str | None = None) -> Send:
    """Return a sender that adds the headers that every answer has."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("cache-control", "no-store")
            headers.update(_HEADERS)
            if cookie is not None:
                headers.append("set-cookie", cookie)
        await send(message)

    return send_with_headers
