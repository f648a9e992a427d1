"""Honest probabilities: the temperature that fits labels best.

Shapes: n labeled items, C classes.
"""

import torch
from torch import Tensor

_HOTTEST = 100.0
_NUM_HALVINGS = 50


def best_temperature(logits_nC: Tensor, labels_n: Tensor) -> float:
    """Return the T from 1 to 100 that makes softmax(z / T) fit the labels best.

    The mean of -log p_y is convex in 1/T, and its slope is the mean of E_p[z] - z_y
    (Guo et al., 2017, have the method). A classifier is usually asked about the items
    that it was trained on, which make it look better than it is: T below 1, which would
    make it surer still, is never returned.
    """
    is_known = labels_n >= 0
    if not bool(is_known.any()):
        return 1.0
    z_nC = logits_nC.cpu()[is_known].to(torch.float64)
    own_n = z_nC.gather(1, labels_n[is_known][:, None])[:, 0]

    def slope(inverse: float) -> float:
        p_nC = (inverse * z_nC).softmax(dim=1)
        return float(((p_nC * z_nC).sum(dim=1) - own_n).mean())

    low, high = 1 / _HOTTEST, 1.0
    if slope(high) <= 0:
        return 1.0
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return 2 / (low + high)
