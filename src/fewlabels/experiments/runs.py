"""A run in a folder: its files, who may write them, how it begins and resumes."""

import hashlib
import json
import platform
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from torch import Tensor

from fewlabels import errors, files, progress, strategies, training
from fewlabels.data.derived import row_digest
from fewlabels.experiments.acquisition import (
    EVALUATIONS_FILE,
    TableOracle,
    check_plan,
    hidden,
    readable,
    round_folder,
    rounds,
    starting_answers,
    without,
)
from fewlabels.experiments.settings import FrozenModel, RunSettings
from fewlabels.names import Identity, check_installed, identity
from fewlabels.pool import UNKNOWN, Answers, Pool, Query, Round
from fewlabels.protocols import Strategy, Trainer

SCHEMA = 3
"""Version of the files of a run; the first field of every line."""

_ROWS_HASH = "rows_hash"
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_LOCK = ".fewlabels-lock"
_MOST_BYTES = 2**30
MEASURES = ("accuracy", "median_accuracy", "calibration_error", "brier_score")
"""What is measured in a round on the test split."""

_COPIED = ("step", "num_labeled", "class_counts", *MEASURES)

Whole = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""A number that every library can hold."""
_Count = Annotated[int, Field(ge=0, lt=2**31)]


def _checked_share(value: float) -> float:
    if value < 0 or value > 1:  # NaN is neither: nothing could be measured
        raise ValueError("a share is a number from 0 to 1")
    return value


_Share = Annotated[float, AfterValidator(_checked_share)]


class RoundLine(FrozenModel):
    """What is kept of a round. Labels are tied to ids; indices are for convenience."""

    schema_version: int = SCHEMA
    step: Whole
    num_labeled: Whole
    accuracy: _Share | None
    median_accuracy: _Share | None
    calibration_error: _Share | None = None
    brier_score: Annotated[float, Field(ge=0, le=2)] | None = None
    ids: tuple[str, ...]
    """The items asked about."""
    indices: tuple[Whole, ...]
    """Their positions in the pool when they were asked."""
    labels: tuple[Whole | None, ...]
    """Their answers: a class, -1 where the oracle skipped, None where it left open."""
    class_counts: tuple[Whole, ...]
    """Labels per class that the round was trained on."""
    kernel: str | None
    value: float | None
    ceiling: float | None
    tie: bool | None
    record: dict[str, Any]
    """Everything the strategy wanted written down."""

    @model_validator(mode="after")
    def _has_a_label_per_item(self) -> Self:
        if not len(self.ids) == len(self.indices) == len(self.labels):
            raise ValueError("ids, indices and labels are not equally many")
        return self

    @classmethod
    def of(cls, finished: Round, pool: Pool) -> Self:
        """Return the line of a round."""
        query, answers = finished.query, finished.answers
        given = dict.fromkeys(answers.skipped.tolist(), UNKNOWN)
        given |= zip(answers.indices.tolist(), answers.labels.tolist(), strict=True)
        indices, record = query.indices.tolist(), dict(query.record)
        fields: dict[str, Any] = {name: getattr(finished, name) for name in _COPIED}
        fields |= {name: record.get(name) for name in ("kernel", "ceiling", "tie")}
        return cls(
            **fields,
            ids=tuple(pool.ids[index] for index in indices),
            indices=tuple(indices),
            labels=tuple(given.get(index) for index in indices),
            value=query.value,
            record=record,
        )

    def to_json(self) -> str:
        """Return the line, without its end."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False)

    def to_round(self, positions: Mapping[str, int]) -> Round:
        """Return the round, its items by position; missing items are left out."""
        items = {
            positions[name]: label
            for name, label in zip(self.ids, self.labels, strict=True)
            if name in positions
        }
        given = {i: items[i] for i in items if items[i] not in {None, UNKNOWN}}
        skipped = _numbers(i for i in items if items[i] == UNKNOWN)
        return Round(
            **{name: getattr(self, name) for name in _COPIED},
            query=Query(_numbers(items), self.value, self.record),
            answers=Answers(_numbers(given), _numbers(given.values()), skipped),
        )


class TimingLine(BaseModel, frozen=True, extra="allow", allow_inf_nan=False):
    """What a line of ``timings.jsonl`` may hold: a moment, and numbers by name."""

    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    step: Whole
    finished: datetime | None = None


class _DataFacts(BaseModel):
    num_items: _Count
    num_test: _Count
    classes: list[str]
    shape: list[_Count] = []


class RunDescription(BaseModel):
    """What ``run.json`` has to hold; there may be more."""

    kind: Literal["fewlabels run"]
    settings: RunSettings
    data: _DataFacts
    versions: dict[str, Any] = {}
    made: dict[str, Identity] = {}


class StartFile(BaseModel):
    """What ``start.json`` has to hold."""

    ids: tuple[str, ...]
    labels: tuple[Whole, ...]


def answers_of(written: Mapping[str, int], positions: Mapping[str, int]) -> Answers:
    """Return labels by position; those of items that are gone are left out."""
    items = {positions[n]: label for n, label in written.items() if n in positions}
    return Answers(_numbers(items), _numbers(items.values()))


def has_ended(lines: Sequence[RoundLine]) -> bool:
    """Return whether a run with these rounds is at its end: the last asks nothing."""
    return bool(lines) and not lines[-1].ids


def _numbers(values: Iterable[int | None]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int64)


class RunFolder:
    """Paths of a run's files, and how they are read and written."""

    def __init__(self, path: Path) -> None:
        """Name the files; nothing is read or written yet."""
        self.path = path
        self.settings_file = path / "run.json"
        """Settings, versions, data; written once, at the beginning."""
        self.start_file = path / "start.json"
        """Ids and labels that the run began with."""
        self.rounds_file = path / "rounds.jsonl"
        """A line per finished round."""
        self.timings_file = path / "timings.jsonl"
        """All that differs between two equal runs."""
        self.training_file = path / "training.jsonl"
        """Figures of the trainings as they went on."""
        self.report_file = path / "report.html"
        """The page to look at."""

    @contextmanager
    def listening(self, *, tensorboard: bool = False) -> Iterator[None]:
        """Write the figures of every training in the block into this folder."""
        curves = self.path / "tensorboard" if tensorboard else None
        log = TrainingLog(self.training_file, curves)
        with closing(log), progress.reporting(log):
            yield

    def check_ours(self) -> None:
        """Raise unless the folder is new, empty or a run's; touch nothing."""
        if self.settings_file.exists():
            self.description()
        else:
            files.check_empty_folder(self.path, "run", _LOCK)

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep others out while the block runs, or raise :class:`RunInUseError`."""
        self.check_ours()
        files.make_folder(self.path)
        in_use = errors.RunInUseError(
            f"Another process is using '{self.path}'; two would mix their results. "
            "Wait for it, or choose another folder."
        )
        with files.hold_lock(self.path / _LOCK, in_use):
            # All that a run may have been writing when it was killed.
            paths = [self.settings_file, self.start_file, self.rounds_file]
            paths += [self.timings_file, self.report_file, round_folder(self.path, 0)]
            for folder in (*self.path.glob("round-*"), *self.path.glob("start-*")):
                paths += [folder / "model.safetensors", folder / EVALUATIONS_FILE]
            files.remove_leftovers(paths)
            yield

    def begin(self, settings: RunSettings, facts: Mapping[str, Any]) -> None:
        """Write the settings of a new run, or check those of one that goes on.

        ``facts`` is what else is worth knowing of it: versions, data. Other settings
        than those in the folder raise :class:`SettingsChangedError`.
        """
        if not self.settings_file.exists():
            made = {part: value.model_dump() for part, value in settings.made.items()}
            content = {"kind": "fewlabels run", "schema_version": SCHEMA}
            content |= {"settings": settings.bare.model_dump(mode="json"), "made": made}
            _write(self.settings_file, content | dict(facts))
        elif changed := self.settings().changes(settings):
            raise errors.SettingsChangedError(
                f"'{self.path}' contains a run with different settings: "
                f"{'; '.join(changed)}. Use those, or choose another folder."
            )

    def description(self) -> dict[str, Any]:
        """Return the content of ``run.json``."""
        with readable(self.settings_file):
            content: dict[str, Any] = read_json(self.settings_file)
        try:
            RunDescription.model_validate(content)
        except ValidationError as error:
            msg = f"'{self.settings_file}' does not describe a run; give another one."
            raise errors.ForeignFolderError(msg) from error
        return content

    def settings(self) -> RunSettings:
        """Return the settings that the run began with, and the identities."""
        begun = RunDescription.model_validate(self.description())
        return begun.settings.with_identities(begun.made)

    def start(self) -> dict[str, int] | None:
        """Return ids and labels that the run began with; None if not yet decided."""
        if not self.start_file.exists():
            return None
        with readable(self.start_file):
            start = StartFile.model_validate(read_json(self.start_file))
            return dict(zip(start.ids, start.labels, strict=True))

    def write_start(self, labels: Mapping[str, int]) -> None:
        """Write down what the run begins with."""
        content = {"ids": list(labels), "labels": list(labels.values())}
        _write(self.start_file, {"schema_version": SCHEMA} | content)

    def begin_like(self, other: "RunFolder") -> None:
        """Take over the starting set and the first training of a run that begins alike.

        Until its first round is finished nothing happens: another process may be
        writing what would be copied.
        """
        labels = other.start()
        if labels is not None and other.lines():
            files.copy_folder(round_folder(other.path, 0), round_folder(self.path, 0))
            self.write_start(labels)

    def lines(self) -> list[RoundLine]:
        """Return the finished rounds."""
        with readable(self.rounds_file):
            lines = [*map(RoundLine.model_validate, _lines(self.rounds_file))]
            numbers = [line.step for line in lines]
            if numbers != list(range(len(lines))):
                raise ValueError(f"its rounds are numbered {numbers}")
            if len({len(line.class_counts) for line in lines}) > 1:
                raise ValueError("its rounds count labels of different classes")
            if lines and not self.start_file.exists():
                raise ValueError("the file start.json that it builds on is gone")
        return lines

    def timings(self) -> list[dict[str, Any]]:
        """Return what was measured of each round besides its result."""
        with readable(self.timings_file):
            entries = _lines(self.timings_file)
            for entry in entries:
                TimingLine.model_validate(entry)
        return entries

    def append(self, line: RoundLine, timing: Mapping[str, Any]) -> None:
        """Add a finished round; its timing first, so that no round is without one."""
        timings = [entry for entry in self.timings() if entry["step"] < line.step]
        timings.append({"schema_version": SCHEMA, "step": line.step} | dict(timing))
        entries = [f"{files.add_checksum(json.dumps(entry))}\n" for entry in timings]
        files.replace_text(self.timings_file, "".join(entries))
        before = ""
        if self.rounds_file.exists():
            before = self.rounds_file.read_bytes().decode().rstrip("\n") + "\n"
        text = f"{before}{files.add_checksum(line.to_json())}\n"
        files.replace_text(self.rounds_file, text)


def read_json(file: Path) -> Any:
    """Return what a file holds: one JSON object, whose checksum is verified."""
    content = files.read_regular(file, _MOST_BYTES)
    return files.parse_json(files.verify_checksum(content))


def _lines(file: Path) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line; none where there is no file."""
    if not file.exists():
        return []
    # Names may hold any other character that Python would split lines at.
    lines = files.read_regular(file, _MOST_BYTES).decode("utf-8").split("\n")
    return [files.parse_json(files.verify_checksum(line)) for line in lines if line]


def _write(file: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    files.replace_text(file, files.add_checksum(text))


# ---------------------------------------------------------------- doing and resuming it


def execute(
    settings: RunSettings,
    path: Path,
    pool: Pool,
    *,
    beginning: Path | None = None,
    predictions: bool = False,
) -> Iterator[Round]:
    """Do a run in a folder, or go on where it was interrupted.

    Args:
        settings: What to do.
        path: The folder of the run.
        pool: What ``settings.data`` stands for, with its labels.
        beginning: The folder of a run that begins alike: same data, trainer, start and
            seeds. Its starting set and first training are copied and not made again;
            the outcome is the same.
        predictions: Write the probabilities of each round into its folder.

    Yields:
        Every round, those of earlier sittings first.

    Raises:
        SettingsChangedError: If strategy or trainer are not what was planned.
    """
    strategy, trainer = check_choices(settings)
    made = {"strategy": identity(strategy), "trainer": identity(trainer)}
    resolved = settings.with_identities(made)
    if changed := settings.changes(resolved):
        raise errors.SettingsChangedError(
            f"The plan has other code or options: {'; '.join(changed)}. Plan it again."
        )
    check_plan(pool, start=settings.start, query=settings.query, budget=settings.budget)
    trainer.check(pool)  # before anything is written down
    folder, seeds = RunFolder(path), settings.all_seeds
    positions = {name: index for index, name in enumerate(pool.ids)}
    with folder.owned():
        facts = _data_facts(pool)
        folder.begin(resolved, {"data": facts, **environment()})
        _check_same_data(folder, facts)
        if beginning is not None and folder.start() is None:
            folder.begin_like(RunFolder(beginning))
        lines, written = folder.lines(), folder.start()
        if written is None:
            start, number = settings.start, settings.initial_models
            answers = starting_answers(
                pool, start, seeds, trainer=trainer, num_models=number, workspace=path
            )
            pairs = zip(answers.indices.tolist(), answers.labels.tolist(), strict=True)
            written = {pool.ids[index]: label for index, label in pairs}
            folder.write_start(written)
        given, known = answers_of(written, positions), hidden(pool, settings.budget)
        history = [line.to_round(positions) for line in lines]
        yield from history
        if has_ended(lines):
            return
        watch = Stopwatch()
        for finished in rounds(
            known if settings.zero_shot else known.with_answers(given),
            trainer=trainer,
            strategy=strategy,
            oracle=TableOracle(pool.labels),
            query=settings.query,
            budget=settings.budget,
            seed=seeds,
            test=pool.test,
            history=history,
            withheld=given if settings.zero_shot else None,
            workspace=path,
            timer=watch.running,
            keep_classifier=predictions,
        ):
            if predictions:
                write_predictions(round_folder(path, finished.step), finished, pool)
            folder.append(RoundLine.of(finished, pool), watch.reading())
            yield replace(finished, classifier=None)


def write_predictions(folder: Path, finished: Round, pool: Pool) -> None:
    """Write ``predictions.parquet``: a row for each item of pool and test split.

    Labels are the true ones, -1 where none is known.
    """
    import pyarrow as pa
    from pyarrow import parquet

    assert finished.classifier is not None
    columns: dict[str, list[Any]] = defaultdict(list)
    parts = {"pool": pool} | ({} if pool.test is None else {"test": pool.test})
    for name, part in parts.items():
        every = torch.arange(len(part))
        rows = finished.classifier.outputs(part.images, every).logits.softmax(dim=1)
        columns["split"] += [name] * len(part)
        columns["id"] += part.ids or map(str, every.tolist())
        columns["label"] += part.labels.tolist()
        columns["predicted"] += rows.argmax(dim=1).tolist()
        columns["probabilities"] += rows.tolist()
    files.make_folder(folder)
    with files.replace_file(folder / "predictions.parquet") as partial:
        parquet.write_table(pa.table(dict(columns)), partial)


def check_choices(settings: RunSettings) -> tuple[Strategy, Trainer]:
    """Return strategy and trainer, or raise; quick, so ask before data are loaded."""
    return (
        strategies.resolve(settings.strategy.name, settings.strategy.options),
        training.resolve(settings.trainer.name, settings.trainer.options),
    )


def environment() -> dict[str, Any]:
    """Return versions and platform of this process, as JSON can hold them."""
    versions = {name: version(name) for name in ("fewlabels", "torch", "numpy")}
    versions = {"python": platform.python_version(), **versions}
    return {"versions": versions, "platform": platform.platform()}


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

    facts = {
        "num_items": len(pool),
        "num_test": 0,
        "classes": list(pool.classes),
        "shape": list(pool.images.shape),
        "hash": digest("\n".join(pool.ids).encode()),
        "labels_hash": digest(pool.labels.numpy().tobytes()),
        "test_hash": "",
    }
    images = [pool.images]
    if (test := pool.test) is not None:
        content = test.labels.numpy().tobytes() + "\n".join(test.ids).encode()
        facts |= {"num_test": len(test), "test_hash": digest(content)}
        images.append(test.images)
    rows = row_digest(*images)
    return facts | {_ROWS_HASH: rows} if rows else facts


def _check_same_data(folder: RunFolder, now: Mapping[str, Any]) -> None:
    """Warn where items came or went; refuse where labels would change their meaning.

    Labels are kept by id, so items may come and go. Class numbers are positions in the
    list of classes, so that list may not change.
    """
    before = folder.description()["data"]
    if before["classes"] != now["classes"]:
        raise errors.DataError(
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
            "their items; later rounds use the data of now."
        )
        warnings.warn(msg, errors.DataChangedWarning, stacklevel=2)


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
        is_measured = False
        if work == "query":
            with suppress(OSError):
                _RESET.write_text("5", "ascii")  # forgets the peak alone (man 5 proc)
                is_measured = True
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


class TrainingLog:
    """Keeps the figures of trainings in files, as one of ``progress.reporting``'s.

    Example:
        >>> import tempfile
        >>> from fewlabels.progress import reporting, tell, track
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = TrainingLog(Path(folder) / "training.jsonl")
        ...     with reporting(log), track("Training", 2):
        ...         tell(1, {"loss": 0.5})
        ...     print(*(line["loss"] for line in files.read_entries(log.file)))
        0.5
    """

    def __init__(self, file: Path, curves: Path | None = None) -> None:
        """Check that TensorBoard is there if needed; write nothing before a figure.

        Args:
            file: Gets a line of JSON for each report; what it holds already stays.
            curves: Folder for TensorBoard, with a folder per part of the work, which
                it shows as a curve; None: no curves.
        """
        self.file, self.curves = file, curves
        self._tasks: dict[int, str] = {}
        self._writer: Any = None
        self._part: str | None = None
        if curves is not None:
            check_installed("A curve", "tensorboard", install="fewlabels[track]")

    def start(self, task: str, total: int, done: int) -> int:
        """Remember the name of a task."""
        del total, done
        handle = 1 + max(self._tasks, default=0)
        self._tasks[handle] = task
        return handle

    def advance(self, handle: int, amount: int) -> None:
        """Do nothing: figures say how far a task is."""

    def finish(self, handle: int) -> None:
        """Forget a task."""
        del self._tasks[handle]

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Write a line, and a point of each figure's curve."""
        part, task = progress.current_part(), next(reversed(self._tasks.values()), None)
        numbers = {name: float(value) for name, value in figures.items()}
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"schema_version": SCHEMA, "time": now, "part": part or None}
        files.append_entry(self.file, entry | {"task": task, "step": step} | numbers)
        if self.curves is None:
            return
        if part != self._part:
            from torch.utils.tensorboard import SummaryWriter

            self.close()
            # What a killed process wrote of later steps is not shown twice.
            self._writer = SummaryWriter(str(self.curves / part), purge_step=step)
            self._part = part
        for name, value in numbers.items():
            self._writer.add_scalar(f"{task}/{name}" if task else name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Finish the curves; another figure would begin new ones."""
        if self._writer is not None:
            self._writer.close()
            self._writer = self._part = None
