"""``fewlabels run``: one run in a folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fewlabels.cli.options import (
    AllowCode,
    Download,
    Encoder,
    Json,
    Quiet,
    found_encoder,
)
from fewlabels.cli.terminal import Terminal, print_line
from fewlabels.naming import DEFAULT_STRATEGY

if TYPE_CHECKING:
    from fewlabels.pool import Pool, Round
    from fewlabels.runs import RunFolder, RunSettings


def run(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A data set's name, a folder, a manifest (.csv, .jsonl, .parquet) or "
            "an .npz file; its labels answer the queries.",
        ),
    ] = None,
    *,
    strategy: Annotated[
        str | None,
        typer.Option(help=f"Name or module:Class. [default: {DEFAULT_STRATEGY}]"),
    ] = None,
    trainer: Annotated[
        str | None, typer.Option(help="Name or module:Class. [default: fixmatch-darp]")
    ] = None,
    encoder: Encoder = None,
    download: Download = False,
    start: Annotated[
        int | None, typer.Option(help="Labels at the start. [default: 10]")
    ] = None,
    query: Annotated[
        int | None, typer.Option(help="Labels asked for in each round. [default: 20]")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Labels at the end. [default: 50]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. [default: 0]")] = None,
    initial_models: Annotated[
        int | None,
        typer.Option(help="Start with the median of this many models. [default: 1]"),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads; results depend on them. [default: 1]")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML file with settings; options given here override it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder. [default: runs/DATA-STRATEGY-TRAINER-SEED]"),
    ] = None,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Also write curves to DIR/tensorboard."),
    ] = False,
    allow_code: AllowCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Simulate active learning on labeled images: train, measure, ask, repeat.

    Safe to stop or kill at any time: the same command resumes.
    """
    features = found_encoder(encoder, download=download)  # before torch is imported
    from fewlabels import data
    from fewlabels.report import write_report
    from fewlabels.runs import RoundLine, RunFolder, RunSettings, check_choices, settled

    given: dict[str, Any] = {
        "data": source,
        "strategy": strategy,
        "trainer": trainer,
        "start": start,
        "query": query,
        "budget": budget,
        "seed": seed,
        "initial_models": initial_models,
        "threads": threads,
    }
    merged = RunSettings.merged(
        settings, given, encoder=features, allow_code=allow_code
    )
    resolved = settled(merged)
    check_choices(resolved)
    folder = RunFolder(out or _default_folder(resolved))
    terminal = Terminal.open(quiet=quiet or as_json)
    with terminal.busy(), folder.listening(tensorboard=tensorboard):
        folder.check_ours()
        pool = data.load(resolved.data.name, **resolved.data.options)
        terminal.say(
            f"{len(pool)} images in the pool, {len(pool.test or ())} to measure on, "
            f"{pool.num_classes} classes. Folder: {folder.path}"
        )
        for finished in in_folder(resolved, folder, pool):
            terminal.result(described(finished))
            if as_json:
                print_line(RoundLine.of(finished, pool).to_json())
        # The settings there are those of this command, which named or allowed them.
        report = write_report(folder.report_file, [folder], pool, allow_code=True)
    terminal.result(f"Report: {report}")


def in_folder(
    settings: "RunSettings", folder: "RunFolder", pool: "Pool"
) -> "Iterator[Round]":
    """Do a run with the number of threads in its settings."""
    import torch

    from fewlabels.runs import execute

    torch.set_num_threads(settings.threads)
    return execute(settings, folder.path, pool)


def described(finished: "Round") -> str:
    """Describe a round in one line."""
    accuracy = "not measured"
    if finished.accuracy is not None:
        accuracy = f"{100 * finished.accuracy:5.1f} %"
    asked = f"asked for {len(finished.query)} more" if len(finished.query) else "done"
    return f"{finished.num_labeled:>6} labels   accuracy {accuracy}   {asked}"


def _default_folder(settings: "RunSettings") -> Path:
    words = [Path(settings.data.name).stem[:60], settings.strategy.name]
    words += [settings.trainer.name, str(settings.seed)]
    return Path("runs") / "-".join(words).replace(":", ".")
