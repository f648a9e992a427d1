"""Beliefs that agree with class shares: entropic optimal transport.

Shapes: M nodes, C classes.
"""

import numpy as np
from scipy.special import log_softmax, logsumexp

from fewlabels.neighbors import Floats

_TOLERANCE = 1e-9
_MOST_ROUNDS = 1000


def balanced(logits: Floats, masses: Floats, shares: Floats) -> Floats:
    """Return the beliefs nearest to some, of which each class gets its share.

    These are softmax(logits + b), where b is the same for all nodes. Sinkhorn's
    iteration finds b: it scales classes and nodes in turn.

    Args:
        logits: Logarithms of beliefs, up to a constant for each node, shape (M, C).
        masses: How much each node counts, above zero, shape (M,).
        shares: How much each class gets, above zero, shape (C,); any scale.

    Returns:
        Logarithms of probabilities, shape (M, C).
    """
    wanted = np.log(shares / shares.sum())
    weights = np.log(masses / masses.sum())[:, None]
    found = log_softmax(logits, axis=1)
    for _ in range(_MOST_ROUNDS):
        step = wanted - logsumexp(found + weights, axis=0)
        if np.abs(step).max() < _TOLERANCE:
            break
        found = log_softmax(found + step, axis=1)
    return np.asarray(found)
