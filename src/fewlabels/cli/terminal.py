"""What a person sees: results on stdout; progress, notes and errors on stderr."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from fewlabels.errors import FewlabelsWarning
from fewlabels.progress import reporting


@dataclass
class Bars:
    """Progress bars with the time left, shown while there is work and then gone."""

    console: Console
    _progress: Progress = field(init=False)
    _open: list[TaskID] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Lay out the bar."""
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[figures]}", style="dim"),
            console=self.console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self, task: str, total: int, done: int) -> int:
        """Show a bar; the display begins with the first one."""
        if not self._open:
            self._progress.start()
        shown = self._progress.add_task(task, total=total, completed=done, figures="")
        self._open.append(shown)
        return int(shown)

    def advance(self, handle: int, amount: int) -> None:
        """Move a bar on."""
        self._progress.update(TaskID(handle), advance=amount)

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Show the figures beside the last bar."""
        del step
        text = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        self._progress.update(self._open[-1], figures=text)

    def finish(self, handle: int) -> None:
        """Take a bar away; the display ends with the last one."""
        self._progress.remove_task(TaskID(handle))
        self._open.remove(TaskID(handle))
        if not self._open:
            self._progress.stop()


@dataclass(frozen=True)
class Terminal:
    """Where results, notes and progress go."""

    out: Console
    err: Console
    is_quiet: bool = False

    @classmethod
    def open(cls, *, quiet: bool) -> "Terminal":
        """Return the terminal of this process."""
        return cls(Console(), Console(stderr=True), quiet)

    def say(self, message: str) -> None:
        """Tell a person something that is not the result."""
        if not self.is_quiet:
            self.err.print(message, highlight=False, soft_wrap=True, markup=False)

    def result(self, content: Any) -> None:
        """Print a result for people; nothing when quiet."""
        if not self.is_quiet:
            # No markup: a folder may be called [bold].
            self.out.print(content, highlight=False, soft_wrap=True, markup=False)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Show progress bars for the work in the block, where somebody can see them."""
        shown = self.err.is_terminal and not self.is_quiet
        with reporting(Bars(self.err)) if shown else nullcontext(), self._notes():
            yield

    @contextmanager
    def _notes(self) -> Iterator[None]:
        """Print warnings of this package as notes in plain words."""

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, FewlabelsWarning):
                self.say(f"Note: {message}")
            else:
                usual(message, category, filename, lineno, file, line)

        with warnings.catch_warnings():
            warnings.simplefilter("always", FewlabelsWarning)
            usual = warnings.showwarning
            warnings.showwarning = show
            yield


def print_line(text: str) -> None:
    """Print one line of machine-readable output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
