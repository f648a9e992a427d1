"""Compiled loops. The one file that imports Numba."""

from collections.abc import Callable, Collection
from typing import Any

import numba


def compiled(
    function: Callable[..., Any], *, fastmath: Collection[str] = ()
) -> Callable[..., Any]:
    """Return a compiled loop, kept on disk where there is a place for it.

    Other threads go on while it runs. ``fastmath`` says what the compiler may do to
    sums, by the names of LLVM.
    """
    options: dict[str, Any] = {"nogil": True}
    if fastmath:
        options["fastmath"] = set(fastmath)
    try:
        made: Callable[..., Any] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor a cache can be written
        made = numba.njit(**options)(function)
    return made
