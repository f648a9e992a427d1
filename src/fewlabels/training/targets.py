"""How many rows each class shall get: given, counted or estimated.

Shapes: M rows of probabilities, K classes.

Every function returns K numbers above zero that add up to M, in double precision, as
:func:`fewlabels.training.darp.solve` wants them.
"""

import torch
from torch import Tensor

from fewlabels.errors import (
    LabelError,
    ShapeError,
    UsageError,
    check_range,
    whole_number,
)

_MOST_ROUNDS = 1000
_LEAST_CHANGE = 1e-7
_LEAST_SHARE = 1e-12
_ROW_TOLERANCE = 1e-3
_TARGET_TOLERANCE = 1e-6


def uniform(num_rows: int, num_classes: int) -> Tensor:
    """Give every class the same number of rows: M / K.

    Example:
        >>> uniform(6, 4)
        tensor([1.5000, 1.5000, 1.5000, 1.5000], dtype=torch.float64)

    Args:
        num_rows: M.
        num_classes: K.

    Returns:
        The target, shape (K,).
    """
    return from_shares(torch.ones(num_classes), num_rows)


def from_shares(shares: Tensor, num_rows: int) -> Tensor:
    """Give classes rows in proportion to some numbers.

    Args:
        shares: One number above zero for each class, shape (K,); their sum does not
            matter.
        num_rows: M.

    Returns:
        The target, shape (K,).

    Raises:
        UsageError: If a share is not a finite number above zero.
    """
    shares_K = torch.as_tensor(shares).detach().double()
    check_range("num_rows", whole_number("num_rows", num_rows), at_least=1)
    if shares_K.dim() != 1 or not bool(((shares_K > 0) & shares_K.isfinite()).all()):
        raise UsageError(f"shares are {shares_K.tolist()}; give finite ones above 0.")
    return shares_K / shares_K.sum() * num_rows


def from_labels(labels: Tensor, num_classes: int, num_rows: int) -> Tensor:
    """Give classes rows as the labels are spread.

    One label is added to each class (Laplace's rule), so that a class without a label
    still gets some rows.

    Args:
        labels: Known classes, shape (n,).
        num_classes: K.
        num_rows: M.

    Returns:
        The target, shape (K,).

    Raises:
        LabelError: If a label is not among the classes.
    """
    wrong = labels[(labels < 0) | (labels >= num_classes)]
    if len(wrong):
        raise LabelError(
            f"{len(wrong)} labels are not from 0 to {num_classes - 1}, as {wrong[0]}."
        )
    counts_K = torch.bincount(labels.long(), minlength=num_classes)
    return from_shares(counts_K + 1, num_rows)


def estimated(probabilities: Tensor) -> Tensor:
    """Estimate how many rows belong to each class from the predictions themselves.

    Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a
    priori probabilities" (Neural Computation, 2002): the shares of greatest likelihood,
    by expectation and maximization. It is right as far as the classifier is calibrated
    on data with equal shares; few labels seldom make it so.

    Args:
        probabilities: Rows that sum to one, shape (M, K).

    Returns:
        The target, shape (K,); no class gets less than about one row.
    """
    rows_MK = probability_rows(probabilities).double()
    num_rows, num_classes = rows_MK.shape
    shares_K = even_K = rows_MK.new_full((num_classes,), 1 / num_classes)
    for _ in range(_MOST_ROUNDS):
        ratios_K = shares_K / even_K
        weights_M = (rows_MK @ ratios_K).reciprocal_().div_(num_rows)
        updated_K = (weights_M @ rows_MK).mul_(ratios_K).clamp_min_(_LEAST_SHARE)
        change = float((updated_K - shares_K).abs().max())
        shares_K = updated_K
        if change < _LEAST_CHANGE:
            break
    return from_shares(shares_K.clamp_min(1 / num_rows), num_rows)


def misfit(probabilities: Tensor, target: Tensor) -> float:
    """Return how far the mean prediction is from the target's shares.

    Args:
        probabilities: Rows that sum to one, shape (M, K).
        target: How many rows each class shall get, shape (K,).

    Returns:
        The total variation distance, from 0 (equal) to 1: the share of all rows that
        have to change their class at least.
    """
    rows_MK = probability_rows(probabilities)
    wanted_K = column_target(target, rows_MK) / len(rows_MK)
    mean_K = rows_MK.mean(dim=0, dtype=torch.float64)
    return float((mean_K / mean_K.sum() - wanted_K).abs().sum() / 2)


def probability_rows(probabilities: Tensor) -> Tensor:
    """Return the matrix, detached, in single or double precision, after checks.

    Args:
        probabilities: Rows that sum to one, shape (M, K).

    Returns:
        The rows.

    Raises:
        ShapeError: If there are not rows and columns of floating point numbers.
        UsageError: If a row does not sum to one, or a number is below zero.
    """
    is_matrix = probabilities.dim() == 2 and probabilities.numel()
    if not is_matrix or not probabilities.is_floating_point():
        raise ShapeError(
            f"probabilities have shape {tuple(probabilities.shape)} and type "
            f"{probabilities.dtype}; give floating point numbers (items, classes)."
        )
    matrix_MK = probabilities.detach()
    if matrix_MK.dtype != torch.float64:
        matrix_MK = matrix_MK.float()
    sums_M = matrix_MK @ matrix_MK.new_ones(matrix_MK.shape[1])
    is_wrong_M = ~((sums_M - 1).abs() <= _ROW_TOLERANCE)
    least = float(matrix_MK.min())
    if bool(is_wrong_M.any()) or least < 0:
        row = int(is_wrong_M.byte().argmax())
        raise UsageError(
            f"{int(is_wrong_M.sum())} of {len(sums_M)} rows do not sum to 1 (as {row}: "
            f"{float(sums_M[row]):.6g}, least {least:.6g}); apply torch.softmax."
        )
    return matrix_MK


def column_target(target: Tensor, matrix_MK: Tensor) -> Tensor:
    """Return the target in double precision, adding up to M exactly."""
    num_rows, num_classes = matrix_MK.shape
    target_K = torch.as_tensor(target).detach().to(matrix_MK.device, torch.float64)
    total = float(target_K.sum())
    is_near = abs(total - num_rows) <= _TARGET_TOLERANCE * num_rows
    is_vector = target_K.shape == (num_classes,)
    if not (is_vector and is_near and bool((target_K > 0).all())):
        raise UsageError(
            f"target is {target_K.tolist()} and adds up to {total:.10g}; give "
            f"{num_classes} numbers above 0 that add up to {num_rows}."
        )
    return target_K * (num_rows / total)
