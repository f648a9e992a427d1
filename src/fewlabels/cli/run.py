"""``fewlabels run, diagnose, check``: one run, its rounds, and a part of your own."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

from typer import Exit

from fewlabels.cli import options
from fewlabels.cli.terminal import print_line, table
from fewlabels.errors import ForeignFolderError
from fewlabels.experiments.settings import RunSettings
from fewlabels.names import check_code

_MARKS = {"passed": "✓", "failed": "✗", "refused": "✓"}


@options.taking(
    RunSettings,
    *("strategy", "trainer", "start", "query", "budget", "seed", "initial_models"),
    "threads",
)
def run(
    source: str | None = None,
    *,
    encoder: options.Encoder = None,
    settings: Path | None = None,
    out: Path | None = None,
    tensorboard: bool = False,
    predictions: bool = False,
    allow_code: options.AllowCode = False,
    terminal: options.QuietOrJson,
    **given: Any,
) -> None:
    """Simulate active learning on labeled images: train, measure, ask, repeat.

    Safe to stop or kill at any time: the same command resumes.

    Options:
        source (DATA): A data set's name, a folder, a manifest (.csv, .jsonl, .parquet),
            an .npz file, or module:name of a data set; its labels answer the queries.
        settings: YAML file with settings; options given here override it.
        out: Run folder. [default: runs/DATA-STRATEGY-TRAINER-SEED]
        tensorboard: Also write curves to DIR/tensorboard.
        predictions: Also write the probabilities of every round.
    """
    import torch

    from fewlabels import data
    from fewlabels.experiments.runs import RoundLine, RunFolder, check_choices, execute
    from fewlabels.report import write_report

    given["data"] = source
    resolved = RunSettings.merged(
        settings, given, encoder=encoder, allow_code=allow_code
    )
    check_choices(resolved)
    name = (
        f"{Path(resolved.data.name).stem[:60]}-{resolved.strategy.name}-"
        f"{resolved.trainer.name}-{resolved.seed}"
    )
    folder = RunFolder(out or Path("runs") / name.replace(":", "."))
    with folder.listening(tensorboard=tensorboard):
        folder.check_ours()
        pool = data.load(resolved.data.name, **resolved.data.options)
        terminal.say(
            f"{len(pool)} images in the pool, {len(pool.test or ())} to measure on, "
            f"{pool.num_classes} classes. Folder: {folder.path}"
        )
        torch.set_num_threads(resolved.threads)
        for done in execute(resolved, folder.path, pool, predictions=predictions):
            share = done.accuracy
            right = "not measured" if share is None else f"{100 * share:5.1f} %"
            asked = f"asked for {len(done.query)} more" if len(done.query) else "done"
            terminal.result(
                f"{done.num_labeled:>6} labels   accuracy {right}   {asked}"
            )
            if terminal.as_json:
                print_line(RoundLine.of(done, pool).to_json())
        # The settings there are those of this command, which named or allowed them.
        report = write_report(folder.report_file, folder, pool, allow_code=True)
    terminal.result(f"Report: {report}")


def diagnose(
    path: Path,
    *,
    allow_code: options.AllowCode = False,
    terminal: options.QuietOrJson,
) -> None:
    """Show the spectrum of each round's labeled items, from its saved network.

    The smallest eigenvalue of their Gram matrix, the same including the query, the
    ceiling no set can exceed, rank, condition, the learning rate above which linearized
    gradient descent diverges, and the error that ridge regression with the kernel of
    the untrained network predicts, for these items and for as many random ones.
    Nothing is trained or written.

    Options:
        path (DIR): Run folder, made by 'run'.
    """
    import torch

    from fewlabels import data
    from fewlabels.experiments.diagnosis import diagnose as diagnosed
    from fewlabels.experiments.runs import RunFolder

    folder = RunFolder(path)
    if not folder.settings_file.is_file():
        raise ForeignFolderError(
            f"'{path}' has no run.json; give a folder that 'fewlabels run' made."
        )
    settings = folder.settings()
    torch.set_num_threads(settings.threads)
    check_code(folder.settings_file, settings.data_code, allow_code)
    pool = data.load(settings.data.name, **settings.data.options)
    rows = list(diagnosed(folder, pool, allow_code=allow_code))
    if not rows:
        terminal.say(f"'{path}' contains no finished round yet.")
        return
    names = ["labels", "λmin", "λmin\nwith\nquery", "ceiling", "rank", "pool\nrank"]
    names += ["condition", "step\nlimit", "predicted\nerror", "of random\nitems"]
    title = f"{settings.strategy.name} on {settings.data.name}"
    drawn = table(
        *names,
        right=names,
        title=f"Conditioning of the labeled items: {title}",
        collapse_padding=True,
    )
    drawn.add_column("kernel", no_wrap=True)
    for row in rows:
        terminal.json(row.to_json())
        own, expected = row.spectrum, row.predicted
        numbers: list[Any] = [own and own.smallest, row.value, row.ceiling]
        numbers += [own and own.rank, row.feature_rank, own and own.condition]
        numbers += [row.step_limit, expected and expected.error]
        numbers.append(expected and expected.random_error)
        shown = ["–" if number is None else f"{number:.3g}" for number in numbers]
        kernel = row.missing or row.kernel + "*" * row.is_stand_in
        drawn.add_row(str(row.num_labeled), *shown, kernel)
    drawn.width = terminal.out.measure(
        drawn, options=terminal.out.options.update(width=200)
    ).maximum
    terminal.result(drawn)
    stand_ins = [row for row in rows if row.is_stand_in and row.missing is None]
    if stand_ins:
        used = {row.query_kernel or "none" for row in stand_ins}
        terminal.result(
            f"* A kernel stands in; the round's own ({', '.join(sorted(used))}) is "
            "not computed here."
        )
    if any(row.predicted and not row.predicted.is_from_labels for row in rows):
        terminal.result(
            "Not all labels of the pool are known: errors are what is expected for "
            "labels from the Gaussian process of the kernel."
        )


def check(
    thing: str,
    *,
    kind: str | None = None,
    option: options.StrategyOptions = None,
    data: str | None = None,
    quick: bool = False,
    terminal: options.QuietOrJson,
) -> None:
    """Test a strategy, trainer, classifier or kernel against what its kind promises.

    The exit code is 0 if nothing failed, 1 if something did.

    Options:
        thing: module:Class or module:function, or a built-in name.
        kind: strategy, trainer, classifier or kernel, if ambiguous.
        data: What a trainer or a classifier is tried on: a name, folder or file; digits
            by default.
        quick: Train few steps, and end within a minute.
    """
    from fewlabels.data import load
    from fewlabels.experiments.conformance import check as findings_of

    pool = None if data is None else load(data)
    with redirect_stdout(sys.stderr):  # what it prints is no result
        # Another kind is refused there.
        given: Any = {"kind": kind, "pool": pool, "quick": quick}
        findings = list(findings_of(thing, options.read_options(option), **given))
    title = f"What {thing} promises"
    drawn = table("", "promise", "seen", title=title, collapse_padding=True)
    drawn.columns[1].no_wrap = True
    for finding in findings:
        terminal.json(asdict(finding))
        is_plain = finding.outcome in {"passed", "failed"}
        seen = finding.detail if is_plain else f"{finding.outcome}: {finding.detail}"
        drawn.add_row(_MARKS.get(finding.outcome, "–"), finding.name, seen)
    failed = [finding.name for finding in findings if finding.outcome == "failed"]
    terminal.result(drawn)
    if failed:
        terminal.result(f"{thing} breaks {len(failed)}: {', '.join(failed)}.")
        raise Exit(1)
    terminal.result(f"{thing} keeps every promise that was checked.")
