"""Accuracy by strategy and number of labels."""

from collections.abc import Sequence
from dataclasses import dataclass

from fewlabels.report.recorded import RecordedRun, read_runs
from fewlabels.runs import RunFolder


@dataclass(frozen=True)
class AccuracyRow:
    """Accuracies of one run."""

    name: str
    """Its strategy, and what else tells it from the other rows."""
    hue: int
    """Number of its color on the page."""
    accuracies: tuple[float | None, ...]
    """One per column of the table; None where nothing was measured."""
    medians: tuple[float | None, ...] = ()
    """Medians of each training's last evaluations; none at all where none is known."""


@dataclass(frozen=True)
class AccuracyTable:
    """Rows are runs, columns are numbers of labels, cells are accuracies."""

    num_labels: tuple[int, ...]
    """The columns, ascending."""
    rows: tuple[AccuracyRow, ...]
    """A row per run, in the order given."""

    @property
    def has_medians(self) -> bool:
        """Whether trainings were measured more than once."""
        return any(row.medians for row in self.rows)


def accuracy_table(folders: Sequence[RunFolder]) -> AccuracyTable:
    """Return the accuracy of each run after each number of labels.

    Where a round brought no label, and so was measured twice at one number, the later
    measurement stands.

    Args:
        folders: The runs.

    Returns:
        The table. A run that is not finished fills its row in part.
    """
    return table_of(read_runs(folders))


def table_of(runs: Sequence[RecordedRun]) -> AccuracyTable:
    """Return the table of runs that are read already."""
    num_labels = sorted({line.num_labeled for run in runs for line in run.lines})
    rows = []
    for run in runs:
        measured = dict(run.measured)
        settled = {line.num_labeled: line.median_accuracy for line in run.lines}
        accuracies = tuple(measured.get(amount) for amount in num_labels)
        medians = tuple(settled.get(amount) for amount in num_labels)
        if all(median is None for median in medians):
            medians = ()
        rows.append(AccuracyRow(run.name, run.hue, accuracies, medians))
    return AccuracyTable(tuple(num_labels), tuple(rows))
