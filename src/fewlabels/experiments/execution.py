"""A run in a folder: begin it, resume it, never lose it."""

import hashlib
import platform
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fewlabels import strategies, training
from fewlabels.data.contents import row_digest
from fewlabels.errors import DataChangedWarning, DataError, SettingsChangedError
from fewlabels.experiments.acquisition import (
    TableOracle,
    check_plan,
    hidden,
    rounds,
    starting_answers,
    without,
)
from fewlabels.experiments.run_folder import (
    RoundLine,
    RunFolder,
    answers_of,
    has_ended,
)
from fewlabels.experiments.settings import RunSettings, identity_changes
from fewlabels.pool import Pool, Round
from fewlabels.protocols import Strategy, Trainer

_ROWS_HASH = "rows_hash"
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_PEAK_ONLY = "5"  # forgets the peak and nothing else (man 5 proc)


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

    Raises:
        SettingsChangedError: If strategy or trainer are not what was planned.
    """
    strategy, trainer = check_choices(settings)
    resolved = settings.model_copy(
        update={
            "strategy": settings.strategy.with_identity(strategy),
            "trainer": settings.trainer.with_identity(trainer),
        }
    )
    changed = identity_changes(settings.made, resolved.made)
    if changed:
        raise SettingsChangedError(
            f"The run was planned with other code or options: {'; '.join(changed)}. "
            "Plan it again, and make sure that every machine has the same code."
        )
    check_plan(pool, start=settings.start, query=settings.query, budget=settings.budget)
    trainer.check(pool)  # before anything is written down
    folder = RunFolder(path)
    positions = {name: index for index, name in enumerate(pool.ids)}
    with folder.owned():
        facts = _data_facts(pool)
        folder.begin(resolved, {"data": facts, **environment()})
        _check_same_data(folder, facts)
        if beginning is not None and folder.start() is None:
            folder.begin_like(RunFolder(beginning))
        lines, written = folder.lines(), folder.start()
        if written is None:
            answers = starting_answers(
                pool,
                settings.start,
                settings.all_seeds,
                trainer=trainer,
                num_models=settings.initial_models,
                workspace=path,
            )
            pairs = zip(answers.indices.tolist(), answers.labels.tolist(), strict=True)
            written = {pool.ids[index]: label for index, label in pairs}
            folder.write_start(written)
        start, known = answers_of(written, positions), hidden(pool, settings.budget)
        is_withheld = settings.zero_shot and not lines
        if not is_withheld:
            known = known.with_answers(start)
        history = [line.to_round(positions) for line in lines]
        for finished in history:
            known = known.with_answers(finished.answers)
            yield finished
        if has_ended(lines):
            return
        watch = Stopwatch()
        for finished in rounds(
            known,
            trainer=trainer,
            strategy=strategy,
            oracle=TableOracle(pool.labels),
            query=settings.query,
            budget=settings.budget,
            seed=settings.all_seeds,
            test=pool.test,
            history=history,
            withheld=start if is_withheld else None,
            workspace=path,
            timer=watch.running,
        ):
            folder.append(RoundLine.of(finished, pool), watch.reading())
            yield finished


def check_choices(settings: RunSettings) -> tuple[Strategy, Trainer]:
    """Return strategy and trainer, or raise; quick, so ask before data are loaded."""
    return (
        strategies.resolve(settings.strategy.name, settings.strategy.options),
        training.resolve(settings.trainer.name, settings.trainer.options),
    )


def environment() -> dict[str, Any]:
    """Return versions and platform of this process, as JSON can hold them."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("fewlabels", "torch", "numpy")},
        },
        "platform": platform.platform(),
    }


def replayed(
    folder: RunFolder, pool: Pool, settings: RunSettings
) -> Iterator[tuple[RoundLine, Pool]]:
    """Yield each finished round of a run, and the pool that it was trained on."""
    positions = {name: index for index, name in enumerate(pool.ids)}
    start = answers_of(folder.start() or {}, positions)
    known = hidden(pool, settings.budget)
    known = without(known, start) if settings.zero_shot else known.with_answers(start)
    for line in folder.lines():
        yield line, known
        known = known.with_answers(line.to_round(positions).answers)
        known = known.with_answers(start)


def are_same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether two descriptions are of the same data."""
    return all(before.get(name) == now[name] for name in now)


def _data_facts(pool: Pool) -> dict[str, Any]:
    """Return sizes, classes and hashes of the data, as ``run.json`` holds them."""

    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    test, ids = pool.test, "\n".join(pool.ids).encode()
    test_hash, images = "", [pool.images]
    if test is not None:
        test_ids = "\n".join(test.ids).encode()
        test_hash = digest(test.labels.numpy().tobytes() + test_ids)
        images.append(test.images)
    rows = row_digest(*images)
    return {
        "num_items": len(pool),
        "num_test": 0 if test is None else len(test),
        "classes": list(pool.classes),
        "shape": list(pool.images.shape),
        "hash": digest(ids),
        "labels_hash": digest(pool.labels.numpy().tobytes()),
        "test_hash": test_hash,
        **({_ROWS_HASH: rows} if rows else {}),
    }


def _check_same_data(folder: RunFolder, now: Mapping[str, Any]) -> None:
    """Warn where items came or went; refuse where labels would change their meaning.

    Labels are kept by id, so items may come and go. Class numbers are positions in the
    list of classes, so that list may not change.
    """
    before = folder.description()["data"]
    if before["classes"] != now["classes"]:
        raise DataError(
            f"The run in '{folder.path}' began with the classes {before['classes']}; "
            f"the data now have {now['classes']}. Restore them, or give another folder."
        )
    if not are_same_data(before, now):
        has_other_rows = before.get(_ROWS_HASH) != now.get(_ROWS_HASH)
        rows = "; their rows hold other numbers" if has_other_rows else ""
        msg = (
            f"The data changed since the run in '{folder.path}' began: "
            f"{before['num_items']} items and {before['num_test']} to measure on then, "
            f"{now['num_items']} and {now['num_test']} now{rows}. Labels stay with "
            "their files and contents; later rounds use the data of now."
        )
        warnings.warn(msg, DataChangedWarning, stacklevel=2)


@dataclass
class Stopwatch:
    """Seconds spent per kind of work since the last reading, and memory of queries.

    Work inside other work counts once, as what it is itself.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    megabytes: dict[str, float] = field(default_factory=dict)
    """The most that the process held during queries, where Linux reports it."""

    @contextmanager
    def running(self, work: str) -> Iterator[None]:
        """Count the time of the block as time of ``work``."""
        is_measured = work == "query"
        try:
            if is_measured:
                _RESET.write_text(_PEAK_ONLY, "ascii")
        except OSError:
            is_measured = False
        begin, counted = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            inside = sum(self.seconds.values()) - counted
            self.seconds[work] += time.perf_counter() - begin - inside
        for line in _STATUS.read_text("ascii").splitlines() if is_measured else ():
            if line.startswith("VmHWM:"):
                kilobytes = int(line.split()[1])
                self.megabytes[work] = round(kilobytes * 1024 / 1e6, 1)

    def reading(self) -> dict[str, Any]:
        """Return seconds, megabytes and the time of day, and start over."""
        spent = {f"{work}_seconds": round(s, 3) for work, s in self.seconds.items()}
        spent |= {f"{work}_peak_mb": peak for work, peak in self.megabytes.items()}
        self.seconds.clear()
        self.megabytes.clear()
        return spent | {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
