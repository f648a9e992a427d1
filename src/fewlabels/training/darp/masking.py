"""DARP's masking: each column keeps its largest entries.

Shapes: M rows of probabilities, K classes.
"""

import numpy as np
import torch
from torch import Tensor

_SLACK = 1e-6  # twice 4,999.9999999 rows are meant as 10,000


def places(target_K: Tensor, capacity: float, num_rows: int) -> list[int]:
    """Return how many entries each column keeps: floor(capacity T_k), at most M."""
    wanted_K = (capacity * target_K + _SLACK).floor_().clamp_max_(num_rows)
    return [int(count) for count in wanted_K.tolist()]


def kept(probabilities_MK: Tensor, counts: list[int]) -> Tensor:
    """Return the largest entries of each column, and zeros for the others.

    Among equal entries those of lower rows come first. Selection is by NumPy's
    partition, which is several times faster than ``torch.topk`` on processors.

    Args:
        probabilities_MK: The probabilities.
        counts: How many entries each column keeps.

    Returns:
        A new matrix, shape (M, K).
    """
    columns = probabilities_MK.cpu().T.contiguous().numpy()
    thresholds, dropped = [], []
    for number, (column, count) in enumerate(zip(columns, counts, strict=True)):
        threshold, late = _cut(column, count)
        thresholds.append(threshold)
        dropped.append((torch.from_numpy(late), number))
    is_kept_MK = torch.empty_like(probabilities_MK)
    torch.ge(probabilities_MK, is_kept_MK.new_tensor(thresholds), out=is_kept_MK)
    kept_MK = is_kept_MK.mul_(probabilities_MK)
    for late_rows, number in dropped:
        kept_MK[late_rows.to(kept_MK.device), number] = 0
    return kept_MK


def _cut(column: np.ndarray, count: int) -> tuple[float, np.ndarray]:
    """Return the smallest entry that is kept, and the rows of equals that are not."""
    first = len(column) - count
    none = np.empty(0, dtype=np.int64)
    if first == 0:
        return 0.0, none
    if count == 0:
        return np.inf, none
    parts = np.partition(column, first)
    threshold = parts[first]
    if parts[:first].max() < threshold:
        return float(threshold), none
    room = count - int((column > threshold).sum())
    return float(threshold), np.flatnonzero(column == threshold)[room:]
