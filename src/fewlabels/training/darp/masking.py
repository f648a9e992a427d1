"""DARP's masking: each column keeps its largest entries.

Shapes: M rows of probabilities, K classes.
"""

import numpy as np
import torch
from torch import Tensor

_SLACK = 1e-6  # so that 2 x 4999.9999999 rows are 9,999.9999998, meant as 10,000


def places(target_K: Tensor, capacity: float, num_rows: int) -> list[int]:
    """Return how many entries each column keeps: floor(capacity T_k), at most M."""
    wanted_K = (capacity * target_K + _SLACK).floor()
    return [int(count) for count in wanted_K.clamp(max=num_rows).tolist()]


def largest(probabilities_MK: Tensor, counts: list[int]) -> Tensor:
    """Tell which entries are among the largest of their column.

    Among equal entries those of lower rows come first. Selection is by NumPy's
    partition, which is several times faster than ``torch.topk`` on processors.

    Args:
        probabilities_MK: The probabilities.
        counts: How many entries each column keeps.

    Returns:
        True for the entries that are kept, shape (M, K).
    """
    num_rows = len(probabilities_MK)
    columns = probabilities_MK.detach().cpu().T.contiguous().numpy()
    thresholds, surplus = [], []
    for number, (column, count) in enumerate(zip(columns, counts, strict=True)):
        cut = num_rows - count
        if cut == 0 or count == 0:
            thresholds.append(np.inf if cut else -np.inf)
            continue
        parts = np.partition(column, cut)
        threshold = parts[cut]
        thresholds.append(float(threshold))
        if parts[:cut].max() == threshold:
            room = count - int((column > threshold).sum())
            late = np.flatnonzero(column == threshold)[room:]
            surplus.append(np.stack([late, np.full_like(late, number)]))
    keep_MK = probabilities_MK >= probabilities_MK.new_tensor(thresholds)
    for late in surplus:
        rows, column_numbers = torch.from_numpy(late).to(keep_MK.device)
        keep_MK[rows, column_numbers] = False
    return keep_MK
