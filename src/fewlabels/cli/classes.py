"""``fewlabels classes add, rename``: classes that were forgotten or misnamed."""

from typing import Annotated

import typer

from fewlabels.cli.project import Place
from fewlabels.cli.terminal import Terminal
from fewlabels.projects import Project

app = typer.Typer(
    name="classes",
    help="Add and rename the classes of a project; labels stay as they are.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def add(
    place: Place,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="New classes.")],
) -> None:
    """Add classes to a project."""
    with Project.open(place) as project:
        _show(project.add_classes(names))


@app.command()
def rename(
    place: Place,
    old: Annotated[str, typer.Argument(help="The current name.")],
    new: Annotated[str, typer.Argument(help="The new name.")],
) -> None:
    """Rename a class; its labels stay with it."""
    with Project.open(place) as project:
        _show(project.rename_class(old, new))


def _show(classes: tuple[str, ...]) -> None:
    Terminal.open(quiet=False).result(f"Classes: {', '.join(classes)}.")
