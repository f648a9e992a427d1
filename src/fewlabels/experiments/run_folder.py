"""The folder of a run: its files, who may write them, what a resume must agree on."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fewlabels.errors import (
    ForeignFolderError,
    RunError,
    RunInUseError,
    SettingsChangedError,
)
from fewlabels.experiments import evaluations
from fewlabels.experiments.acquisition import round_folder
from fewlabels.experiments.lines import (
    SCHEMA,
    RoundLine,
    RunDescription,
    StartFile,
    TimingLine,
)
from fewlabels.experiments.listeners import JsonLines, TensorBoard
from fewlabels.experiments.settings import Made, RunSettings, made_changes
from fewlabels.files import (
    add_checksum,
    check_empty_folder,
    copy_folder,
    hold_lock,
    make_folder,
    parse_json,
    read_regular,
    remove_leftovers,
    replace_text,
    verify_checksum,
)
from fewlabels.progress import reporting

_KIND = "fewlabels run"
_LOCK = ".fewlabels-lock"
_BOARD = "tensorboard"
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run's files, and how they are read and written."""

    path: Path

    @property
    def settings_file(self) -> Path:
        """``run.json``: settings, versions, data; written once, at the beginning."""
        return self.path / "run.json"

    @property
    def start_file(self) -> Path:
        """``start.json``: ids and labels that the run began with."""
        return self.path / "start.json"

    @property
    def rounds_file(self) -> Path:
        """``rounds.jsonl``: a line per finished round."""
        return self.path / "rounds.jsonl"

    @property
    def timings_file(self) -> Path:
        """``timings.jsonl``: all that differs between two equal runs."""
        return self.path / "timings.jsonl"

    @property
    def training_file(self) -> Path:
        """``training.jsonl``: figures of the trainings as they went on."""
        return self.path / "training.jsonl"

    @property
    def report_file(self) -> Path:
        """``report.html``: the page to look at."""
        return self.path / "report.html"

    @contextmanager
    def listening(self, *, tensorboard: bool = False) -> Iterator[None]:
        """Write the figures of every training in the block into this folder."""
        lines = JsonLines(self.training_file, {"schema_version": SCHEMA})
        with ExitStack() as stack:
            stack.enter_context(reporting(lines))
            if tensorboard:
                board = stack.enter_context(closing(TensorBoard(self.path / _BOARD)))
                stack.enter_context(reporting(board))
            yield

    def check_ours(self) -> None:
        """Raise unless the folder is new, empty or a run's; touch nothing."""
        if self.settings_file.exists():
            self.description()
        else:
            check_empty_folder(self.path, "run", _LOCK)

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep others out while the block runs, or raise :class:`RunInUseError`."""
        self.check_ours()
        make_folder(self.path)
        in_use = RunInUseError(
            f"Another process is using '{self.path}'; two would mix their results. "
            "Wait for it, or choose another folder."
        )
        # All that a run may have been writing when it was killed.
        ends = [self.settings_file, self.start_file, self.rounds_file]
        ends += [self.timings_file, self.report_file, round_folder(self.path, 0)]
        with hold_lock(self.path / _LOCK, in_use):
            work = [*self.path.glob("round-*"), *self.path.glob("start-*")]
            names = ("model.safetensors", evaluations.FILE)
            remove_leftovers(
                [*ends, *(folder / name for folder in work for name in names)]
            )
            yield

    def begin(self, settings: RunSettings, facts: Mapping[str, Any]) -> None:
        """Write the settings of a new run, or check those of one that goes on.

        ``facts`` is what else is worth knowing of it: versions, data. Other settings
        than those in the folder raise :class:`SettingsChangedError`.
        """
        if not self.settings_file.exists():
            content = {"kind": _KIND, "schema_version": SCHEMA}
            content |= {"settings": settings.bare.model_dump(mode="json")}
            made = {part: one.model_dump() for part, one in settings.made.items()}
            content |= {"made": made} | dict(facts)
            replace_text(self.settings_file, add_checksum(_pretty(content)))
            return
        changed = self.changes(settings)
        if changed:
            raise SettingsChangedError(
                f"'{self.path}' contains a run with different settings: "
                f"{'; '.join(changed)}. Results of both would mix. Use the old "
                "settings to resume that run, or choose another folder."
            )

    def changes(self, settings: RunSettings) -> list[str]:
        """Return what is not as it was when the run began, a few words each.

        Identities of strategy and trainer are compared where the settings have them.
        """
        begun = self._described()[1]
        before = begun.settings.bare.model_dump(mode="json")
        now = settings.bare.model_dump(mode="json")
        found = [
            f"{key} was {before[key]!r} and is now {now[key]!r}"
            for key in now
            if before[key] != now[key]
        ]
        return found or made_changes(begun.made, settings.made)

    def description(self) -> dict[str, Any]:
        """Return the content of ``run.json``."""
        return self._described()[0]

    def settings(self) -> RunSettings:
        """Return the settings that the run began with."""
        return self._described()[1].settings

    def made(self) -> Made:
        """Return the identities of strategy and trainer that the run began with."""
        return self._described()[1].made

    def _described(self) -> tuple[dict[str, Any], RunDescription]:
        content = _json(self.settings_file)
        try:
            return content, RunDescription.model_validate(content)
        except ValidationError as error:
            raise ForeignFolderError(
                f"'{self.settings_file}' does not describe a run of fewlabels. Give "
                "another folder."
            ) from error

    def start(self) -> dict[str, int] | None:
        """Return ids and labels that the run began with; None if not yet decided."""
        if not self.start_file.exists():
            return None
        content = _json(self.start_file)
        with _readable(self.start_file):
            start = StartFile.model_validate(content)
            return dict(zip(start.ids, start.labels, strict=True))

    def write_start(self, labels: Mapping[str, int]) -> None:
        """Write down what the run begins with."""
        content = {
            "schema_version": SCHEMA,
            "ids": list(labels),
            "labels": list(labels.values()),
        }
        replace_text(self.start_file, add_checksum(_pretty(content)))

    def begin_like(self, other: "RunFolder") -> None:
        """Take over the starting set and the first training of a run that begins alike.

        Until its first round is finished nothing happens: another process may be
        writing what would be copied.
        """
        labels = other.start()
        if labels is not None and other.lines():
            copy_folder(round_folder(other.path, 0), round_folder(self.path, 0))
            self.write_start(labels)

    def lines(self) -> list[RoundLine]:
        """Return the finished rounds."""
        with _readable(self.rounds_file):
            lines = [
                RoundLine.model_validate(line) for line in _lines(self.rounds_file)
            ]
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
        with _readable(self.timings_file):
            entries = _lines(self.timings_file)
            for entry in entries:
                TimingLine.model_validate(entry)
        return entries

    def append(self, line: RoundLine, timing: Mapping[str, Any]) -> None:
        """Add a finished round; its timing first, so that no round is without one."""
        timings = [entry for entry in self.timings() if entry["step"] < line.step]
        timings.append({"schema_version": SCHEMA, "step": line.step} | dict(timing))
        entries = [add_checksum(json.dumps(timing)) for timing in timings]
        replace_text(self.timings_file, "".join(f"{entry}\n" for entry in entries))
        before = ""
        if self.rounds_file.exists():
            before = self.rounds_file.read_bytes().decode().rstrip("\n") + "\n"
        replace_text(self.rounds_file, f"{before}{add_checksum(line.to_json())}\n")


def _json(file: Path) -> Any:
    with _readable(file):
        return parse_json(verify_checksum(read_regular(file, _MOST_BYTES)))


def _lines(file: Path) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line; none where there is no file."""
    if not file.exists():
        return []
    # Names may hold any other character that Python would split lines at.
    whole = read_regular(file, _MOST_BYTES).decode("utf-8")
    return [parse_json(verify_checksum(line)) for line in whole.split("\n") if line]


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn what a changed file makes the block raise into a sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"'{file}' could not be read: {error}. It is missing, or was changed by "
            "something other than fewlabels; restore it or choose another folder."
        ) from error


def _pretty(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
