"""Where a label store lies: a file of SQLite, or a PostgreSQL server.

SQLite's write-ahead log needs memory that all its processes share, which no network
drive gives them. What such a drive says is on the disk may be lost besides. A label
store is therefore refused there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from fewlabels.errors import NetworkDriveError, UsageError

NETWORK_SYSTEMS = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs"}
    | {"ceph", "glusterfs", "lustre", "gpfs", "beegfs", "ncpfs", "davfs", "webdav"}
    | {"fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs"}
    | {"fuse.davfs2", "fuse.smbnetfs", "fuse.ceph", "fuse.juicefs", "fuse.blobfuse"}
)
"""File systems whose files lie on another machine, by the names Linux gives them."""

_MOUNTS = Path("/proc/mounts")


@dataclass(frozen=True)
class Mount:
    """A file system and the folder at which it appears."""

    folder: Path
    kind: str
    """Its name in Linux, such as ``"ext4"``."""


Mounts = Callable[[], Sequence[Mount]]
"""Something that lists the mounted file systems."""


def system_mounts() -> list[Mount]:
    """List the mounted file systems; none where the system does not tell."""
    try:
        lines = _MOUNTS.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    fields = [line.split() for line in lines]
    return [Mount(Path(_plain(f[1])), f[2]) for f in fields if len(f) > 2]


def store_url(place: str | Path) -> URL:
    """Return the address of a store, a file or a server, with the driver to use."""
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    try:
        url = make_url(place)
    except (ArgumentError, ValueError) as error:
        raise UsageError(_not_an_address(place.partition("://")[0])) from error
    kind = url.get_backend_name()
    if kind in {"postgresql", "postgres"}:
        return url.set(drivername="postgresql+psycopg")
    if kind != "sqlite" or not url.database or url.database == ":memory:":
        raise UsageError(_not_an_address(shown(url)))
    return store_url(Path(url.database))


def shown(url: URL) -> str:
    """Return an address for messages: no password, which may stand behind '?' too."""
    return url.set(query={}).render_as_string(hide_password=True)


def check_drive(path: Path, mounts: Mounts = system_mounts) -> None:
    """Refuse a file on a network drive."""
    real = path.resolve()
    above = [m for m in mounts() if real.is_relative_to(m.folder)]
    # Of several mounts at one folder the last one is seen.
    nearest = max(reversed(above), key=lambda m: len(m.folder.parts), default=None)
    if nearest and nearest.kind in NETWORK_SYSTEMS:
        raise NetworkDriveError(
            f"'{path}' is on a network drive ({nearest.kind} at '{nearest.folder}'). "
            "SQLite cannot keep labels safe there: two machines would overwrite each "
            "other. Give a folder on this machine's own disk, or the address of a "
            "PostgreSQL server."
        )


def _plain(folder: str) -> str:
    """Undo how blanks and the like are written in the list of mounts."""
    for code in ("040", "011", "012", "134"):
        folder = folder.replace(f"\\{code}", chr(int(code, 8)))
    return folder


def _not_an_address(seen: str) -> str:
    return (
        f"'{seen}' is not a place for a label store. Give a file, such as "
        "'labels.sqlite', or the address of a PostgreSQL server, such as "
        "'postgresql://user:password@host/database'."
    )
