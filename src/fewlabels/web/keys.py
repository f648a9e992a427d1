"""Sign-in: a token in an address becomes a cookie, signed by a key.

The token is new with each start, unless somebody chose one. The key stays in the
project's folder, readable to its owner alone, so that a browser need not sign in again
after a restart.
"""

import hmac
import os
import secrets
import time
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path

from fewlabels.errors import check_range
from fewlabels.files import open_regular, replace_file

KEY_FILE = ".page-key"
"""Where a project's folder keeps the signing key."""
LEAST_TOKEN = 16
"""Characters that a token must have at least."""

_KEY_BYTES = 32
_LIFETIME = 30 * 24 * 3600  # seconds
_TICKET_SECONDS = 300.0  # a browser may be slow to begin
_OTHERS = 0o077  # what anybody but the owner may do with a file


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
        """Return what can be used once instead of the token, within five minutes."""
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
