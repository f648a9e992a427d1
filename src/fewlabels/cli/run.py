"""``fewlabels run, diagnose``: one run in a folder, and what its rounds were like."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewlabels.cli import options
from fewlabels.cli.terminal import Terminal, print_json, print_line, table
from fewlabels.errors import ForeignFolderError
from fewlabels.experiments.settings import RunSettings

if TYPE_CHECKING:
    from fewlabels.experiments.diagnosis import Conditioning

_STAND_IN = "*"


@options.taking(
    RunSettings,
    *("strategy", "trainer", "start", "query", "budget", "seed", "initial_models"),
    "threads",
)
def run(
    source: str | None = None,
    *,
    encoder: options.Encoder = None,
    download: options.Download = False,
    settings: Path | None = None,
    out: Path | None = None,
    tensorboard: bool = False,
    allow_code: options.AllowCode = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    **given: Any,
) -> None:
    """Simulate active learning on labeled images: train, measure, ask, repeat.

    Safe to stop or kill at any time: the same command resumes.

    Options:
        source (DATA): A data set's name, a folder, a manifest (.csv, .jsonl, .parquet)
            or an .npz file; its labels answer the queries.
        settings: YAML file with settings; options given here override it.
        out: Run folder. [default: runs/DATA-STRATEGY-TRAINER-SEED]
        tensorboard: Also write curves to DIR/tensorboard.
    """
    # An encoder that is not here is reported before torch is imported.
    features = options.found_encoder(encoder, download=download)
    import torch

    from fewlabels import data
    from fewlabels.experiments.runs import RoundLine, RunFolder, check_choices, execute
    from fewlabels.experiments.settings import settled
    from fewlabels.report import write_report

    given["data"] = source
    merged = RunSettings.merged(
        settings, given, encoder=features, allow_code=allow_code
    )
    resolved = settled(merged)
    check_choices(resolved)
    words = [Path(resolved.data.name).stem[:60], resolved.strategy.name]
    words += [resolved.trainer.name, str(resolved.seed)]
    folder = RunFolder(out or Path("runs") / "-".join(words).replace(":", "."))
    terminal = Terminal(quiet or as_json)
    with terminal.busy(), folder.listening(tensorboard=tensorboard):
        folder.check_ours()
        pool = data.load(resolved.data.name, **resolved.data.options)
        terminal.say(
            f"{len(pool)} images in the pool, {len(pool.test or ())} to measure on, "
            f"{pool.num_classes} classes. Folder: {folder.path}"
        )
        torch.set_num_threads(resolved.threads)
        for done in execute(resolved, folder.path, pool):
            right = done.accuracy
            accuracy = "not measured" if right is None else f"{100 * right:5.1f} %"
            asked = f"asked for {len(done.query)} more" if len(done.query) else "done"
            terminal.result(
                f"{done.num_labeled:>6} labels   accuracy {accuracy}   {asked}"
            )
            if as_json:
                print_line(RoundLine.of(done, pool).to_json())
        # The settings there are those of this command, which named or allowed them.
        report = write_report(folder.report_file, folder, pool, allow_code=True)
    terminal.result(f"Report: {report}")


def diagnose(
    path: Path,
    *,
    allow_code: options.AllowCode = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Show the spectrum of each round's labeled items, from its saved network.

    The smallest eigenvalue of their Gram matrix, the same including the query, the
    ceiling no set can exceed, rank, condition, and the learning rate above which
    linearized gradient descent diverges. Nothing is trained or written.

    Options:
        path (DIR): Run folder, made by 'run'.
    """
    import torch

    from fewlabels import data
    from fewlabels.experiments.diagnosis import diagnose as diagnosed
    from fewlabels.experiments.runs import RunFolder

    folder = RunFolder(path)
    if not folder.settings_file.is_file():
        inside = sorted(f"'{file.parent}'" for file in path.glob("*/run.json"))
        remedy = "Give a run folder, such as one made by 'fewlabels run'."
        if inside:
            remedy = f"It contains runs: give one of {', '.join(inside)}."
        raise ForeignFolderError(f"'{path}' is no run folder: no run.json. {remedy}")
    settings = folder.settings()
    torch.set_num_threads(settings.threads)
    terminal = Terminal(quiet or as_json)
    rows = []
    with terminal.busy():
        pool = data.load(settings.data.name, **settings.data.options)
        for row in diagnosed(folder, pool, allow_code=allow_code):
            rows.append(row)
            if as_json:
                print_json(row.to_json())
    if not rows:
        terminal.say(f"'{path}' contains no finished round yet.")
        return
    names = [*("labels", "λmin", "λmin\nwith\nquery", "ceiling", "rank")]
    names += ["pool\nrank", "condition", "step\nlimit"]
    title = f"{settings.strategy.name} on {settings.data.name}"
    drawn = table(
        *(*names, "kernel"),
        right=(*names, "kernel"),
        title=f"Conditioning of the labeled items: {title}",
        collapse_padding=True,
    )
    drawn.columns[-1].justify = "left"
    for row in rows:
        own = row.spectrum
        smallest, rank, condition = (
            (own.smallest, own.rank, own.condition) if own else (None, None, None)
        )
        numbers = [smallest, row.value, row.ceiling, rank, row.feature_rank]
        numbers += [condition, row.step_limit]
        kernel = row.missing or row.kernel + (_STAND_IN if row.is_stand_in else "")
        drawn.add_row(str(row.num_labeled), *map(_number, numbers), kernel)
    drawn.width = terminal.out.measure(
        drawn, options=terminal.out.options.update(width=200)
    ).maximum
    terminal.result(drawn)
    for remark in remarks(rows):
        terminal.result(remark)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "∞" if math.isinf(value) else f"{value:.3g}"


def remarks(rows: Sequence["Conditioning"]) -> list[str]:
    """Say what the marks in the table of a diagnosis mean, where there are some."""
    stand_ins = [row for row in rows if row.is_stand_in and row.missing is None]
    others = {row.query_kernel: row.kernel for row in stand_ins if row.query_kernel}
    said = [
        f"{_STAND_IN} The run used {'its own' if ':' in used else 'the'} kernel "
        f"'{used}', which is not computed here: the values shown are those of the "
        f"{shown} kernel instead."
        for used, shown in others.items()
    ]
    if stand_ins and not others:
        said.append(
            f"{_STAND_IN} The round asked for nothing, or did not use a kernel: shown "
            "is the run's earlier kernel, or else the last layer's."
        )
    if any(row.spectrum and row.spectrum.rank < row.num_labeled for row in rows):
        said.append(
            "A rank below the number of labels means a singular matrix: its smallest "
            "eigenvalue is zero up to rounding, and no query can raise it."
        )
    return said
