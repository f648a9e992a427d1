"""Spectra of the labeled items, where the networks of the rounds were kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fewlabels.errors import UsageError
from fewlabels.integers import count
from fewlabels.naming import AllowCode
from fewlabels.pool import Pool
from fewlabels.report.curves import spread_ticks
from fewlabels.report.drawing import DASHES, Margins, Sheet, Size, drawing
from fewlabels.report.wording import number, power_of_ten
from fewlabels.runs import Conditioning, RunFolder, diagnose

PANEL = Size("panel", 440, 250)
"""For half of a wide screen, or for a phone."""

_MARGINS = Margins(left=52, right=20, bottom=46, top=14)
_LARGEST_NUM_TICKS = 6
_FAINTEST = 0.35
_NAME_GAP = 32
_ROOM = 8
"""How far below the smallest eigenvalue the axis ends, for the name written there."""


@dataclass(frozen=True)
class ConditioningView:
    """What is shown of the spectra of one run."""

    rows: tuple[Conditioning, ...]
    """The rounds whose spectrum is known; at least one."""
    spectra: Markup
    """All their eigenvalues, drawn."""

    @property
    def has_stand_in(self) -> bool:
        """Whether a kernel stands in for one that the round did not use."""
        return any(row.is_stand_in for row in self.rows)

    @property
    def is_singular(self) -> bool:
        """Whether a round has fewer independent gradients than labels."""
        return any(len(_positive(row)) < row.num_labeled for row in self.rows)


def conditioning_rows(
    folder: RunFolder, pool: Pool, *, allow_code: AllowCode = False
) -> tuple[Conditioning, ...]:
    """Return the spectra of a run's rounds; none where no network was kept.

    Each saved network is asked about its labeled items only.
    """
    try:
        rows = tuple(diagnose(folder, pool, whole_pool=False, allow_code=allow_code))
    except UsageError:  # a trainer from outside that is gone, or that is not allowed
        return ()
    return tuple(row for row in rows if row.spectrum is not None)


def conditioning_view(
    rows: Sequence[Conditioning], run_hue: int, position: int
) -> ConditioningView | None:
    """Return what the page shows of a run's spectra; None without any."""
    if not any(_positive(row) for row in rows):
        return None
    lines = [_positive(row) for row in rows]
    with drawing(PANEL, _MARGINS, f"spectra {position}") as sheet:
        _draw_axes(sheet, lines)
        for place, line in enumerate(lines):
            opacity = _FAINTEST + (1 - _FAINTEST) * (place + 1) / len(lines)
            _draw_line(sheet, line, run_hue, opacity)
        _draw_names(sheet, rows, sheet.hue(run_hue))
    return ConditioningView(tuple(rows), sheet.element(_description(rows)))


def _positive(row: Conditioning) -> tuple[float, ...]:
    """Return the eigenvalues that are not rounding, descending."""
    rank = row.spectrum.rank if row.spectrum else 0
    return row.eigenvalues[::-1][:rank]


def _draw_axes(sheet: Sheet, lines: Sequence[tuple[float, ...]]) -> None:
    axes, values = sheet.axes, [value for line in lines for value in line]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    high = max(high, low + 1)
    step = ceil((high - low + 1) / _LARGEST_NUM_TICKS)
    axes.set_yscale("log")
    axes.set_ylim(min(10.0**low, min(values) / _ROOM), 10.0**high)
    axes.yaxis.set_major_locator(
        FixedLocator([10.0**power for power in range(low, high + 1, step)])
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda y, _: power_of_ten(round(log10(y))))
    )
    axes.set_xlim(0, max(map(len, lines)) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(_LARGEST_NUM_TICKS, integer=True))
    axes.set_xlabel("eigenvalue, by size", color=sheet.color("muted"), labelpad=4)


def _draw_line(sheet: Sheet, line: tuple[float, ...], hue: int, opacity: float) -> None:
    sheet.axes.plot(
        range(1, len(line) + 1),
        line,
        color=sheet.hue(hue),
        alpha=opacity,
        linewidth=2,
        dashes=DASHES[hue],
        clip_on=False,
    )


def _draw_names(sheet: Sheet, rows: Sequence[Conditioning], color: str) -> None:
    """Write numbers of labels where lines end, as many as there is room for."""
    ends = {len(line): (row, line) for row in rows if (line := _positive(row))}
    least_gap = _NAME_GAP * (max(ends) + 1) / sheet.width
    for end in spread_ticks(sorted(ends), least_gap):
        row, line = ends[end]
        sheet.axes.annotate(
            sheet.write(f"{row.num_labeled:,}"),
            (end, line[-1]),
            xytext=(0, -6),
            textcoords="offset points",
            color=color,
            horizontalalignment="center",
            verticalalignment="top",
            annotation_clip=False,
        )


def _description(rows: Sequence[Conditioning]) -> str:
    """Say what the drawing shows to somebody who does not see it."""
    found = ", ".join(
        f"{number(row.spectrum.largest)} down to {number(row.spectrum.smallest)} with "
        f"{count(row.num_labeled, 'label')}"
        for row in rows
        if row.spectrum
    )
    return f"Eigenvalues of the Gram matrix of the labeled items: {found}."
