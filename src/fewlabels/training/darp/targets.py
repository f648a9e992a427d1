"""How many rows each class shall get, when nobody knows.

Shapes: M rows of probabilities, K classes.

Every function returns K numbers above zero that add up to M, in double precision, as
:func:`fewlabels.training.darp.solve` wants them.
"""

import torch
from torch import Tensor

from fewlabels.errors import LabelError, ShapeError, UsageError
from fewlabels.integers import whole_number
from fewlabels.training.darp import checks

_MOST_ROUNDS = 1000
_LEAST_CHANGE = 1e-7
_LEAST_SHARE = 1e-12


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
    return from_shares(torch.ones(_positive("num_classes", num_classes)), num_rows)


def from_shares(shares: Tensor, num_rows: int) -> Tensor:
    """Give classes rows in proportion to some numbers.

    Args:
        shares: One number above zero for each class, shape (K,); their sum does not
            matter.
        num_rows: M.

    Returns:
        The target, shape (K,).
    """
    return _shares("shares", shares) * _positive("num_rows", num_rows)


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
        ShapeError: If the labels are not a list of whole numbers.
        LabelError: If a label is not among the classes.
    """
    num_classes = _positive("num_classes", num_classes)
    if labels.dim() != 1 or labels.is_floating_point():
        raise ShapeError(
            f"labels have shape {tuple(labels.shape)} and type {labels.dtype}; give "
            "one class number for each labeled item."
        )
    is_wrong = (labels < 0) | (labels >= num_classes)
    if bool(is_wrong.any()):
        raise LabelError(
            f"{int(is_wrong.sum())} of {len(labels)} labels are not classes from 0 to "
            f"{num_classes - 1}, the first of them {int(labels[is_wrong][0])}; give "
            "the labels of labeled items only."
        )
    counts_K = torch.bincount(labels.long(), minlength=num_classes)
    return from_shares(counts_K + 1, num_rows)


def estimated(probabilities: Tensor, prior: Tensor | None = None) -> Tensor:
    """Estimate how many rows belong to each class from the predictions themselves.

    Saerens, Latinne and Decaestecker, "Adjusting the outputs of a classifier to new a
    priori probabilities" (Neural Computation, 2002): the shares of greatest likelihood,
    by expectation and maximization. It is right as far as the classifier is calibrated
    on data with the prior shares; few labels seldom make it so.

    Args:
        probabilities: Rows that sum to one, shape (M, K).
        prior: Shares of the classes in the data that the classifier was trained on,
            shape (K,); None stands for equal shares.

    Returns:
        The target, shape (K,); no class gets less than about one row.

    Raises:
        ShapeError: If there is not one prior share for each class.
    """
    rows_MK = checks.probability_rows(probabilities).double()
    num_rows, num_classes = rows_MK.shape
    equal_K = rows_MK.new_full((num_classes,), 1 / num_classes)
    prior_K = equal_K if prior is None else _shares("prior", prior).to(rows_MK.device)
    if len(prior_K) != num_classes:
        raise ShapeError(
            f"prior has {len(prior_K)} entries, and probabilities have {num_classes} "
            "columns; give one share for each class."
        )
    shares_K = prior_K
    for _ in range(_MOST_ROUNDS):
        ratios_K = shares_K / prior_K
        weights_M = (rows_MK @ ratios_K).reciprocal_().div_(num_rows)
        updated_K = (weights_M @ rows_MK).mul_(ratios_K).clamp_min_(_LEAST_SHARE)
        change = float((updated_K - shares_K).abs().max())
        shares_K = updated_K
        if change < _LEAST_CHANGE:
            break
    return from_shares(shares_K.clamp_min(1 / num_rows), num_rows)


def misfit(probabilities: Tensor, target: Tensor) -> float:
    """Tell how far the mean prediction is from the target's shares.

    Args:
        probabilities: Rows that sum to one, shape (M, K).
        target: How many rows each class shall get, shape (K,).

    Returns:
        The total variation distance, from 0 (equal) to 1: the share of all rows that
        have to change their class at least.
    """
    rows_MK = checks.probability_rows(probabilities)
    wanted_K = checks.column_target(target, rows_MK) / len(rows_MK)
    mean_K = rows_MK.mean(dim=0, dtype=torch.float64)
    return float((mean_K / mean_K.sum() - wanted_K).abs().sum() / 2)


def _shares(name: str, shares: Tensor) -> Tensor:
    """Return numbers above zero scaled to sum to one."""
    shares_K = torch.as_tensor(shares).detach().double()
    if shares_K.dim() != 1 or not len(shares_K):
        raise ShapeError(
            f"{name} has shape {tuple(shares_K.shape)}; give one number for each class."
        )
    is_wrong_K = ~((shares_K > 0) & shares_K.isfinite())
    if bool(is_wrong_K.any()):
        number = int(is_wrong_K.byte().argmax())
        raise UsageError(
            f"{name} gives class {number} the number {float(shares_K[number]):.6g}; "
            "every class needs a finite number above 0."
        )
    return shares_K / shares_K.sum()


def _positive(name: str, value: int) -> int:
    """Return a whole number that is at least one."""
    number = whole_number(name, value)
    if number < 1:
        raise UsageError(f"{name} is {number}; give at least 1.")
    return number
