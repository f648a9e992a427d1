"""Numbers of each round besides its accuracy: coverage, value, time."""

from collections.abc import Sequence
from dataclasses import dataclass

from fewlabels.report.recorded import RecordedRun
from fewlabels.runs import RoundLine

LARGEST_TABLE = 24
"""Classes that get a row each; more are drawn as a strip."""


@dataclass(frozen=True)
class ClassCounts:
    """Labels per class at each number of labels."""

    num_labels: tuple[int, ...]
    """The rounds, by the number of labels they were trained on."""
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    """Name of a class, and its labels in each round."""

    @property
    def largest(self) -> int:
        """The largest count, at least one."""
        return max(1, *(amount for _, counts in self.rows for amount in counts))

    @property
    def is_long(self) -> bool:
        """Whether there are too many classes for a row each."""
        return len(self.rows) > LARGEST_TABLE

    @property
    def num_covered(self) -> tuple[int, ...]:
        """Classes with a label, in each round."""
        return tuple(sum(amount > 0 for amount in column) for column in self.columns)

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """Labels of all classes, round by round."""
        return tuple(zip(*(counts for _, counts in self.rows), strict=True))

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Classes without any label in the last round."""
        return tuple(name for name, counts in self.rows if not counts[-1])


@dataclass(frozen=True)
class TimingRow:
    """Seconds of one round."""

    num_labels: int
    train: float | None
    """Seconds of training; None where they were not measured."""
    query: float | None
    """Seconds of choosing; None where nothing was chosen."""


def class_counts(run: RecordedRun) -> ClassCounts | None:
    """Return labels per class; None before the first round."""
    if not run.lines or not run.lines[0].class_counts:
        return None
    columns = [line.class_counts for line in run.lines]
    return ClassCounts(
        num_labels=tuple(line.num_labeled for line in run.lines),
        rows=tuple(
            (run.class_name(label), counts)
            for label, counts in enumerate(zip(*columns, strict=True))
        ),
    )


def share_of_ceiling(line: RoundLine) -> float | None:
    """Return what a choice was worth, of what it could be; None where nobody knows."""
    if line.value is None or line.ceiling is None or line.ceiling <= 0:
        return None
    return min(1.0, max(0.0, line.value / line.ceiling))


def timing_rows(run: RecordedRun) -> tuple[TimingRow, ...]:
    """Return a row per finished round."""
    return tuple(
        TimingRow(
            num_labels=line.num_labeled,
            train=run.timings.get(line.step, {}).get("train_seconds"),
            query=run.timings.get(line.step, {}).get("query_seconds"),
        )
        for line in run.lines
    )


def total_time(rows: Sequence[TimingRow]) -> TimingRow:
    """Add up what was measured."""
    train = [row.train for row in rows if row.train is not None]
    query = [row.query for row in rows if row.query is not None]
    return TimingRow(
        num_labels=max((row.num_labels for row in rows), default=0),
        train=sum(train) if train else None,
        query=sum(query) if query else None,
    )
