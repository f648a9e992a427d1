"""Processes that are forked, and so need not import much anew: workers, above all.

tests/jobs starts workers as users do. A worker is forked before a test opens a
database, since SQLite bears no fork between.
"""

import json
import os
import subprocess
import sys
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import lightning_fabric  # noqa: F401 - what takes longest to import

from fewlabels.jobs import worker


@contextmanager
def processes(number):
    """Have so many workers waiting; yield what stands in for ``subprocess``."""
    waiting = [_forked() for _ in range(number)]

    def popen(words, *, env, stderr, **options):
        if not waiting:
            return subprocess.Popen(words, env=env, stderr=stderr, **options)
        process = waiting.pop(0)
        told = {"env": dict(env), "cwd": str(Path.cwd()), "err": stderr.fileno()}
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        return process

    yield SimpleNamespace(Popen=popen, PIPE=subprocess.PIPE)
    for process in waiting:
        process.kill()
        process.communicate()


def started(work, **options):
    """Fork a process in a session of its own that does some work and ends."""

    def do():
        try:
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # whoever forks waits for that
            work()
        except BaseException:  # noqa: BLE001 - printed, as Python would
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there may be threads
        return subprocess.Popen(
            ["never executed"],
            preexec_fn=do,  # noqa: PLW1509 - instead of a program
            restore_signals=False,
            start_new_session=True,
            encoding="utf-8",
            **options,
        )


def _forked():
    return started(_wait_and_work, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _wait_and_work():
    line = b""
    while not line.endswith(b"\n"):  # and not a byte of the call after it
        line += os.read(0, 1) or os._exit(0)
    told = json.loads(line)
    os.dup2(os.open(f"/proc/{os.getppid()}/fd/{told['err']}", os.O_WRONLY), 2)
    os.chdir(told["cwd"])
    os.environ.clear()
    os.environ.update(told["env"])
    sys.path[:] = told["env"]["PYTHONPATH"].split(os.pathsep)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww")
    )
    worker.main()
