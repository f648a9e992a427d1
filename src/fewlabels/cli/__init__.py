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
from traceback import walk_stack
from types import FrameType

from fewlabels.errors import FewlabelsError, UntrustedStoreError, UsageError
from fewlabels.progress import Canceled, Interrupt, stopping

__all__ = ["harmless", "main"]

_STOPPED = "Stopped. Finished work is kept; run the same command to resume."
_CONTROLS = {*range(0x20), 0x7F, *range(0x80, 0xA0)} - {ord("\n"), ord("\t")}
_REORDERING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_VISIBLE = {code: f"\\u{code:04x}" for code in _CONTROLS | _REORDERING}


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
    except FewlabelsError as error:
        _leave(f"Error: {error}", 2 if isinstance(error, UsageError) else 1)
    except Canceled:
        _leave(_STOPPED, 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _leave(f"Error: reading or writing failed: {error}.", 1)
    finally:
        gc.enable()


def harmless(text: str) -> str:
    r"""Return text with what would move a cursor, or reorder letters, made visible.

    Names of files and classes are untrusted. Line breaks and tabs are left.
    Inside JSON the result means the same as the text.

    Example:
        >>> print(harmless("cat\x1b[2J"))
        cat\u001b[2J
    """
    return text.translate(_VISIBLE)


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
    """Let a handler stop the work; what is being imported is left at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        for outer, _ in walk_stack(frame):
            if outer.f_code.co_filename.startswith("<frozen importlib"):
                _stop_loading(number, frame)
        handler(number, frame)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _stop_loading(number: int, frame: FrameType | None) -> None:
    """Leave at once: libraries that are being imported may swallow an exception."""
    del number, frame
    os.write(2, f"{_STOPPED}\n".encode())
    os._exit(1)


def _leave(message: str, code: int) -> None:
    print(harmless(message), file=sys.stderr)  # noqa: T201 - the one place that may
    sys.exit(code)
