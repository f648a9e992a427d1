"""Labels that are probably wrong, by the probabilities of models that did not see them.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset
Labels" (Journal of Artificial Intelligence Research 70, 2021): labels are ranked by
their self-confidence, the out-of-sample probability of the given class. The filters of
that paper compare with class means and flag every fifth label where a model is right
about two of three images (``benchmarks/label_errors.py``). A ratio of probabilities
flags fewer labels, with a higher precision.

Shapes: n labels, C classes.
"""

import numpy as np
from numpy.typing import NDArray

RATIO = 10.0
"""How many times as likely as the given class another one has to be."""


def stratified_folds(labels: NDArray[np.int64], num_folds: int) -> NDArray[np.int64]:
    """Return the fold of each label; every class is spread evenly over the folds."""
    folds = np.empty(len(labels), dtype=np.int64)
    folds[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % num_folds
    return folds


def likely_errors(
    probabilities: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    ratio: float = RATIO,
) -> NDArray[np.int64]:
    """Return which labels are probably wrong.

    Args:
        probabilities: Of all classes, from models that were trained without the label
            in question, shape (n, C). A row of NaN is not judged.
        labels: Given classes, shape (n,).
        ratio: How many times as likely as the given class another one has to be.

    Returns:
        Positions in ``labels``, the lowest self-confidence first.
    """
    given = probabilities[np.arange(len(labels)), labels]
    flagged = np.flatnonzero(probabilities.max(axis=1) >= ratio * given)
    return flagged[np.argsort(given[flagged], kind="stable")]
