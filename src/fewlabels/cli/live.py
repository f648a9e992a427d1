"""What goes on, as it goes on: a bar per task, and below it the latest figures."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.text import Text

_INDENT = 13
_GAP = "  "
_VALUE_WIDTH = 7
_CURVE_WIDTH = 10
_PACE_SECONDS = 300.0  # the last minutes say how long the rest will take
_LEVELS = "▁▂▃▄▅▆▇"  # a full block would touch the line above


def short(value: float) -> str:
    """Return a number in a few characters, with k or M for large ones.

    Example:
        >>> [short(value) for value in (7.25, 950, 12_345, 999_960, 2_500_000)]
        ['7.2', '950', '12.3k', '1.0M', '2.5M']
    """
    for least, size, letter in ((999_950, 1e6, "M"), (999.5, 1e3, "k")):
        if value >= least:
            return f"{value / size:.1f}{letter}"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


@dataclass(frozen=True)
class _Look:
    """How a figure is shown."""

    label: str
    text: Callable[[float], str] = "{:.3g}".format
    has_curve: bool = False


_LOOKS = {
    "loss": _Look("loss", "{:.3f}".format, has_curve=True),
    "accuracy": _Look("accuracy", _percent, has_curve=True),
    "kept": _Look("kept", _percent),
    "kept-refined": _Look("refined", _percent),
    "images-per-second": _Look("images", lambda value: f"{short(value)}/s"),
    "learning-rate": _Look("learning rate"),
    "supervised": _Look("supervised", "{:.3f}".format),
    "consistency": _Look("consistency", "{:.3f}".format),
}
"""Figures by importance, an even number: two of them stand above each other."""


@dataclass(frozen=True)
class Figure:
    """A figure as it was told so far: the latest value, and how it came about."""

    value: float
    cells: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    """Sum and number of the values that were told in each tenth of the task."""

    def then(self, value: float, share: float) -> "Figure":
        """Return the figure after another value, told at a share of the task."""
        if not math.isfinite(value):
            return Figure(value, self.cells)
        cell = min(max(math.ceil(share * _CURVE_WIDTH), 1), _CURVE_WIDTH) - 1
        total, count = self.cells.get(cell, (0.0, 0))
        return Figure(value, {**self.cells, cell: (total + value, count + 1)})

    @property
    def curve(self) -> str:
        """The means of the tenths as bars; where nothing was told, the last one stays.

        Example:
            >>> Figure(0).then(9, 0.1).then(5, 0.3).then(1, 0.5).curve
            '▇▇▄▄▁     '
        """
        means = {cell: total / count for cell, (total, count) in self.cells.items()}
        low, high = min(means.values(), default=0.0), max(means.values(), default=0.0)
        drawn, bar = "", " "
        for cell in range(max(means, default=-1) + 1):
            if cell in means:
                height = (means[cell] - low) / (high - low) if high > low else 0.5
                bar = _LEVELS[round(height * (len(_LEVELS) - 1))]
            drawn += bar
        return drawn.ljust(_CURVE_WIDTH)


def figure_lines(
    figures: Mapping[str, Figure], width: int, *, has_curves: bool = True
) -> list[Text]:
    """Return figures two above each other; what does not fit is left out."""
    names = [*_LOOKS, *(name for name in figures if name not in _LOOKS)]
    upper, lower = Text(), Text()
    for pair in zip_longest(names[::2], names[1::2], fillvalue=""):
        if not figures.keys() & set(pair):
            continue
        gap = _GAP if upper else ""
        above, below = _block(pair, figures, has_curves=has_curves)
        if len(upper) + len(gap) + len(above) > width:
            break
        upper.append(gap).append_text(above)
        lower.append(gap).append_text(below)
    return [line for line in (upper, lower) if line.plain.strip()]


def _block(
    pair: tuple[str, str], figures: Mapping[str, Figure], *, has_curves: bool
) -> list[Text]:
    """Return the lines of two figures, as wide as if both were there."""
    looks = [_LOOKS.get(name, _Look(name)) for name in pair]
    label_width = max(len(look.label) for look in looks)
    lines = []
    for name, look in zip(pair, looks, strict=True):
        label, value, curve = "", "", " " * _CURVE_WIDTH
        if name in figures:
            label, value = look.label, look.text(figures[name].value)
            curve = figures[name].curve
        line = Text(label.ljust(label_width), "dim").append(" ")
        line.append(value.rjust(_VALUE_WIDTH), "not dim bold")
        if has_curves and look.has_curve:
            line.append(f" {curve}", "not dim cyan")
        lines.append(line)
    widest = max(map(len, lines))
    for line in lines:
        line.pad_right(widest - len(line))
    return lines


class _HowFar(ProgressColumn):
    """What is done of how much, and how long the rest will take."""

    def render(self, task: Task) -> Text:
        """Return the numbers; no time before there is something to guess it from."""
        total = f"{task.total or 0:,.0f}"
        text = Text(f"{task.completed:{len(total)},.0f}/{total}")
        if task.time_remaining is not None:
            minutes, seconds = divmod(int(task.time_remaining), 60)
            hours, minutes = divmod(minutes, 60)
            clock = f"{hours}:{minutes:02}" if hours else f"{minutes}"
            text.append(f"  {clock}:{seconds:02} left", style="dim")
        return text


class _View(Progress):
    """Bars, and below them the figures of their tasks."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what to draw now."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            lines = figure_lines(
                task.fields["figures"],
                self.console.width - _INDENT,
                has_curves=not self.console.options.ascii_only,
            )
            for line in lines:
                yield Padding(line, (0, 0, 0, _INDENT))


@dataclass
class Bars:
    """A listener that shows bars, figures and the time left while there is work."""

    console: Console
    _view: _View = field(init=False)
    _open: list[TaskID] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Lay out the bar."""
        self._view = _View(
            TextColumn(f"{{task.description:<{_INDENT - 1}}}"),
            BarColumn(complete_style="cyan", finished_style="cyan"),
            _HowFar(),
            console=self.console,
            speed_estimate_period=_PACE_SECONDS,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self, task: str, total: int, done: int) -> int:
        """Show a bar; the display begins with the first one."""
        if not self._open:
            self._view.start()
        shown = self._view.add_task(task, total=total, completed=done, figures={})
        self._open.append(shown)
        return int(shown)

    def advance(self, handle: int, amount: int) -> None:
        """Move a bar on."""
        self._view.update(TaskID(handle), advance=amount)

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Show figures below the bars; without one, there is nothing to show."""
        if not self._open:
            return
        task = next(one for one in self._view.tasks if one.id == self._open[-1])
        known: Mapping[str, Figure] = task.fields["figures"]
        share = step / task.total if task.total else 1.0
        told = {
            name: known.get(name, Figure(value)).then(float(value), share)
            for name, value in figures.items()
        }
        self._view.update(task.id, figures={**known, **told})

    def finish(self, handle: int) -> None:
        """Take a bar away; the display ends with the last one."""
        self._view.remove_task(TaskID(handle))
        self._open.remove(TaskID(handle))
        if not self._open:
            self._view.stop()
