"""The command line: parse, call one function, print."""

import signal
import sys
from importlib.metadata import version
from types import FrameType
from typing import Annotated

import typer

from fewlabels.cli.demo import demo
from fewlabels.cli.diagnose import diagnose
from fewlabels.cli.run import run
from fewlabels.cli.select import select
from fewlabels.errors import FewlabelsError, UsageError

__all__ = ["app", "main"]

app = typer.Typer(
    name="fewlabels",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(run)
app.command()(select)
app.command()(diagnose)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer passes it so
    if asked:
        typer.echo(f"fewlabels {version('fewlabels')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """From a pile of unlabeled images and a labeling budget to the best classifier."""
    del show_version


class _Stopped(BaseException):
    """Somebody pressed Ctrl-C, or asked the process to end."""


def main() -> None:
    """Run the command line and leave with an exit code; no traceback for a mistake.

    0 is done, 1 failed for the reason given, 2 is wrong usage.
    """
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except UsageError as error:
        _leave(f"Error: {error}", 2)
    except FewlabelsError as error:
        _leave(f"Error: {error}", 1)
    except _Stopped:
        _leave("Stopped. What is finished is kept; the same command goes on.", 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _Stopped


def _leave(message: str, code: int) -> None:
    typer.echo(message, err=True)
    sys.exit(code)
