"""Who may use the page: a token in an address becomes a cookie, signed by a key.

The token is new with each start, unless somebody chose one. The key stays in the
project's folder, readable to its owner alone, so that a browser need not sign in again
after a restart.
"""

import hmac
import os
import secrets
import time
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path

from fewlabels.errors import UsageError
from fewlabels.files import explained, read_regular

LEAST_TOKEN = 16
"""Characters that a token must have at least."""

_FILE = ".page-key"
_KEY_BYTES = 32
_MOST_BYTES = 1024
_LIFETIME = 30 * 24 * 3600  # seconds


@dataclass(frozen=True)
class Keys:
    """A token, and what signs cookies."""

    token: str
    key: bytes

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
        if token is not None and len(token) < LEAST_TOKEN:
            raise UsageError(
                f"The token has {len(token)} characters and could be guessed; give at "
                f"least {LEAST_TOKEN}, such as {secrets.token_urlsafe(24)}."
            )
        made = sha256(_kept(folder / _FILE) + (token or "").encode()).digest()
        return cls(token or secrets.token_urlsafe(24), made)

    @property
    def cookie_name(self) -> str:
        """Name of the cookie; browsers do not tell the ports of a host apart."""
        return (
            f"fewlabels-{blake2b(self.key, digest_size=4, person=b'name').hexdigest()}"
        )

    def is_token(self, given: str) -> bool:
        """Return whether somebody brought the token; takes the same time for all."""
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

    @property
    def header(self) -> str:
        """What sets the cookie: unseen by scripts, and by requests of other sites."""
        told = f"{self.cookie_name}={self.cookie()}; Max-Age={_LIFETIME}; Path=/"
        return f"{told}; HttpOnly; SameSite=Strict"

    def _signature(self, until: str) -> str:
        return hmac.new(self.key, until.encode(), sha256).hexdigest()


def _kept(path: Path) -> bytes:
    """Return the key in a file, which is made if there is none."""
    with explained(path):
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            found = read_regular(path, _MOST_BYTES)
            if len(found) >= _KEY_BYTES:
                return found
            path.unlink()  # of a process that was killed
            return _kept(path)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        return path.read_bytes()
