"""What a person sees: results on stdout; progress, notes and errors on stderr."""

import json
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich import progress
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fewlabels.cli import harmless
from fewlabels.progress import quiet, redirect_warnings, reporting

_INDENT = 13
_PACE_SECONDS = 300.0  # the last minutes say how long the rest will take


class _Screen(Console):
    """A console that shows every text as it is, brackets and colons too."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text to print; all strings come by here, also those of tables."""
        return super().render_str(harmless(text), **options)


@dataclass(frozen=True)
class Terminal:
    """Where results, notes and progress go."""

    is_quiet: bool = False
    as_json: bool = False
    """Whether results are JSON for other programs, and nothing is for people."""
    out: Console = field(default_factory=_Screen)
    err: Console = field(default_factory=lambda: _Screen(stderr=True))

    def say(self, message: str) -> None:
        """Tell a person something that is not the result."""
        if not (self.is_quiet or self.as_json):
            self.err.print(message, soft_wrap=True)

    def result(self, content: Any) -> None:
        """Print a result for people; nothing when quiet."""
        if not (self.is_quiet or self.as_json):
            self.out.print(content, soft_wrap=True)

    def json(self, value: Any) -> None:
        """Print a result as a line of JSON; of what JSON does not know, its text."""
        if self.as_json:
            print_line(json.dumps(value, default=str))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Show progress bars for the work in the block, where somebody can see them."""
        can_move = self.err.is_terminal and not self.err.is_dumb_terminal
        is_shown = can_move and not (self.is_quiet or self.as_json)
        bars = reporting(Bars(self.err)) if is_shown else quiet()
        with bars, redirect_warnings(lambda text: self.say(f"Note: {text}")):
            yield


def command_line(*words: object) -> str:
    """Return a command of this program, as a person types it."""
    return shlex.join(("fewlabels", *map(str, words)))


def print_line(text: str) -> None:
    """Print one line of machine-readable output."""
    sys.stdout.write(harmless(text) + "\n")
    sys.stdout.flush()


def table(*columns: str, right: Collection[str] = (), **look: Any) -> Table:
    """Return an empty table; the columns in ``right`` are numbers."""
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, **look)
    for name in columns:
        if name in right:
            drawn.add_column(name, justify="right", no_wrap=True)
        else:
            drawn.add_column(name, overflow="fold")
    return drawn


class _View(progress.Progress):
    """Bars, and below them the latest figures of their tasks."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what to draw now."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            figures = task.fields["figures"].items()
            words = "  ".join(f"{name} {value:.4g}" for name, value in figures)
            if words:
                line = Text(words, "dim", no_wrap=True, overflow="ellipsis")
                yield Padding(line, (0, 0, 0, _INDENT))


class Bars:
    """A listener that shows bars, figures and the time left while there is work."""

    def __init__(self, console: Console) -> None:
        self._view = _View(
            progress.TextColumn(f"{{task.description:<{_INDENT - 1}}}"),
            progress.BarColumn(complete_style="cyan", finished_style="cyan"),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(compact=True),
            console=console,
            speed_estimate_period=_PACE_SECONDS,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self, task: str, total: int, done: int) -> int:
        """Show a bar; the display begins with the first one."""
        if not self._view.tasks:
            self._view.start()
        return int(self._view.add_task(task, total=total, completed=done, figures={}))

    def advance(self, handle: int, amount: int) -> None:
        """Move a bar on."""
        self._view.update(progress.TaskID(handle), advance=amount)

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Show figures below the bar that was started last, if there is one."""
        del step
        if self._view.tasks:
            task = self._view.tasks[-1]
            known = task.fields["figures"] | figures
            self._view.update(task.id, figures=known)

    def finish(self, handle: int) -> None:
        """Take a bar away; the display ends with the last one."""
        self._view.remove_task(progress.TaskID(handle))
        if not self._view.tasks:
            self._view.stop()
