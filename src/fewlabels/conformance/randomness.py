"""The random generators that everybody shares, and that a strategy leaves alone."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

_T = TypeVar("_T")


def shared_states() -> dict[str, object]:
    """Return the state of each global generator, by the library's name."""
    kind, keys, position, *rest = np.random.get_state()  # noqa: NPY002 - only looked at
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": (kind, np.asarray(keys).tobytes(), position, *rest),
        "random": random.getstate(),
    }


def stir() -> None:
    """Move every global generator on; use inside :func:`restored`."""
    torch.rand(1)
    np.random.random()  # noqa: NPY002 - to move it
    random.random()  # noqa: S311 - to move it


def moved_by(work: Callable[[], _T]) -> tuple[_T, list[str]]:
    """Return what ``work`` gives, and the libraries whose generator it moved."""
    with restored():
        before = shared_states()
        found = work()
        after = shared_states()
    return found, [name for name in before if before[name] != after[name]]


@contextmanager
def restored() -> Iterator[None]:
    """Put the global generators back to what they were, whatever the block does."""
    of_torch, of_python = torch.get_rng_state(), random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002 - the global one is meant
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)  # noqa: NPY002 - the same
        random.setstate(of_python)
