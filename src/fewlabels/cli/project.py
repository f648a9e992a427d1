"""``fewlabels init, ask, tell, train, ..., backup``: a project from the shell."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fewlabels.cli.options import (
    AllowCode,
    Download,
    Encoder,
    Json,
    Quiet,
    StrategyName,
    found_encoder,
)
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.errors import AnswersError, DataError, UnlearnedLabelsError
from fewlabels.integers import count
from fewlabels.naming import DEFAULT_STRATEGY, import_paths
from fewlabels.projects import NextStep, Project, Status, Told
from fewlabels.report.project_headline import why_unmeasured

Place = Annotated[Path, typer.Argument(metavar="PROJECT", help="Project folder.")]


def init(
    place: Place,
    *,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Image folder; images stay there, unchanged. May be left out with "
            "--encoder vectors:FILE."
        ),
    ] = None,
    classes: Annotated[str, typer.Option(help="Names, such as cat,dog,other.")],
    budget: Annotated[int, typer.Option(help="Total number of labels.")],
    audit: Annotated[
        int | None,
        typer.Option(help="Labels used only to measure. [default: a fifth]"),
    ] = None,
    query: Annotated[int, typer.Option(help="Labels asked for in each round.")] = 20,
    overlap: Annotated[int, typer.Option(help="People who label each image.")] = 1,
    strategy: StrategyName = DEFAULT_STRATEGY,
    trainer: Annotated[
        str | None,
        typer.Option(help="Name or module:Class. [default: what fits the images]"),
    ] = None,
    encoder: Encoder = None,
    download: Download = False,
    quality: Annotated[
        str | None,
        typer.Option(
            help="Pixels a side for a pretrained network: fast (96), normal (160), "
            "best (224). [default: normal]"
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(help="Resize images to this side. [default: what fits]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    store: Annotated[
        str | None,
        typer.Option(help="PostgreSQL address. [default: a file in PROJECT]"),
    ] = None,
    shares: Annotated[
        str,
        typer.Option(help="Class frequencies: unknown, even, or 40,35,25."),
    ] = "unknown",
    quiet: Quiet = False,
) -> None:
    """Start a project: images to label, classes, a label budget."""
    features = found_encoder(encoder, download=download)
    terminal = Terminal.open(quiet=quiet)
    with (
        terminal.busy(),
        Project.create(
            place,
            images,
            classes.split(","),
            budget=budget,
            audit=audit,
            query=query,
            overlap=overlap,
            strategy=strategy,
            trainer=trainer,
            encoder=features,
            quality=quality,
            size=size,
            seed=seed,
            store=store,
            shares=shares,
        ) as project,
    ):
        settings = project.settings
        status = project.status()
        terminal.result(
            f"{count(status.num_images, settings.noun)}, {status.num_candidates:,} to "
            "choose from (copies count once)."
        )
        terminal.result(f"{settings.reason} Trainer: {settings.trainer.name}.")
        if settings.audit:
            labels = min(settings.budget, status.num_candidates)
            terminal.result(
                f"{settings.audit} of the {labels} labels will be drawn at random and "
                "only measure accuracy; --audit changes that."
            )
        terminal.result(next_sentence(project, status))


def ask(
    place: Place,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .csv, .jsonl, or .json for Label Studio. "
            "[default: PROJECT/round-NNN.csv]"
        ),
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="How many images. [default: the project's]")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="Name or module:Class. [default: the project's]")
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Leave the open images and choose new ones.")
    ] = False,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Choose the next images to label and write them to a file.

    The first query needs no labels and no trained model. Images that are still open
    are written again. A .csv or .jsonl file comes with a contact sheet, .html, that
    shows the numbered images.
    """
    from fewlabels.report import sheet_path, write_contact_sheet

    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy(), Project.open(place, allow_code=allow_code) as project:
        asked = project.ask(size=size, strategy=strategy, anew=anew)
        path = out or place / f"round-{asked.step:03d}.csv"
        questions = project.questions(asked)
        is_seen = project.settings.images is not None and path.suffix.lower() != ".json"
        sheet = sheet_path(path) if is_seen else None
        project.write_questions(questions, path)
        if sheet is not None:
            write_contact_sheet(sheet, project, questions, path)
        by = f"{asked.strategy} on {asked.model or 'an untrained network'}"
        what = "chosen by" if asked.is_new else "still open, chosen by"
        audit = f", {asked.num_audit} of them to measure" if asked.num_audit else ""
        terminal.result(
            f"Round {asked.step}: {count(len(asked.items), project.settings.noun)}"
            f"{audit}, {what} {by}."
        )
        if not asked.is_new and (strategy or size):
            given = "--strategy" if strategy else "--size"
            terminal.say(
                f"{given} is for a new round, and this one is open; --anew leaves it "
                "and chooses again."
            )
        words = shlex.join(("fewlabels", "tell", str(place), str(path)))
        if sheet is not None:
            terminal.result(f"Look at them in {sheet}, a page for the browser.")
        terminal.result(f"Label them in {path}, then: {words}")
    if as_json:
        facts = {"round": asked.step, "strategy": asked.strategy, "model": asked.model}
        ids = [one.item for one in asked.items]
        facts |= {"file": str(path), "sheet": None if sheet is None else str(sheet)}
        print_line(json.dumps(facts | {"ids": ids}))


def tell(
    place: Place,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Labels: .csv, .jsonl, or Label Studio's .json."
        ),
    ],
    *,
    annotator: Annotated[
        str | None, typer.Option(help="Who labeled, if FILE does not say.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take the good rows and list the others.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read labels from a file: all of them or, if a row is wrong, none."""
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy(), Project.open(place) as project:
        try:
            told = project.tell(answers, annotator=annotator, partial=partial)
        except AnswersError as error:
            raise DataError(f"{error} --partial does that.") from error
        terminal.result(_described(told))
        if told.num_contradicting:
            terminal.result(_contradiction(told))
        for fault in told.faults:
            terminal.say(f"Left out: {fault}")
        terminal.result(next_sentence(project, project.status()))
    if as_json:
        faults = [str(fault) for fault in told.faults]
        print_line(json.dumps(asdict(told) | {"faults": faults}))


def train(
    place: Place,
    *,
    trainer: Annotated[
        str | None,
        typer.Option(help="Another trainer, this time. [default: the project's]"),
    ] = None,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on the labels; first says how long it will take.

    Safe to stop or kill at any time: the same command resumes. With --trainer
    flexmatch, a network is trained from scratch on the images.
    """
    from fewlabels.projects import duration

    terminal = Terminal.open(quiet=quiet)
    with terminal.busy(), Project.open(place, allow_code=allow_code) as project:
        expected = project.expectation(trainer)
        if expected:
            terminal.say(expected)
        trained = project.train(trainer)
        record = trained.record
        done = (
            f"in {duration(record.seconds)}" if trained.is_new else "before, unchanged"
        )
        terminal.result(
            f"{record.name}: {count(record.num_labeled, 'label')}, trained {done}."
        )
        status = project.status()
        terminal.result(accuracy_sentence(status, project.settings.noun))
        for note in status.notes:
            terminal.result(f"Note: {note}")
        terminal.result(next_sentence(project, status))


def status(place: Place, *, quiet: Quiet = False, as_json: Json = False) -> None:
    """Show labels, accuracy with its interval, and the next step."""
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy(), Project.open(place) as project:
        status = project.status()
        following = next_sentence(project, status)
    if as_json:
        print_line(json.dumps(_facts(status), default=str))
        return
    terminal.result(_table(status))
    terminal.result(accuracy_sentence(status, project.settings.noun))
    if status.gain is not None:
        terminal.result(str(status.gain))
    for note in status.notes:
        terminal.result(f"Note: {note}")
    terminal.result(f"Next: {following}")


def export(
    place: Place,
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write. [default: PROJECT/export]")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Also model.onnx (extra onnx).")
    ] = False,
    as_is: Annotated[
        bool,
        typer.Option(
            "--as-is",
            help="Train nothing: write the labels, and the latest model if there is "
            "one, even if it has not learned from all of them.",
        ),
    ] = False,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
) -> None:
    """Write labels, predictions, the model and a report for other programs.

    If the latest model has not learned from all labels, it is trained first where
    that takes seconds. An earlier export is replaced completely, and nothing else is
    touched.
    """
    from fewlabels.report import write_project_report

    terminal = Terminal.open(quiet=quiet)
    with terminal.busy(), Project.open(place, allow_code=allow_code) as project:
        try:
            done = project.export(
                out or place / "export",
                onnx=onnx,
                as_is=as_is,
                also=lambda new: write_project_report(new / "report.html", project),
            )
        except UnlearnedLabelsError as error:
            train_it = shlex.join(("fewlabels", "train", str(place)))
            raise UnlearnedLabelsError(
                f"{error} Nothing was written. To train: {train_it}; to export as it "
                "is: --as-is."
            ) from error
        num_unused = project.status().num_unused
    for path in done.files:
        terminal.result(str(path))
    terminal.result(str(done))
    if done.model is not None and num_unused:
        latest = count(num_unused, "label")
        terminal.say(f"{done.model.name} has not learned from the latest {latest}.")


def backup(
    place: Place,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    *,
    quiet: Quiet = False,
) -> None:
    """Copy all labels, as of one moment, into a new SQLite file.

    Others may label meanwhile. To go back, put the copy in the place of the project's
    labels.sqlite. Images and models are not in it.
    """
    with Project.open(place) as project:
        num_events = project.backup(file)
    Terminal.open(quiet=quiet).result(f"{file}: {count(num_events, 'event')}.")


def trust(place: Place) -> None:
    """Confirm the PostgreSQL server that project.json names, on this machine.

    Needed once for a project that somebody else began: your password is sent to no
    server that you have not confirmed.
    """
    with Project.open(place, trust_store=True) as project:
        where = project.store.database.place
    Terminal.open(quiet=False).result(f"The labels are on {where}.")


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
    return (
        f"Accuracy: {100 * audited.accuracy:.0f} % ({100 * audited.low:.0f} to "
        f"{100 * audited.high:.0f} % at the {100 * audited.level:g} % level), from "
        f"{count(audited.num_audited, noun)} drawn at random."
    )


def _described(told: Told) -> str:
    parts = [count(told.num_new, "new label")]
    parts += [f"{told.num_changed} changed"] if told.num_changed else []
    parts += [f"{told.num_same} already known"] if told.num_same else []
    parts += [f"{told.num_skipped} skipped or unsure"] if told.num_skipped else []
    parts += [f"{told.num_blank} left blank"] if told.num_blank else []
    return ", ".join(parts) + "."


def _contradiction(told: Told) -> str:
    """Say that people disagree, and what becomes of the images."""
    num, num_out = told.num_contradicting, told.num_disputed
    said = f"Another annotator disagrees about {count(num, 'image')}"
    if not num_out:
        return f"{said}; the majority counts."
    who = "It" if num == 1 else "They" if num_out == num else f"{num_out} of them"
    left = "is left" if num_out == 1 else "are left"
    return (
        f"{said}. {who} {left} out of training and measuring until a majority agrees."
    )


def _table(status: Status) -> Any:
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    rows: list[tuple[str, str]] = [
        ("images", f"{status.num_images} ({status.num_candidates} to choose from)"),
        ("labels", f"{status.num_spent} of {status.budget}"),
        ("imported", f"{status.num_imported} labels, which cost no budget"),
        ("open", str(status.num_open)),
        ("skipped", str(status.num_skipped)),
        ("unsure", str(status.num_unsure)),
        ("rounds", str(status.num_rounds)),
        ("audit", f"{status.num_audited} of {status.audit_size} labeled"),
        ("model", status.model.name if status.model else "none yet"),
    ]
    if not status.num_imported:
        rows = [row for row in rows if row[0] != "imported"]
    if status.num_disputed:
        rows.append(("disputed", str(status.num_disputed)))
    kappa = status.agreement.fleiss
    if kappa is not None:
        rows.append(("agreement", f"{kappa:.2f} (Fleiss' kappa)"))
    counts = zip(status.classes, status.class_counts, status.audit_counts, strict=True)
    shown = [
        f"{name} {labels + measuring}" + f" ({measuring} to measure)" * bool(measuring)
        for name, labels, measuring in counts
    ]
    rows.append(("classes", ", ".join(shown)))
    for name, value in rows:
        table.add_row(name, value)
    return table


def _facts(status: Status) -> dict[str, Any]:
    """Return a status as JSON can hold it."""
    facts = asdict(status)
    facts["agreement"] = {"fleiss": status.agreement.fleiss}
    facts["model"] = status.model.name if status.model else None
    return facts
