"""The commands: parse, call one function, print."""

from importlib.metadata import version
from typing import Annotated

import typer

from fewlabels.cli.bench import app as bench
from fewlabels.cli.check import check
from fewlabels.cli.classes import app as classes
from fewlabels.cli.demo import demo
from fewlabels.cli.diagnose import diagnose
from fewlabels.cli.predict import predict
from fewlabels.cli.project import ask, export, init, status, tell, train
from fewlabels.cli.run import run
from fewlabels.cli.select import select

app = typer.Typer(
    name="fewlabels",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in help texts are meant as they stand
)
app.command()(demo)
app.command()(run)
app.command()(select)
app.command()(diagnose)
app.command()(check)
app.command()(init)
app.command()(ask)
app.command()(tell)
app.command()(train)
app.command()(status)
app.command()(export)
app.command()(predict)
app.add_typer(classes)
app.add_typer(bench)


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
