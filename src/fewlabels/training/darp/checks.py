"""What is refused before any work is done.

Shapes: M rows of probabilities, K classes.
"""

import math

import torch
from torch import Tensor

from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.integers import whole_number

_ROW_TOLERANCE = 1e-3
_TARGET_TOLERANCE = 1e-6
_NUM_AXES = 2
_CHOICES = {
    "weighting": ("entropy", "none"),
    "masking": ("paper", "code"),
    "solver": ("newton", "alternating"),
}


def check_options(
    *,
    capacity: float | None,
    weighting: str,
    masking: str,
    solver: str,
    rounds: int,
    tolerance: float,
) -> None:
    """Raise unless every option has a meaning."""
    chosen = {"weighting": weighting, "masking": masking, "solver": solver}
    for option, name in chosen.items():
        if name not in _CHOICES[option]:
            raise UnknownNameError(option, str(name), _CHOICES[option])
    if capacity is not None and not capacity >= 1:
        raise UsageError(
            f"capacity is {capacity}; a column that keeps fewer entries than its "
            "target cannot reach it: give at least 1 (the paper takes 2), or None to "
            "keep all."
        )
    if whole_number("rounds", rounds) < 1:
        raise UsageError(f"rounds is {rounds}; give at least 1 (the paper takes 10).")
    if not tolerance > 0 or tolerance == math.inf:
        raise UsageError(
            f"tolerance is {tolerance}; sums are rounded, so that no difference to the "
            "target cannot be promised: give a small number above 0, such as 1e-6."
        )


def probability_rows(probabilities: Tensor) -> Tensor:
    """Return the matrix, detached, in single or double precision."""
    if probabilities.dim() != _NUM_AXES or not probabilities.numel():
        raise ShapeError(
            f"probabilities have shape {tuple(probabilities.shape)}; give one row per "
            "item and one column per class, and at least one of each."
        )
    if not probabilities.is_floating_point():
        raise UsageError(
            f"probabilities are of type {probabilities.dtype}; give floating point "
            "numbers that sum to one in each row."
        )
    matrix_MK = probabilities.detach()
    if matrix_MK.dtype != torch.float64:
        matrix_MK = matrix_MK.float()
    sums_M = matrix_MK @ matrix_MK.new_ones(matrix_MK.shape[1])
    is_wrong_M = ~((sums_M - 1).abs() <= _ROW_TOLERANCE)
    if bool(is_wrong_M.any()):
        row = int(is_wrong_M.byte().argmax())
        raise UsageError(
            f"Row {row} of the probabilities sums to {float(sums_M[row]):.6g}, as do "
            f"{int(is_wrong_M.sum())} of {len(sums_M)} rows to something other than "
            "1; give probabilities, such as torch.softmax(logits, dim=1)."
        )
    least = float(matrix_MK.min())
    if least < 0:
        row, column = divmod(int(matrix_MK.argmin()), matrix_MK.shape[1])
        raise UsageError(
            f"The probability of class {column} in row {row} is {least:.6g}; give "
            "probabilities, none of them below 0."
        )
    return matrix_MK


def column_target(target: Tensor, matrix_MK: Tensor) -> Tensor:
    """Return the target in double precision, adding up to M exactly."""
    num_rows, num_classes = matrix_MK.shape
    target_K = torch.as_tensor(target).detach().to(matrix_MK.device, torch.float64)
    if target_K.shape != (num_classes,):
        raise ShapeError(
            f"target has shape {tuple(target_K.shape)}, and probabilities have "
            f"{num_classes} columns; give one number of rows for each class."
        )
    is_wrong_K = ~(target_K > 0)
    if bool(is_wrong_K.any()):
        number = int(is_wrong_K.byte().argmax())
        raise UsageError(
            f"The target of class {number} is {float(target_K[number]):.6g}; every "
            "class needs a share above 0, if a small one. Leave out the columns of "
            "classes that cannot occur."
        )
    total = float(target_K.sum())
    if not abs(total - num_rows) <= _TARGET_TOLERANCE * num_rows:
        raise UsageError(
            f"target adds up to {total:.10g}, and there are {num_rows} rows; every row "
            "goes to some class, so give numbers of rows that add up to all of them "
            "(darp.targets.from_shares scales any shares)."
        )
    return target_K * (num_rows / total)


def starting_dual(start: Tensor | None, target_K: Tensor) -> Tensor:
    """Return where a solver begins, of mean zero."""
    if start is None:
        return torch.zeros_like(target_K)
    start_K = start.detach().to(target_K)
    if start_K.shape != target_K.shape:
        raise ShapeError(
            f"start has shape {tuple(start_K.shape)}, and there are {len(target_K)} "
            "classes; give the dual of a refinement with the same classes."
        )
    if not bool(start_K.isfinite().all()):
        raise UsageError(
            f"{int((~start_K.isfinite()).sum())} of {len(start_K)} entries of start "
            "are not finite; give the dual of an earlier refinement, or None."
        )
    return start_K - start_K.mean()
