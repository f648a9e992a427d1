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


def sharpness(
    left_out: Floats,
    labels: NDArray[np.int64],
    usual: float,
    weights: Floats | None = None,
) -> tuple[float, float]:
    """Return the factor of logits under which labels that were left out are likeliest.

    Few labels say little, so what is usual counts too: where there are none to leave
    out, it is what comes back.

    Args:
        left_out: Logits of each labeled node by all other labels, shape (n, C).
        labels: What it is, shape (n,).
        usual: What the factor usually is.
        weights: How much each label counts, shape (n,); None: all the same.

    Returns:
        A factor from a sixteenth of the usual one to four times as much, and what is
        smallest there: the summed log loss, and a penalty for what is unusual.
    """
    every = np.arange(len(labels))
    weights = np.ones(len(labels)) if weights is None else weights
    losses = [
        _STIFFNESS * np.log2(factor) ** 2
        - weights @ floored(usual * factor * left_out)[every, labels]
        for factor in _FACTORS
    ]
    best = int(np.argmin(losses))
    return usual * float(_FACTORS[best]), float(losses[best])
