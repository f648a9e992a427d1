"""A PostgreSQL server of our own: temporary folder, loopback only, ended by its id."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

USER = "postgres"
_FORGETFUL = [
    *["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"],
    *["-c", "wal_level=minimal", "-c", "max_wal_senders=0"],
]


def binaries() -> Path | None:
    """Return the folder of initdb and postgres, or None."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return newest[-1].parent if newest else None


def why_not() -> str:
    """Say why no server can be started here; nothing if one can."""
    if binaries() is None:
        return "PostgreSQL is not installed (no initdb found)"
    if os.getuid() == 0:
        if shutil.which("runuser") is None:
            return "PostgreSQL refuses to run as root, and there is no runuser"
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return f"PostgreSQL refuses to run as root, and there is no user {USER}"
    return ""


def as_other(words: list[str]) -> list[str]:
    """Run as another user where we are root, as PostgreSQL demands."""
    return ["runuser", "-u", USER, "--", *words] if os.getuid() == 0 else words


@dataclass
class Server:
    """A server that runs until it is stopped."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def url(self, database: str) -> str:
        """Return the address of one of its databases."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The server itself, whoever started it for us."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """End the server and remove its folder."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGQUIT)  # at once: nothing of it is kept
            self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


def start(*, is_durable: bool = False) -> Server:
    """Make a database cluster in a temporary folder and start a server on it.

    Without flushing to the disk a server forgets nothing unless the machine itself
    stops, and a test with many databases takes seconds rather than a minute.

    Args:
        is_durable: Whether to flush to the disk all the same.

    Returns:
        The server, ready for connections.
    """
    folder = Path(tempfile.mkdtemp(prefix="fewlabels-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, USER)
    data = folder / "data"
    initdb = [binaries() / "initdb", "-D", data, "-U", USER, "-A", "trust"]
    options = ["-E", "UTF8", "--locale=C.UTF-8", "--no-instructions", "--no-sync"]
    subprocess.run(
        as_other([*map(str, initdb), *options]),
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return resume(folder, is_durable=is_durable)


def resume(folder: Path, *, is_durable: bool = False) -> Server:
    """Start a server on a cluster that exists."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        *map(str, [binaries() / "postgres", "-D", folder / "data", "-k", folder]),
        *["-p", str(port), "-c", "listen_addresses=127.0.0.1"],
        *["-c", "autovacuum=off", "-c", "jit=off"],
        *["-c", "shared_buffers=16MB"],
        *([] if is_durable else _FORGETFUL),
    ]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            as_other(words), stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    server = Server(folder, port, process)
    ready = as_other(
        [str(binaries() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    )
    for _ in range(300):
        if subprocess.run(ready, cwd=folder, check=False).returncode == 0:
            return server
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError((folder / "log").read_text())
