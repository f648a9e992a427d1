"""The labeling page for scripts: ``fewlabels start`` and a Chromium that shows it."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

TOKEN = "a token for the tests alone"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Server:
    """``fewlabels start`` in a process of its own, which can be killed.

    Args:
        folder: Images, or a project.
        options: Further words of the command.
        port: Where to listen; None: where the command likes.
        patience: Seconds until it has to be there.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int | None = None,
        patience: float = 120,
    ) -> None:
        self.command = [sys.executable, "-m", "fewlabels", "start", str(folder)]
        self.command += ["--no-browser", "--token", TOKEN, *options]
        self.log = folder.parent / "server.log"
        self.port, self.patience = port, patience
        self.start()

    def start(self) -> None:
        """Start it, and wait until it says where it is."""
        extra = [] if self.port is None else ["--port", str(self.port)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command + extra, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + self.patience
        while not (found := re.search(r"http://\S+:(\d+)/", self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)
        self.port = int(found[1])

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://127.0.0.1:{self.port}/?token={quote(TOKEN)}"

    def kill(self) -> None:
        """End it without a warning."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


@contextmanager
def chromium() -> Iterator[Any]:
    """Hand out a browser of Playwright's.

    Yields:
        The browser.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        found = tool.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield found
        finally:
            found.close()


def prefer() -> None:
    """Let the system prefer all that this process starts to what else there is to do.

    Linux weighs sessions: each is moved forward as far as it goes, those that give way
    a little less; our own goes back in the end. Only root may do so.
    """
    own, end = Path("/proc/self/autogroup"), Event()
    before = own.read_text().split()[-1]

    def look() -> None:
        while not end.wait(0.2):
            for one in family(os.getpid()):
                _move_forward(Path(f"/proc/{one}/autogroup"))

    thread = Thread(target=look, daemon=True)
    thread.start()

    def go_back() -> None:
        end.set()
        thread.join()
        own.write_text(before)

    atexit.register(go_back)


def _move_forward(file: Path) -> None:
    with suppress(OSError):  # it has ended
        nice = int(file.read_text().split()[-1])
        if nice >= 0:
            file.write_text(str(round(-20 + 0.3 * nice)))


def family(process: int) -> list[int]:
    """Return a process and those that it has started, and so on."""
    parent_of = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent_of[int(status.parent.name)] = int(
                status.read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue  # it has ended
    found = [process]
    for one in found:
        found += [child for child, parent in parent_of.items() if parent == one]
    return found
