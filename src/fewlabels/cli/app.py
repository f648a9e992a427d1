"""The commands by name; each is imported when it is called, with what it needs."""

import gc
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_COMMANDS = {
    "demo": ("bench:demo", "Compare strategies on digits and write a report."),
    "run": ("run:run", "Simulate active learning on labeled images."),
    "select": ("embeddings:select", "Choose what to label next, from your embeddings."),
    "diagnose": ("run:diagnose", "Show how well conditioned a run's labels are."),
    "check": ("run:check", "Check that a strategy, trainer or kernel is sound."),
    "start": ("start:start", "Label images in the browser: a folder and a budget in."),
    "init": ("project:init", "Start a project: images, classes, a label budget."),
    "ask": ("project:ask", "Choose the next images to label; writes a file."),
    "tell": ("project:tell", "Read labels from a file."),
    "import": ("project:import_labels", "Import labels that exist; --undo."),
    "train": ("project:train", "Train a model on the labels."),
    "status": ("project:status", "Show labels, accuracy and the next step."),
    "export": ("project:export", "Write labels, predictions, model and report."),
    "backup": ("project:backup", "Copy all labels of a project into a new file."),
    "trust": ("project:trust", "Confirm the server that keeps a project's labels."),
    "predict": ("project:predict", "Use an exported model on new images."),
    "serve": ("serve:serve", "Classify images over HTTP with an exported model."),
    "classes": ("project:classes", "Add and rename the classes of a project."),
    "embed": ("embeddings:embed", "Turn images into shards of embeddings."),
    "encoders": ("features:encoders", "List what can make features on this machine."),
    "cache": ("features:cache", "List and prune cached image features."),
    "doctor": ("doctor:doctor", "Show what is installed, and what is missing."),
    "bench": ("bench:app", "Compare query strategies, as in the paper."),
}


class _WhenCalled(TyperGroup):
    """Commands known by a name and a line of help until one is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return name, command and arguments of what was called."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if known is None else command(str(name)), rest


app = typer.Typer(
    name="fewlabels",
    cls=_WhenCalled,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in help texts are meant as they stand
)
for _name, (_home, _help) in _COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def command(name: str) -> Any:
    """Import a command and return it, as Typer runs it."""
    from fewlabels.cli.options import documented

    module, inner = _COMMANDS[name][0].split(":")
    target = getattr(import_module(f"fewlabels.cli.{module}"), inner)
    gc.enable()
    if not isinstance(target, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name)(documented(target))
        target = alone
    return typer.main.get_command(target)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer passes it so
    if asked:
        typer.echo(f"fewlabels {version('fewlabels')}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback()
def options(*, show_version: Annotated[bool, _VERSION] = False) -> None:
    """From a pile of unlabeled images and a labeling budget to the best classifier."""
    del show_version
