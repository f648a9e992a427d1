"""Numbers that the NPC paper prints (Kong et al., NeurIPS 2022), in percent.

All are of WRN-28-2 trained by FixMatch with DARP, averages over three trials. The paper
does not say whether its deviations divide by the number of trials or by one less; see
:func:`passive_tests`. Strategies have the names they have here: the paper's Passive is
``random``.
"""

from dataclasses import dataclass

from fewlabels.errors import UnknownNameError
from fewlabels.experiments.evaluation.comparisons import Reading, Welch, welch


@dataclass(frozen=True)
class PublishedCell:
    """One cell of a table, as printed: mean ± deviation."""

    strategy: str
    num_labels: int
    mean: float
    """Mean accuracy in percent."""
    deviation: float
    """Standard deviation in percent."""


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table of the paper."""

    title: str
    num_labels: tuple[int, ...]
    """Labels of each column, the start included."""
    cells: tuple[PublishedCell, ...]
    """Row by row."""
    num_start: int
    """Labels that the first model was trained on (Q_0)."""
    query_sizes: tuple[int, ...]
    """Labels that led from the column before (or the start) to each column (Q)."""
    start_accuracy: float | None = None
    """Accuracy of the first model in percent, where it is printed."""
    trials: int = 3

    @property
    def strategies(self) -> tuple[str, ...]:
        """The rows, from top to bottom."""
        return tuple(dict.fromkeys(cell.strategy for cell in self.cells))

    def cell(self, strategy: str, num_labels: int) -> PublishedCell:
        """Return the cell of a strategy, by its name here, at a number of labels."""
        for cell in self.cells:
            if (cell.strategy, cell.num_labels) == (strategy, num_labels):
                return cell
        known = [f"{cell.strategy} at {cell.num_labels}" for cell in self.cells]
        raise UnknownNameError("cell", f"{strategy} at {num_labels}", known)


BALANCED_FIXMATCH = 86.19
"""FixMatch without DARP on 40 balanced labels of CIFAR-10, as reported elsewhere.

It stands below Table 3 (Reducing Inquiry Frequency), to compare with its rows. The
sentence does not say how many labels; it is 100 - 13.81, the error that Sohn et al.
(2020) report for 40.
"""


BALANCED_FIXMATCH_TABLE = PublishedTable(
    title="FixMatch on 40 balanced labels of CIFAR-10 (Sohn et al., 2020)",
    num_labels=(40,),
    cells=(PublishedCell("random", 40, BALANCED_FIXMATCH, 3.37),),
    num_start=40,
    query_sizes=(0,),
    trials=5,
)
"""FixMatch of Sohn et al. (2020), Table 2, with RandAugment."""

_Row = tuple[tuple[float, float], ...]


def _cells(num_labels: tuple[int, ...], **rows: _Row) -> tuple[PublishedCell, ...]:
    """Return the cells of rows that hold (mean, deviation) for each column."""
    return tuple(
        PublishedCell(strategy, labels, mean, deviation)
        for strategy, row in rows.items()
        for labels, (mean, deviation) in zip(num_labels, row, strict=True)
    )


TABLE_1 = PublishedTable(
    title="Table 1: CIFAR-10, starting with 10 labels, queries of 20",
    num_labels=(30, 50, 70),
    num_start=10,
    query_sizes=(20, 20, 20),
    start_accuracy=57.64,  # in its caption
    cells=_cells(
        (30, 50, 70),
        random=((78.08, 5.48), (91.82, 2.30), (91.00, 2.78)),
        margin=((87.36, 5.01), (90.85, 3.64), (90.85, 3.64)),
        albl=((80.61, 12.5), (89.62, 6.66), (94.45, 0.20)),
        badge=((80.60, 4.46), (86.43, 1.22), (80.32, 7.76)),
        npc=((85.09, 9.61), (94.63, 0.07), (94.85, 0.02)),
    ),
)
"""Table 1 of the paper, Sec. 5.1: CIFAR-10, labels in three queries."""

TABLE_2 = PublishedTable(
    title="Table 2: CIFAR-100, starting with 100 labels, queries of 200",
    num_labels=(300, 500, 700, 900),
    num_start=100,
    query_sizes=(200, 200, 200, 200),
    start_accuracy=21.29,  # in its caption
    cells=_cells(
        (300, 500, 700, 900),
        random=((37.98, 1.89), (47.11, 1.41), (52.69, 1.16), (57.97, 1.43)),
        margin=((37.41, 1.22), (48.21, 3.76), (52.53, 0.75), (57.03, 0.39)),
        albl=((39.05, 0.62), (49.88, 0.92), (54.23, 1.78), (56.65, 0.86)),
        badge=((24.55, 1.13), (25.21, 1.86), (28.03, 1.74), (29.81, 1.72)),
        npc=((40.92, 1.65), (48.16, 0.77), (55.76, 1.45), (58.58, 0.52)),
    ),
)
"""Table 2 of the paper, Sec. 5.3: CIFAR-100, labels in four queries."""

TABLE_3_ZERO_SHOT = PublishedTable(
    title="Table 3, left half: CIFAR-10, one query by an untrained network",
    num_labels=(40, 60),
    num_start=10,
    query_sizes=(30, 50),
    cells=_cells(
        (40, 60),
        badge=((92.13, 3.24), (94.42, 0.41)),
        npc=((93.14, 1.42), (93.16, 2.34)),
    ),
)
"""Table 3 of the paper, Sec. 5.4, zero shot: a randomly initialized model asks."""

TABLE_3_SINGLE_SHOT = PublishedTable(
    title="Table 3, right half: CIFAR-10, one query by a network of 10 labels",
    num_labels=(40, 60),
    num_start=10,
    query_sizes=(30, 50),
    cells=_cells(
        (40, 60),
        badge=((86.70, 5.42), (70.28, 13.22)),
        npc=((92.26, 3.26), (93.76, 0.58)),
    ),
)
"""Table 3 of the paper, Sec. 5.4, single shot: a model of one label per class asks."""


def passive_tests(
    table: PublishedTable, reading: Reading = "sample"
) -> dict[int, Welch]:
    """Test NPC against Passive in each column of a table, by what it prints.

    The trials behind the printed means are not paired here, since the paper prints no
    single results; so it is Welch's test.

    Example:
        >>> tests = passive_tests(TABLE_2)
        >>> {labels: round(test.p, 3) for labels, test in tests.items()}
        {300: 0.114, 500: 0.338, 700: 0.048, 900: 0.546}

    Args:
        table: One of the paper's tables with a row for ``random``.
        reading: What the printed deviations divide by; see
            :func:`fewlabels.experiments.evaluation.welch`.

    Returns:
        The test by the number of labels; ``t`` is above zero where NPC is better.
    """
    tests = {}
    for labels in table.num_labels:
        npc, passive = table.cell("npc", labels), table.cell("random", labels)
        ours = (npc.mean, npc.deviation, table.trials)
        theirs = (passive.mean, passive.deviation, table.trials)
        tests[labels] = welch(*ours, *theirs, reading=reading)
    return tests
