"""Who beats whom: the pairwise penalty matrix of Ash et al. (2020)."""

from collections.abc import Iterable
from contextlib import suppress

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from fewlabels.errors import UsageError
from fewlabels.evaluation import Penalties, penalty_checkpoints, penalty_matrix
from fewlabels.report.bench.context import (
    Comparable,
    ConditionContext,
    Context,
    label_of,
)
from fewlabels.report.bench.heatmaps import Heatmap, heatmaps_figure, page_heatmap
from fewlabels.report.bench.sections import Block, FigureFile, PanelRow, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import in_percent
from fewlabels.report.wording import listed

_HEADING = "How often the row beats the column (%)"
_FEW = 3
"""Numbers of labels that a figure lists."""

_MANY = 6
"""Numbers of labels from which only some count, as Ash et al. choose them."""


def penalty_section(context: Context) -> Section | None:
    """Return the section of the pairwise penalty matrix; None without two seeds."""
    found = [one for one in context.conditions if one.comparable.can_be_tested]
    if not found:
        return None
    maps = [(one, *penalties_of(context, one.comparable)) for one in found]
    heatmaps = [
        Heatmap(
            one.heading or _HEADING,
            f"at {_range(amounts)} labels",
            tuple(one.short_names[label] for label in matrix.names),
            _without_diagonal(matrix.shares),
            1.0,
            footer=("penalty", tuple(matrix.penalty.values())),
        )
        for one, matrix, amounts in maps
    ]
    return Section(
        anchor="penalties",
        title="Who beats whom",
        notes=(
            "The pairwise penalty matrix of Ash et al. (2020): the percentage of the "
            "numbers of labels at which the strategy of the row is significantly "
            "better than that of the column, by a paired t-test at 5 % each, without "
            "correction. A full row is good, a full column is bad; the penalty of a "
            "strategy is the mean of its column, its own empty cell included, as in "
            "the authors' script. A difference that is the same on every seed is not "
            "tested and counts for neither.",
        ),
        blocks=tuple(
            Block(
                heading=one.heading,
                rows=(PanelRow((_drawn(heatmap, matrix, amounts, number),)),),
                hidden=(_penalty_table(one, matrix),),
            )
            for number, ((one, matrix, amounts), heatmap) in enumerate(
                zip(maps, heatmaps, strict=True)
            )
        ),
        figures=(
            FigureFile(
                "penalties",
                lambda: heatmaps_figure(
                    [(_HEADING if len(heatmaps) > 1 else "", heatmaps)]
                ),
            ),
        ),
    )


def penalties_of(
    context: Context, one: Comparable
) -> tuple[Penalties, tuple[int, ...]]:
    """Return the penalty matrix, and the numbers of labels that count for it.

    All count but the start that the strategies share; of long curves, those that Ash
    et al. count, unless the start alone is left.
    """
    everything = np.arange(len(one.num_labels))
    arrays = np.array(list(one.accuracies.values()))  # (A, S, T)
    differs_T = (arrays != arrays[0]).any(axis=(0, 1))
    counted = everything
    random = label_of(context.experiment, "random")
    if len(everything) > _MANY and random is not None:
        with suppress(UsageError):  # queries of several sizes
            means_T = one.accuracies[random].mean(axis=0)
            counted = penalty_checkpoints(one.num_labels, means_T)
    kept = counted[differs_T[counted]]
    if not len(kept):
        kept = np.flatnonzero(differs_T) if differs_T.any() else everything
    matrix = penalty_matrix(
        {name: array[:, kept] for name, array in one.accuracies.items()}
    )
    return matrix, tuple(one.num_labels[place] for place in kept.tolist())


def _penalty_table(one: ConditionContext, matrix: Penalties) -> Table:
    penalty = matrix.penalty
    least = min(penalty.values())
    return Table(
        name=one.file_name("penalties"),
        caption=one.caption(
            "Pairwise penalties (%): how often the row beats the column, and the "
            "penalty of each strategy, the mean of its column. Bold: the lowest."
        ),
        columns=(
            Column("", is_text=True),
            *(Column(name) for name in matrix.names),
        ),
        rows=(
            *(
                (
                    Entry(name),
                    *(
                        Entry(
                            ""
                            if name == other
                            else in_percent(matrix.beats(name, other))
                        )
                        for other in matrix.names
                    ),
                )
                for name in matrix.names
            ),
            (
                Entry("Penalty"),
                *(
                    Entry(in_percent(penalty[name]), penalty[name] == least)
                    for name in matrix.names
                ),
            ),
        ),
        breaks=(len(matrix.names),),
        fields=("condition", "strategy", "penalty", *matrix.names),
        records=tuple(
            (
                one.results.condition.name,
                name,
                penalty[name],
                *matrix.shares[row].tolist(),
            )
            for row, name in enumerate(matrix.names)
        ),
    )


def _drawn(
    heatmap: Heatmap, matrix: Penalties, amounts: tuple[int, ...], number: int
) -> tuple[str, Markup]:
    element = page_heatmap(heatmap, _penalty_words(matrix), f"penalties {number}")
    return f"Counted at {_listed(amounts)} labels", element


def _penalty_words(matrix: Penalties) -> str:
    words = [f"{name} {in_percent(share)} %" for name, share in matrix.penalty.items()]
    return f"Pairwise penalty matrix. Penalties: {', '.join(words)}."


def _without_diagonal(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    copy = shares.copy()
    np.fill_diagonal(copy, np.nan)
    return copy


def _range(amounts: tuple[int, ...]) -> str:
    """Return numbers of labels, or how many and between which where they are many."""
    if len(amounts) <= _FEW:
        return _listed(amounts)
    return f"{len(amounts)} numbers from {amounts[0]:,} to {amounts[-1]:,}"


def _listed(amounts: Iterable[int]) -> str:
    return listed([f"{amount:,}" for amount in amounts])
