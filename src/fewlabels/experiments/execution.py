"""A run in a folder: begin it, go on with it, never lose it."""

import hashlib
import platform
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Generator

from fewlabels import strategies, training
from fewlabels.data.contents import row_digest
from fewlabels.errors import DataChangedWarning, DataError, SettingsChangedError
from fewlabels.experiments.acquisition import rounds, without
from fewlabels.experiments.lines import RoundLine, answers_of, has_ended
from fewlabels.experiments.oracles import TableOracle
from fewlabels.experiments.run_folder import RunFolder
from fewlabels.experiments.settings import RunSettings, made_changes
from fewlabels.experiments.simulation import check_plan, hidden, starting_answers
from fewlabels.names import Identity, identity
from fewlabels.pool import Answers, Pool, Query, Round
from fewlabels.protocols import Classifier, Strategy, Trainer, ignore

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
            "strategy": settings.strategy.as_made(strategy),
            "trainer": settings.trainer.as_made(trainer),
        }
    )
    changed = made_changes(settings.made, resolved.made)
    if changed:
        raise SettingsChangedError(
            f"The run was planned with something else than is here: "
            f"{'; '.join(changed)}. Repeat the command that planned it, and see that "
            "every machine has the same code."
        )
    check_plan(pool, start=settings.start, query=settings.query, budget=settings.budget)
    trainer.check(pool)  # before anything is written down
    folder = RunFolder(path)
    with folder.owned():
        facts = _data_facts(pool)
        folder.begin(resolved, {"data": facts, **environment()})
        _check_same_data(folder, facts)
        if beginning is not None and folder.start() is None:
            folder.begin_like(RunFolder(beginning))
        yield from _finished_and_new(folder, resolved, pool, strategy, trainer)


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
    """Return whether facts are of the same data."""
    return all(before.get(name) == now[name] for name in now)


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
    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    test, parts, test_hash = pool.test, [pool.images], ""
    if test is not None:
        parts.append(test.images)
        ids = "\n".join(test.ids).encode()
        test_hash = digest(test.labels.numpy().tobytes() + ids)
    rows = row_digest(*parts)
    return {
        "num_items": len(pool),
        "num_test": 0 if test is None else len(test),
        "classes": list(pool.classes),
        "shape": list(pool.images.shape),
        "hash": digest("\n".join(pool.ids).encode()),
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
            f"the data now have {now['classes']}, so its labels would mean something "
            "else. Restore the data, or give another folder."
        )
    if not are_same_data(before, now):
        has_other_rows = before.get(_ROWS_HASH) != now.get(_ROWS_HASH)
        rows = "; their rows hold other numbers" if has_other_rows else ""
        msg = (
            f"The data changed since the run in '{folder.path}' began: "
            f"{before['num_items']} items and {before['num_test']} to measure on then, "
            f"{now['num_items']} and {now['num_test']} now{rows}. Labels are kept by "
            "file and content, so none moves to another image; later rounds use what "
            "is there now."
        )
        warnings.warn(msg, DataChangedWarning, stacklevel=2)


@dataclass
class Stopwatch:
    """Seconds spent per kind of work since the last reading.

    Work inside other work counts once, as what it is itself.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    megabytes: dict[str, float] = field(default_factory=dict)
    """The most that the process held during some kinds of work."""

    @contextmanager
    def running(self, work: str) -> Iterator[None]:
        """Count the time of the block as time of ``work``."""
        begin, counted = time.perf_counter(), sum(self.seconds.values())
        try:
            yield
        finally:
            inside = sum(self.seconds.values()) - counted
            self.seconds[work] += time.perf_counter() - begin - inside

    def reading(self) -> dict[str, Any]:
        """Return seconds, megabytes and the time of day, and begin anew."""
        spent = {f"{work}_seconds": round(s, 3) for work, s in self.seconds.items()}
        spent |= {f"{work}_peak_mb": peak for work, peak in self.megabytes.items()}
        self.seconds.clear()
        self.megabytes.clear()
        return spent | {"finished": datetime.now(UTC).isoformat(timespec="seconds")}


@dataclass(frozen=True)
class TimedTrainer:
    """A trainer whose time is taken, without that of measuring its checkpoints."""

    trainer: Trainer
    watch: Stopwatch

    @property
    def identity(self) -> Identity:
        """That of the trainer."""
        return identity(self.trainer)

    @property
    def num_steps(self) -> int | None:
        """That of the trainer."""
        return self.trainer.num_steps

    def check(self, pool: Pool) -> None:
        """Let the trainer check."""
        self.trainer.check(pool)

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train; see :class:`fewlabels.protocols.Trainer`."""

        def measured(step: int, classifier: Classifier) -> None:
            with self.watch.running("measure"):
                on_checkpoint(step, classifier)

        with self.watch.running("train"):
            return self.trainer.fit(
                pool, generator, workspace=workspace, on_checkpoint=measured
            )


@dataclass(frozen=True)
class TimedStrategy:
    """A strategy whose time is taken and, on Linux, the peak of its memory."""

    strategy: Strategy
    watch: Stopwatch

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose; see :class:`fewlabels.protocols.Strategy`."""
        try:
            _RESET.write_text(_PEAK_ONLY, "ascii")
            is_measured = True
        except OSError:
            is_measured = False
        with self.watch.running("query"):
            query = self.strategy.select(
                classifier, pool, size, generator, history=history
            )
        for line in _STATUS.read_text("ascii").splitlines() if is_measured else ():
            if line.startswith("VmHWM:"):
                kilobytes = int(line.split()[1])
                self.watch.megabytes["query"] = round(kilobytes * 1024 / 1e6, 1)
        return query
