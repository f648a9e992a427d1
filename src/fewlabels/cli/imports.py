"""``fewlabels import``: import existing labels, or undo that."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fewlabels.cli.options import Quiet
from fewlabels.cli.project import Place, next_sentence
from fewlabels.cli.terminal import Terminal
from fewlabels.errors import AnswersError, DataError, Fault, UsageError
from fewlabels.integers import count
from fewlabels.projects import Imported, Project

MOST_LISTED = 20
"""Faults that are shown in full."""


def import_labels(
    place: Place,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Table (.csv, .jsonl, .parquet), Label Studio export (.json), or a "
            "folder with a folder for each class.",
            show_default=False,
        ),
    ] = None,
    *,
    file_column: Annotated[
        str | None,
        typer.Option(help="Column with the file name. [default: a usual name]"),
    ] = None,
    class_column: Annotated[
        str | None,
        typer.Option(help="Column with the class. [default: a usual name]"),
    ] = None,
    add_classes: Annotated[
        bool,
        typer.Option("--add-classes", help="Add classes that the project lacks."),
    ] = False,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Import the good rows and list the others."),
    ] = False,
    annotator: Annotated[
        str | None, typer.Option(help="In whose name. [default: yours]")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back the last import.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Import existing labels: all of a file or, if a row is wrong, none.

    Imported labels train and cost no budget. They never measure accuracy: images of
    the audit slice are left out.
    """
    terminal = Terminal.open(quiet=quiet)
    if (source is None) != undo:
        raise UsageError("Give either a file or folder to import, or --undo.")
    with terminal.busy(), Project.open(place) as project:
        if source is None:
            undone = project.undo_import()
            words = f"{count(undone.num_labels, 'imported label')} taken back."
            if undone.retired_classes:
                retired = ", ".join(undone.retired_classes)
                words += f" Classes no longer in use: {retired}."
            terminal.result(words)
        else:
            try:
                done = project.import_labels(
                    source,
                    annotator=annotator,
                    file_column=file_column,
                    class_column=class_column,
                    add_classes=add_classes,
                    partial=partial,
                )
            except AnswersError as error:
                raise DataError(
                    f"{error} --partial does that; --add-classes adds missing classes."
                ) from error
            for line in _summary(done):
                terminal.result(line)
            _list("Left out", done.left_out, terminal)
            _list("Faulty", done.faults, terminal)
            if done.num_new:
                words = shlex.join(("fewlabels", "import", str(place), "--undo"))
                terminal.result(f"To undo this import: {words}")
        terminal.result(next_sentence(project, project.status()))


def _summary(done: Imported) -> list[str]:
    """Return lines that say what an import did."""
    parts = [f"{count(done.num_new, 'label')} imported"]
    parts += [f"{done.num_same} known already"] if done.num_same else []
    parts += [f"{done.num_blank} without a class"] if done.num_blank else []
    parts += [f"{len(done.left_out)} left out"] if done.left_out else []
    parts += [f"{len(done.faults)} faulty"] if done.faults else []
    lines = [", ".join(parts) + "."]
    if done.class_counts:
        counts = done.class_counts.items()
        lines.append(", ".join(f"{name} {number}" for name, number in counts) + ".")
    if done.new_classes:
        lines.append(f"New classes: {', '.join(done.new_classes)}.")
    if done.columns:
        file, label = done.columns["file_name"], done.columns["label"]
        lines.append(f"File names are in column '{file}', classes in '{label}'.")
    return lines


def _list(what: str, faults: tuple[Fault, ...], terminal: Terminal) -> None:
    for fault in faults[:MOST_LISTED]:
        terminal.say(f"{what}: {fault}")
    if len(faults) > MOST_LISTED:
        terminal.say(f"{what}: and {len(faults) - MOST_LISTED} more.")
