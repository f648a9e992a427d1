"""How sure to be: from scores of classes to probabilities, by labels left out.

Shapes: M nodes, n labels that were left out in turn, C classes.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fewlabels.models.neighbors import FLOOR

Floats = NDArray[np.float64]

USUAL_SHARPNESS = 4.0
"""What scores are raised to where labels cannot tell."""

_SHARPNESSES = 2.0 ** np.arange(-2.0, 4.01, 0.25)
_STIFFNESS = 0.5  # in units of one label's log loss, for twice or half the usual
_LEAST = 1e-300


def log_probabilities(scores: Floats, sharpness: float) -> Floats:
    """Return logarithms of probabilities in proportion to powers of scores.

    Args:
        scores: Not negative, shape (M, C).
        sharpness: What scores are raised to.

    Returns:
        Shape (M, C). No probability is below exp(-10). Where all scores of a row are
        zero, since no label reaches it, all classes are equally likely.
    """
    return floored(sharpness * np.log(np.maximum(scores, _LEAST)))


def floored(logits: Floats) -> Floats:
    """Return logarithms of probabilities, none below exp(-10), of logits (M, C)."""
    probabilities = np.maximum(softmax(logits, axis=1), 1.01 * np.exp(FLOOR))
    logs: Floats = np.log(probabilities / probabilities.sum(axis=1, keepdims=True))
    return logs


def sharpness(left_out: Floats, labels: NDArray[np.int64]) -> float:
    """Return the power of scores under which labels that were left out are likeliest.

    Few labels say little, so what is usual counts too: where there are none to leave
    out, it is what comes back.

    Args:
        left_out: What all other labels say about each labeled node, shape (n, C).
        labels: What it is, shape (n,).

    Returns:
        From 1/4 to 16.
    """
    every = np.arange(len(labels))
    losses = [
        _STIFFNESS * np.log2(power / USUAL_SHARPNESS) ** 2
        - log_probabilities(left_out, power)[every, labels].sum()
        for power in _SHARPNESSES
    ]
    return float(_SHARPNESSES[int(np.argmin(losses))])
