"""What a person sees: results on stdout; progress, notes and errors on stderr."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from fewlabels.cli.harmless import harmless
from fewlabels.progress import noting, reporting


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

    out: Console
    err: Console
    is_quiet: bool = False

    @classmethod
    def open(cls, *, quiet: bool) -> "Terminal":
        """Return the terminal of this process."""
        return cls(_Screen(), _Screen(stderr=True), quiet)

    def say(self, message: str) -> None:
        """Tell a person something that is not the result."""
        if not self.is_quiet:
            self.err.print(message, soft_wrap=True)

    def result(self, content: Any) -> None:
        """Print a result for people; nothing when quiet."""
        if not self.is_quiet:
            self.out.print(content, soft_wrap=True)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Show progress bars for the work in the block, where somebody can see them."""
        can_move = self.err.is_terminal and not self.err.is_dumb_terminal
        shown = can_move and not self.is_quiet
        bars = self._bars() if shown else nullcontext()
        with bars, noting(lambda text: self.say(f"Note: {text}")):
            yield

    def _bars(self) -> AbstractContextManager[None]:
        from fewlabels.cli.live import Bars

        return reporting(Bars(self.err))


def print_line(text: str) -> None:
    """Print one line of machine-readable output."""
    sys.stdout.write(harmless(text) + "\n")
    sys.stdout.flush()
