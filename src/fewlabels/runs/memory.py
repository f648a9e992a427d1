"""The most memory that a process held during a block, where the system tells."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_PEAK_ONLY = "5"  # forgets the peak and nothing else (man 5 proc)


@contextmanager
def peak_memory() -> Iterator[Callable[[], float | None]]:
    """Measure the block.

    Yields:
        A function that returns the peak in megabytes since the block began, libraries
        and data included; None on systems other than Linux.
    """
    try:
        _RESET.write_text(_PEAK_ONLY, "ascii")
    except OSError:
        yield lambda: None
        return
    yield _peak


def _peak() -> float | None:
    for line in _STATUS.read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return None
