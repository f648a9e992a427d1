"""How sure to be: from scores of classes to probabilities, by labels left out.

Shapes: M nodes, n labels that were left out in turn, C classes.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fewlabels.models.neighbors import FLOOR
from fewlabels.neighbors import Floats

_FACTORS = 2.0 ** np.arange(-4.0, 2.01, 0.25)
_STIFFNESS = 0.5  # in units of one label's log loss, for twice or half the usual


def floored(logits: Floats) -> Floats:
    """Return logarithms of probabilities, hardly below exp(-10), of logits (M, C)."""
    probabilities = np.maximum(softmax(logits, axis=1), 1.01 * np.exp(FLOOR))
    logs: Floats = np.log(probabilities / probabilities.sum(axis=1, keepdims=True))
    return logs


def sharpness(left_out: Floats, labels: NDArray[np.int64], usual: float) -> float:
    """Return the factor of logits under which labels that were left out are likeliest.

    Few labels say little, so what is usual counts too: where there are none to leave
    out, it is what comes back.

    Args:
        left_out: Logits of each labeled node by all other labels, shape (n, C).
        labels: What it is, shape (n,).
        usual: What the factor usually is.

    Returns:
        From a sixteenth of the usual factor to four times as much.
    """
    every = np.arange(len(labels))
    losses = [
        _STIFFNESS * np.log2(factor) ** 2
        - floored(usual * factor * left_out)[every, labels].sum()
        for factor in _FACTORS
    ]
    return usual * float(_FACTORS[int(np.argmin(losses))])
