"""Compiled loops. The one file that imports Numba."""

from collections.abc import Callable, Collection
from typing import Any

import numba


def compiled(
    function: Callable[..., Any], *, fastmath: Collection[str] = ()
) -> Callable[..., Any]:
    """Compile, and keep the outcome on disk where there is a place for it.

    Args:
        function: A loop over arrays and numbers; other threads go on while it runs.
        fastmath: What the compiler may do to sums, by the names of LLVM; nothing, and
            they are as written.

    Returns:
        The compiled function.
    """
    options: dict[str, Any] = {"nogil": True}
    if fastmath:
        options["fastmath"] = set(fastmath)
    try:
        made: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor a cache can be written
        made = numba.njit(**options)(function)
    return made
