"""The random generators that everybody shares, and that a strategy leaves alone."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


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


@contextmanager
def restored() -> Iterator[None]:
    """Put the global generators back to what they were, whatever the block does."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])
