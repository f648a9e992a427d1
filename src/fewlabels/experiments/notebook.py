"""Progress in a notebook: a line below the cell."""

import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fewlabels import progress

_SECONDS = 0.2  # between two changes of the line


class CellLine:
    """Shows the running tasks, and the latest figures, in a line below the cell."""

    def __init__(self) -> None:
        self._tasks: dict[int, list[Any]] = {}
        self._figures, self._shown_at = dict[str, float](), 0.0
        self._display: Any = None

    def start(self, task: str, total: int, done: int) -> int:
        """Show a task; the first one gets a line of its own."""
        if not self._tasks:
            self._display, self._figures = None, {}
        handle = 1 + max(self._tasks, default=0)
        self._tasks[handle] = [task, done, total]
        self._show(is_due=True)
        return handle

    def advance(self, handle: int, amount: int) -> None:
        """Show how far a task is."""
        self._tasks[handle][1] += amount
        self._show(is_due=False)

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Show figures with the next change of the line."""
        del step
        self._figures |= {name: float(value) for name, value in figures.items()}

    def finish(self, handle: int) -> None:
        """Show where a task ended, and forget it."""
        self._show(is_due=True)
        del self._tasks[handle]

    def _show(self, *, is_due: bool) -> None:
        if not is_due and time.monotonic() - self._shown_at < _SECONDS:
            return
        from IPython.display import display

        self._shown_at = time.monotonic()
        parts = [f"{task} {done}/{total}" for task, done, total in self._tasks.values()]
        parts += [f"{name} {value:.3g}" for name, value in self._figures.items()]
        line = " · ".join(parts)
        if self._display is None:
            self._display = display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._display.update({"text/plain": line}, raw=True)


_LINE = CellLine()  # below the cell that is running


def shown_in_notebook() -> AbstractContextManager[None]:
    """Show progress of the block in a notebook, unless it is shown already."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None or progress.is_heard():
        return nullcontext()
    return progress.reporting(_LINE)
