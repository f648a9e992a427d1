"""Kill a project's commands at every step: nothing is lost, nothing doubled."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
STEPS = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "sqlite3.connect"})


class Steps:
    """Counts what a process does to files below a folder, and kills it on the way."""

    def __init__(self, folder: Path, fatal: int | None) -> None:
        """Listen, and let the process die just before step ``fatal``."""
        self.folder, self.fatal, self.number = folder, fatal, 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "ctypes.dlsym":  # two folders are exchanged
            is_step = arguments[1] == "renameat2"
        elif event == "open":
            path, _, flags = arguments
            is_step = bool(flags & WRITING) and self._is_below(path)
        else:
            is_step = event in STEPS and self._is_below(arguments[0])
        if is_step:
            if self.number == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            self.number += 1

    def _is_below(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        return Path(os.fsdecode(path)).absolute().is_relative_to(self.folder)


def killed_at(step: int, folder: Path, work: Callable[[], object]) -> bool:
    """Do some work in a child that dies just before a step; whether it came to it.

    Args:
        step: Number of the step, from zero.
        folder: Where steps count.
        work: What the child does.

    Returns:
        False if the work was done before that step.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            Steps(folder, step)
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if status and not os.WIFSIGNALED(status):
        raise RuntimeError("the work failed")
    return os.WIFSIGNALED(status)
