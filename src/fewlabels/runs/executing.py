"""A run in a folder: begin it, go on with it, never lose it."""

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fewlabels import strategies, training
from fewlabels.data.contents import row_digest
from fewlabels.errors import DataChangedWarning, DataError, UncheckedWarning
from fewlabels.loop import check_plan, hidden, rounds, starting_answers
from fewlabels.oracles import TableOracle
from fewlabels.pool import Answers, Pool, Round, Split
from fewlabels.protocols import Strategy, Trainer
from fewlabels.runs.folder import RunFolder
from fewlabels.runs.lines import RoundLine, has_ended
from fewlabels.runs.made import with_made
from fewlabels.runs.replay import answers_of
from fewlabels.runs.settings import RunSettings
from fewlabels.runs.surroundings import environment
from fewlabels.runs.timing import Stopwatch, TimedStrategy, TimedTrainer

_ROWS_HASH = "rows_hash"


def execute(
    settings: RunSettings, path: Path, pool: Pool, *, beginning: Path | None = None
) -> Iterator[Round]:
    """Do a run in a folder, or go on where it was interrupted.

    Args:
        settings: What to do.
        path: The folder of the run.
        pool: What ``settings.data`` stands for, with its labels.
        beginning: The folder of a run that begins alike: same data, trainer, start and
            seeds. Its starting set and first training are copied and not made again;
            the outcome is the same.

    Yields:
        Every round, those of earlier sittings first.
    """
    strategy, trainer = check_choices(settings)
    settings = with_made(settings, strategy, trainer)
    check_plan(pool, start=settings.start, query=settings.query, budget=settings.budget)
    trainer.check(pool)  # before anything is written down
    folder = RunFolder(path)
    with folder.owned():
        facts = _data_facts(pool)
        folder.begin(settings, {"data": facts, **environment()})
        _check_same_data(folder, facts)
        _tell_unchecked(folder)
        if beginning is not None and folder.start() is None:
            folder.begin_like(RunFolder(beginning))
        yield from _finished_and_new(folder, settings, pool, strategy, trainer)


def check_choices(settings: RunSettings) -> tuple[Strategy, Trainer]:
    """Return strategy and trainer, or raise; quick, so ask before data are loaded."""
    return (
        strategies.resolve(settings.strategy.name, settings.strategy.options),
        training.resolve(settings.trainer.name, settings.trainer.options),
    )


def _finished_and_new(
    folder: RunFolder,
    settings: RunSettings,
    pool: Pool,
    strategy: Strategy,
    trainer: Trainer,
) -> Iterator[Round]:
    """Replay what the folder holds, then go on until the budget is spent."""
    positions = {name: index for index, name in enumerate(pool.ids)}
    lines = folder.lines()
    start = _start(folder, settings, pool, trainer, positions)
    asked, withheld = hidden(pool, settings.budget), None
    if settings.zero_shot and not lines:
        withheld = start
    else:
        asked = asked.with_answers(start)
    history = [line.to_round(positions) for line in lines]
    for finished in history:
        asked = asked.with_answers(finished.answers)
        yield finished
    if has_ended(lines):
        return
    watch = Stopwatch()
    for finished in rounds(
        asked,
        trainer=TimedTrainer(trainer, watch),
        strategy=TimedStrategy(strategy, watch),
        oracle=TableOracle(pool.labels),
        query=settings.query,
        budget=settings.budget,
        seed=settings.all_seeds,
        test=pool.test,
        history=history,
        withheld=withheld,
        workspace=folder.path,
    ):
        folder.append(RoundLine.of(finished, pool), watch.reading())
        yield finished


def _start(
    folder: RunFolder,
    settings: RunSettings,
    pool: Pool,
    trainer: Trainer,
    positions: Mapping[str, int],
) -> Answers:
    """Return the labels to begin with: those written down, or new ones."""
    written = folder.start()
    if written is None:
        answers = starting_answers(
            pool,
            settings.start,
            settings.all_seeds,
            trainer=trainer,
            num_models=settings.initial_models,
            workspace=folder.path,
        )
        pairs = zip(answers.indices.tolist(), answers.labels.tolist(), strict=True)
        written = {pool.ids[index]: label for index, label in pairs}
        folder.write_start(written)
    return answers_of(written, positions)


def _data_facts(pool: Pool) -> dict[str, Any]:
    test = pool.test
    parts = [pool.images, *([] if test is None else [test.images])]
    rows = row_digest(*parts)
    return {
        "num_items": len(pool),
        "num_test": 0 if test is None else len(test),
        "classes": list(pool.classes),
        "shape": list(pool.images.shape),
        "hash": _digest("\n".join(pool.ids).encode()),
        "labels_hash": _digest(pool.labels.numpy().tobytes()),
        "test_hash": "" if test is None else _test_digest(test),
        **({_ROWS_HASH: rows} if rows else {}),
    }


def are_same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether facts are of the same data; earlier ones may not tell of rows."""
    told = now.keys() - ({_ROWS_HASH} - before.keys())
    return all(before.get(name) == now[name] for name in told)


def _test_digest(test: Split) -> str:
    return _digest(test.labels.numpy().tobytes() + "\n".join(test.ids).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tell_unchecked(folder: RunFolder) -> None:
    """Say so where damage to files would not be noticed."""
    folder.start()
    folder.lines()  # what cannot be read is told first
    if not folder.is_checked():
        msg = (
            f"The run in '{folder.path}' was begun by a version that wrote no "
            "checksums: if something else changes its files, nobody notices."
        )
        warnings.warn(msg, UncheckedWarning, stacklevel=2)


def _check_same_data(folder: RunFolder, now: Mapping[str, Any]) -> None:
    """Warn where items came or went; refuse where labels would change their meaning.

    Labels are kept by id, so items may come and go. Class numbers are positions in the
    list of classes, so that list may not change.
    """
    before = folder.description()["data"]
    if before["classes"] != now["classes"]:
        raise DataError(
            f"The run in '{folder.path}' began with the classes {before['classes']}; "
            f"the data now have {now['classes']}, so its labels would mean something "
            "else. Restore the data, or give another folder."
        )
    if not are_same_data(before, now):
        rows = ""
        if before.get(_ROWS_HASH, now.get(_ROWS_HASH)) != now.get(_ROWS_HASH):
            rows = "; their rows hold other numbers"
        msg = (
            f"The data changed since the run in '{folder.path}' began: "
            f"{before['num_items']} items and {before['num_test']} to measure on then, "
            f"{now['num_items']} and {now['num_test']} now{rows}. Labels are kept by "
            "file and content, so none moves to another image; later rounds use what "
            "is there now."
        )
        warnings.warn(msg, DataChangedWarning, stacklevel=2)
