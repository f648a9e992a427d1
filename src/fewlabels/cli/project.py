"""``fewlabels init, ask, tell, train, ..., predict``: a project from the shell."""

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from typer import Argument

from fewlabels import errors
from fewlabels.cli import options
from fewlabels.cli.terminal import Terminal, command_line
from fewlabels.errors import count
from fewlabels.models.encoders import stronger
from fewlabels.names import import_paths
from fewlabels.progress import duration
from fewlabels.projects import NextStep, Project, Status
from fewlabels.projects.settings import NewProject
from fewlabels.report.wording import why_unmeasured

MOST_LISTED = 20
"""Faults of an import that are shown in full."""

Place = Annotated[Path, Argument(metavar="PROJECT", help="Project folder.")]
classes = options.group("Add and rename classes of a project; labels stay as they are.")


@options.taking(
    NewProject,
    *("budget", "audit", "query", "overlap", "strategy", "trainer", "quality"),
    *("size", "seed", "store", "shares"),
    is_required=True,
)
def init(
    place: Place,
    *,
    images: Path | None = None,
    classes: str,
    encoder: options.Encoder = None,
    terminal: options.Quiet,
    **given: Any,
) -> None:
    """Start a project: images to label, classes, a label budget.

    Options:
        images: Image folder; images stay there, unchanged. May be left out with
            --encoder vectors:FILE.
        classes: Names, such as cat,dog,other.
    """
    names, given["encoder"] = classes.split(","), encoder
    with Project.create(place, images, names, **given) as project:
        settings = project.settings
        status = project.status()
        known, left = count(status.num_images, settings.noun), status.num_candidates
        terminal.result(f"{known}, {left:,} to choose from (copies count once).")
        terminal.result(f"{settings.reason} Trainer: {settings.trainer.name}.")
        if settings.audit:
            labels = min(settings.budget, status.num_candidates)
            terminal.result(
                f"{settings.audit} of the {labels} labels will be drawn at random and "
                "only measure accuracy; --audit changes that."
            )
        terminal.result(next_sentence(project, status))
        if advice := stronger(settings.trainer.options.get("encoder")):
            terminal.say(advice)


def ask(
    place: Place,
    *,
    out: Path | None = None,
    size: int | None = None,
    strategy: str | None = None,
    anew: bool = False,
    allow_code: options.AllowCode = False,
    terminal: options.QuietOrJson,
) -> None:
    """Choose the next images to label and write them to a file.

    The first query needs no labels and no trained model. Images that are still open
    are written again. A .csv or .jsonl file comes with a contact sheet, .html, that
    shows the numbered images.

    Options:
        out: File to write: .csv, .jsonl, or .json for Label Studio. [default:
            PROJECT/round-NNN.csv]
        size: How many images. [default: the project's]
        strategy: Name or module:Class. [default: the project's]
        anew: Leave the open images and choose new ones.
    """
    from fewlabels.report import sheet_path, write_contact_sheet

    with Project.open(place, allow_code=allow_code) as project:
        asked = project.ask(size=size, strategy=strategy, anew=anew)
        path = out or place / f"round-{asked.step:03d}.csv"
        questions = project.questions(asked)
        is_seen = project.settings.images is not None and path.suffix.lower() != ".json"
        sheet = sheet_path(path) if is_seen else None
        project.write_query(questions, path)
        if sheet is not None:
            write_contact_sheet(sheet, project, questions, path)
        images = count(len(asked.items), project.settings.noun)
        audit = f", {asked.num_audit} of them to measure" if asked.num_audit else ""
        chosen = "chosen" if asked.is_new else "still open, chosen"
        by = f"{asked.strategy} on {asked.model or 'an untrained network'}"
        terminal.result(f"Round {asked.step}: {images}{audit}, {chosen} by {by}.")
        if not asked.is_new and (strategy or size):
            terminal.say("This round is still open; --anew chooses again.")
        if sheet is not None:
            terminal.result(f"Look at them in {sheet}, a page for the browser.")
        following = command_line("tell", place, path)
        terminal.result(f"Label them in {path}, then: {following}")
    facts = {"round": asked.step, "strategy": asked.strategy, "model": asked.model}
    ids = [item.item for item in asked.items]
    terminal.json(facts | {"file": path, "sheet": sheet, "ids": ids})


def tell(
    place: Place,
    answers: Path,
    *,
    annotator: str | None = None,
    partial: bool = False,
    terminal: options.QuietOrJson,
) -> None:
    """Read labels from a file: all of them or, if a row is wrong, none.

    Options:
        answers (FILE): Labels: .csv, .jsonl, or Label Studio's .json.
        annotator: Who labeled, if FILE does not say.
        partial: Take the good rows and list the others.
    """
    with Project.open(place) as project:
        try:
            result = project.tell(answers, annotator=annotator, partial=partial)
        except errors.AnswersError as error:
            raise errors.DataError(f"{error} --partial does that.") from error
        others = {
            "changed": result.num_changed,
            "already known": result.num_same,
            "skipped or unsure": result.num_skipped,
            "left blank": result.num_blank,
        }
        terminal.result(_listed(count(result.num_new, "new label"), others))
        if result.num_contradicting:
            terminal.result(
                f"Others disagree about {count(result.num_contradicting, 'image')}; "
                f"{result.num_disputed} count once a majority agrees."
            )
        for fault in result.faults:
            terminal.say(f"Left out: {fault}")
        terminal.result(next_sentence(project, project.status()))
    terminal.json(asdict(result) | {"faults": list(map(str, result.faults))})


def import_labels(
    place: Place,
    source: Path | None = None,
    *,
    file_column: str | None = None,
    class_column: str | None = None,
    add_classes: bool = False,
    partial: bool = False,
    annotator: str | None = None,
    undo: bool = False,
    terminal: options.Quiet,
) -> None:
    """Import existing labels: all of a file or, if a row is wrong, none.

    Imported labels train and cost no budget. They never measure accuracy: images that
    do are left out.

    Options:
        source ([FILE]): Table (.csv, .jsonl, .parquet), Label Studio export (.json), or
            a folder with a folder for each class.
        file_column: Column with the file name. [default: a usual name]
        class_column: Column with the class. [default: a usual name]
        add_classes: Add classes that the project lacks.
        partial: Import the good rows and list the others.
        annotator: In whose name. [default: yours]
        undo: Take back the last import.
    """
    if (source is None) != undo:
        raise errors.UsageError("Give either a file or folder to import, or --undo.")
    with Project.open(place) as project:
        if source is None:
            undone = project.undo_import()
            words = f"{count(undone.num_labels, 'imported label')} taken back."
            if undone.retired_classes:
                retired = ", ".join(undone.retired_classes)
                words += f" Classes no longer in use: {retired}."
            terminal.result(words)
            terminal.result(next_sentence(project, project.status()))
            return
        try:
            done = project.import_labels(
                source,
                annotator=annotator,
                file_column=file_column,
                class_column=class_column,
                add_classes=add_classes,
                partial=partial,
            )
        except errors.AnswersError as error:
            raise errors.DataError(
                f"{error} --partial does that; --add-classes adds missing classes."
            ) from error
        others = {
            "known already": done.num_same,
            "without a class": done.num_blank,
            "left out": len(done.left_out),
            "faulty": len(done.faults),
        }
        terminal.result(_listed(f"{count(done.num_new, 'label')} imported", others))
        if done.class_counts:
            terminal.result(f"{_counts(done.class_counts)}.")
        if done.new_classes:
            terminal.result(f"New classes: {', '.join(done.new_classes)}.")
        if done.columns:
            file, label = done.columns["file_name"], done.columns["label"]
            terminal.result(f"File names are in column '{file}', classes in '{label}'.")
        for what, faults in (("Left out", done.left_out), ("Faulty", done.faults)):
            for fault in faults[:MOST_LISTED]:
                terminal.say(f"{what}: {fault}")
            if len(faults) > MOST_LISTED:
                terminal.say(f"{what}: and {len(faults) - MOST_LISTED} more.")
        if done.num_new:
            following = command_line("import", place, "--undo")
            terminal.result(f"To undo this import: {following}")
        terminal.result(next_sentence(project, project.status()))


@classes.command()
@options.documented
def add(place: Place, names: list[str]) -> None:
    """Add classes to a project.

    Options:
        names (NAME...): New classes.
    """
    with Project.open(place) as project:
        Terminal().result(f"Classes: {', '.join(project.add_classes(names))}.")


@classes.command()
@options.documented
def rename(place: Place, old: str, new: str) -> None:
    """Rename a class; its labels stay with it.

    Options:
        old: The current name.
        new: The new name.
    """
    with Project.open(place) as project:
        Terminal().result(f"Classes: {', '.join(project.rename_class(old, new))}.")


def train(
    place: Place,
    *,
    trainer: str | None = None,
    allow_code: options.AllowCode = False,
    terminal: options.Quiet,
) -> None:
    """Train a model on the labels; first says how long it will take.

    Safe to stop or kill at any time: the same command resumes. With --trainer
    flexmatch, a network is trained from scratch on the images.

    Options:
        trainer: Another trainer, this time. [default: the project's]
    """
    with Project.open(place, allow_code=allow_code) as project:
        expected = project.expectation(trainer)
        if expected:
            terminal.say(expected)
        trained = project.train(trainer)
        record = trained.record
        time = duration(record.seconds)
        done = f"in {time}" if trained.is_new else "before, unchanged"
        labels = count(record.num_labeled, "label")
        terminal.result(f"{record.name}: {labels}, trained {done}.")
        status = project.status()
        terminal.result(accuracy_sentence(status, project.settings.noun))
        for note in status.notes:
            terminal.result(f"Note: {note}")
        terminal.result(next_sentence(project, status))


def status(place: Place, *, terminal: options.QuietOrJson) -> None:
    """Show labels, accuracy with its interval, and the next step."""
    with Project.open(place) as project:
        status = project.status()
        following = next_sentence(project, status)
    model = status.model.name if status.model else None
    kappa = status.agreement.fleiss
    confusion = [[*names, number] for names, number in sorted(status.confusion.items())]
    facts = {"agreement": {"fleiss": kappa}, "model": model, "confusion": confusion}
    terminal.json(asdict(status) | facts)
    counts = zip(status.classes, status.class_counts, status.audit_counts, strict=True)
    shown = [
        f"{name} {labels + measuring}" + f" ({measuring} to measure)" * bool(measuring)
        for name, labels, measuring in counts
    ]
    imported = f"{status.num_imported} labels, which cost no budget"
    rows = {
        "images": f"{status.num_images} ({status.num_candidates} to choose from)",
        "labels": f"{status.num_spent} of {status.budget}",
        "imported": imported if status.num_imported else None,
        "open": status.num_open,
        "skipped": status.num_skipped,
        "unsure": status.num_unsure,
        "rounds": status.num_rounds,
        "audit": f"{status.num_audited} of {status.audit_size} labeled",
        "model": model or "none yet",
        "disputed": status.num_disputed or None,
        "agreement": None if kappa is None else f"{kappa:.2f} (Fleiss' kappa)",
        "classes": ", ".join(shown),
    }
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, str(value))
    terminal.result(table)
    terminal.result(accuracy_sentence(status, project.settings.noun))
    if status.advice:
        terminal.result(status.advice)
    for note in status.notes:
        terminal.result(f"Note: {note}")
    terminal.result(f"Next: {following}")


def export(
    place: Place,
    *,
    out: Path | None = None,
    onnx: bool = False,
    as_is: bool = False,
    allow_code: options.AllowCode = False,
    terminal: options.Quiet,
) -> None:
    """Write labels, predictions, the model and a report for other programs.

    If the latest model has not learned from all labels, it is trained first where
    that takes seconds. An earlier export is replaced completely, and nothing else is
    touched.

    Options:
        out: Folder to write. [default: PROJECT/export]
        onnx: Also model.onnx (extra onnx).
        as_is: Train nothing: write the labels, and the latest model if there is one,
            even if it has not learned from all of them.
    """
    from fewlabels.report import write_project_report

    with Project.open(place, allow_code=allow_code) as project:
        try:
            done = project.export(
                out or place / "export",
                onnx=onnx,
                as_is=as_is,
                also=lambda new: write_project_report(new / "report.html", project),
            )
        except errors.UnlearnedLabelsError as error:
            raise errors.UnlearnedLabelsError(
                f"{error} Run {command_line('train', place)}, or add --as-is."
            ) from error
        num_unused = project.status().num_unused
    for path in done.files:
        terminal.result(str(path))
    terminal.result(str(done))
    if done.model is not None and num_unused:
        latest = count(num_unused, "label")
        terminal.say(f"{done.model.name} has not learned from the latest {latest}.")


def backup(place: Place, file: Path, *, terminal: options.Quiet) -> None:
    """Copy all labels, as of one moment, into a new SQLite file.

    Others may label meanwhile. To go back, put the copy in the place of the project's
    labels.sqlite. Images and models are not in it.

    Options:
        file: A new file.
    """
    with Project.open(place) as project:
        num_events = project.backup(file)
    terminal.result(f"{file}: {count(num_events, 'event')}.")


def trust(place: Place) -> None:
    """Confirm the PostgreSQL server that project.json names, on this machine.

    Needed once for a project that somebody else began: your password is sent to no
    server that you have not confirmed.
    """
    with Project.open(place, trust_store=True) as project:
        Terminal().result(f"The labels are on {project.store.place}.")


def predict(
    model: Path,
    source: Path,
    *,
    out: Path = Path("predictions.csv"),
    terminal: options.QuietOrJson,
) -> None:
    """Use an exported model on new images and write its predictions.

    One row per image: file_name, label, confidence, source, and a probability per
    class. Unreadable files are listed and left out. Earlier predictions are replaced;
    any other file is left alone.

    Options:
        model: Folder of an exported model.
        source: An image, or a folder of images, including subfolders; or rows: a file
            (.parquet, .npz, .npy) or a folder of shards.
        out: Where to write: a .csv or .parquet file.
    """
    from fewlabels.projects import predict as predicted
    from fewlabels.projects.export import check_replaceable_table

    check_replaceable_table(out)
    predictions = predicted(model, source)
    predictions.write(out)
    labels, unreadable = Counter(predictions.labels), predictions.unreadable
    for file in unreadable:
        terminal.say(f"Left out: {file}")
    reasons = {file.name: file.reason for file in unreadable}
    facts: dict[str, Any] = {"out": out, "num_images": len(predictions)}
    terminal.json(facts | {"labels": labels, "unreadable": reasons})
    rest = f" {len(unreadable)} could not be read." if unreadable else ""
    items = count(len(predictions), "row" if predictions.are_rows else "image")
    shares = _counts(dict(labels.most_common()))
    terminal.result(f"{items}: {shares}.{rest} Written to {out}")


def next_sentence(project: Project, status: Status) -> str:
    """Say what to do now, as commands."""
    folder = project.folder if project.folder.name else project.folder.resolve()
    place = shlex.quote(str(folder))  # '.' would vanish in the full stop
    chosen = (project.settings.strategy.code, project.settings.trainer.code)
    allowing = " --allow-code" if any(import_paths(chosen)) else ""
    if status.next_step is not NextStep.TELL:
        return f"Run fewlabels {status.next_step} {place}{allowing}."
    overlap, noun = project.settings.overlap, project.settings.noun
    by = f" ({overlap} people each, by --annotator)" if overlap > 1 else ""
    return (
        f"Label the {count(status.num_open, f'open {noun}')}{by} and run fewlabels "
        f"tell {place} FILE; fewlabels ask {place}{allowing} writes them again."
    )


def accuracy_sentence(status: Status, noun: str) -> str:
    """Say how good the latest model is, or why that is unknown."""
    audited = status.curve[-1].audited if status.curve else None
    if audited is None or audited.accuracy is None:
        return f"Accuracy: not measured, since {why_unmeasured(status)}."
    once = status.curve[-1].once
    return (
        f"Accuracy: {100 * audited.accuracy:.0f} % ({100 * audited.low:.0f} to "
        f"{100 * audited.high:.0f} % at the {100 * audited.level:g} % level, however "
        f"often you look; {100 * once.low:.0f} to {100 * once.high:.0f} % for a single "
        f"look), from {count(audited.num_audited, noun)} drawn at random."
    )


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in numbers.items())


def _listed(first: str, others: dict[str, int]) -> str:
    """Return a sentence of counts, without those that are zero."""
    parts = [f"{number} {words}" for words, number in others.items() if number]
    return ", ".join([first, *parts]) + "."
