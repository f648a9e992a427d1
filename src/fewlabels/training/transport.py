"""Beliefs that agree with class shares: entropic optimal transport.

Shapes: M nodes, C classes.
"""

import numpy as np

from fewlabels.neighbors import Floats

_MOST_ROUNDS = 300
_LEAST = 1e-300
_FARTHEST = 600.0  # the exponential of what is lower would vanish


def balanced(
    logits: Floats, masses: Floats, shares: Floats, tolerance: float = 1e-6
) -> Floats:
    """Return the beliefs nearest to some, of which each class gets its share.

    These are softmax(logits + b), where b is the same for all nodes. Sinkhorn's
    iteration finds b: it scales classes and nodes in turn. With logits of minus cost
    over temperature, they are the plan of entropic optimal transport, and approach the
    cheapest one as the temperature falls.

    Args:
        logits: Logarithms of beliefs, up to a constant for each node, shape (M, C).
        masses: How much each node counts, shape (M,).
        shares: How much each class gets, above zero, shape (C,); any scale.
        tolerance: By how much, relatively, a class may miss its share.

    Returns:
        Logarithms of probabilities, shape (M, C).
    """
    wanted, weights = shares / shares.sum(), masses / masses.sum()
    lowered = np.maximum(logits - logits.max(axis=1, keepdims=True), -_FARTHEST)
    kernel, scale = np.exp(lowered), np.ones(len(wanted))
    for _ in range(_MOST_ROUNDS):
        got = scale * ((weights / (kernel @ scale)) @ kernel) + _LEAST
        if np.abs(np.log(wanted / got)).max() < tolerance:
            break
        scale = scale * (wanted / got)
        scale /= scale.max()
    totals = (kernel @ scale)[:, None]
    return np.asarray(lowered + np.log(scale) - np.log(totals))
