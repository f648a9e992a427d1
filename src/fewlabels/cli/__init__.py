"""The command line: where a process begins and how it ends.

A command and what it needs are imported when it is called, which may take seconds:
from the very start, Ctrl-C ends in a message.
"""

import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from fewlabels.cli.harmless import harmless
from fewlabels.errors import FewlabelsError, UntrustedStoreError, UsageError
from fewlabels.progress import Canceled, Interrupt, stopping

__all__ = ["main"]

_STOPPED = "Stopped. Finished work is kept; run the same command to resume."


def main() -> None:
    """Run the command line and leave with an exit code; no traceback for a mistake.

    0 is done, 1 failed for the reason given, 2 is wrong usage.
    """
    _on_signals(_stop_loading)
    gc.disable()  # until a command is imported: nothing of that is garbage
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        from fewlabels.cli.app import app

        interrupt = Interrupt()
        _on_signals(interrupt)
        with stopping(lambda: interrupt.is_asked):
            try:
                app()
            except UntrustedStoreError as error:
                if not _is_confirmed(error):
                    raise
                app()
    except UsageError as error:
        _leave(f"Error: {error}", 2)
    except FewlabelsError as error:
        _leave(f"Error: {error}", 1)
    except Canceled:
        _leave(_STOPPED, 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _leave(f"Error: reading or writing failed: {error}.", 1)
    finally:
        gc.enable()


def _is_confirmed(error: UntrustedStoreError) -> bool:
    """Ask whether a server is the right one, where somebody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    import typer

    from fewlabels.projects import Project

    question = (
        f"The project in '{error.folder}' keeps its labels on the server "
        f"'{error.address}', which you have not used with it on this machine. Connect "
        "to it, with your PostgreSQL password if it asks for one?"
    )
    try:
        if not typer.confirm(harmless(question), err=True):
            return False
    except typer.Abort:
        return False
    Project.open(error.folder, trust_store=True).close()
    return True


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        (_stop_loading if _is_importing(frame) else handler)(number, frame)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether the code that was interrupted is importing something."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _stop_loading(number: int, frame: FrameType | None) -> None:
    """Leave at once: libraries that are being imported may swallow an exception."""
    del number, frame
    os.write(2, f"{_STOPPED}\n".encode())
    os._exit(1)


def _leave(message: str, code: int) -> None:
    print(harmless(message), file=sys.stderr)  # noqa: T201 - the one place that may
    sys.exit(code)
