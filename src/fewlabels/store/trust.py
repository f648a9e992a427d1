"""Which PostgreSQL servers a user has confirmed for a project on this machine.

The client library of PostgreSQL sends the user's password to whatever server an address
names. An address that came with somebody else's ``project.json`` is therefore used only
after the user has seen and confirmed it, once per folder and address.
"""

import os
import re
import sys
from hashlib import sha256
from pathlib import Path

from sqlalchemy import URL

from fewlabels import files
from fewlabels.errors import UntrustedStoreError, UsageError
from fewlabels.store.locations import shown, store_url

_SSL_MODES = frozenset({"require", "verify-ca", "verify-full"})
_PLAIN_HOST = re.compile(r"[\w.:-]*", re.ASCII)
_PLAIN_DATABASE = re.compile(r"[^=/?\\']*")


def check_address(address: str) -> URL | None:
    """Return the address of a server, if it says only where the server is.

    Args:
        address: What ``project.json`` names as the store.

    Returns:
        The address; None: it is a file, which needs no password.

    Raises:
        UsageError: If it has other parameters, which could lead the connection to
            another server, or to other files of this user, than it seems to.
    """
    if "://" not in address:
        return None
    url = store_url(address)
    if url.get_backend_name() != "postgresql":
        return None
    other = sorted(url.query.keys() - {"sslmode"})
    if other:
        problem = f"has the parameter '{other[0]}'"
    elif "sslmode" in url.query and url.query["sslmode"] not in _SSL_MODES:
        problem = f"has sslmode={url.query['sslmode']!r}"
    elif not _PLAIN_HOST.fullmatch(url.host or ""):
        problem = f"names the host {url.host!r}"
    elif not _PLAIN_DATABASE.fullmatch(url.database or ""):
        problem = f"names the database {url.database!r}"
    else:
        return url
    raise UsageError(
        f"The address of the label store {problem}. A project takes only "
        "'postgresql://user@host:port/database', and behind it ?sslmode=require, "
        "verify-ca or verify-full. Set anything else by the variables of PostgreSQL, "
        "such as PGHOST or PGSERVICE."
    )


def check_trusted(folder: Path, address: str) -> None:
    """Raise unless this user has confirmed a project's server, or it is a file."""
    url = check_address(address)
    if url is not None and not _record(folder, address).exists():
        raise UntrustedStoreError(folder, shown(url))


def trust(folder: Path, address: str) -> None:
    """Remember that this user confirmed the server of a project."""
    url = check_address(address)
    if url is not None:
        path = _record(folder, address)
        with files.explained(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.replace_text(path, f"{folder.resolve()}\n{shown(url)}\n")


def state_folder() -> Path:
    """Return where a user's decisions are kept: ``$FEWLABELS_STATE``, or as usual."""
    given = os.environ.get("FEWLABELS_STATE")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "fewlabels"


def _record(folder: Path, address: str) -> Path:
    key = sha256(f"{folder.resolve()}\n{address}".encode()).hexdigest()
    return state_folder() / "trusted-stores" / key
