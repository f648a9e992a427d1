"""Other libraries predict probabilities where strategies here read logits."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def logits_of(probabilities: ArrayLike) -> NDArray[Any]:
    """Return logarithms of probabilities (N, C), finite where a probability is zero."""
    given = np.asarray(probabilities)
    if given.dtype.kind != "f":
        given = given.astype(np.float64)
    smallest = np.finfo(given.dtype).tiny
    logits: NDArray[Any] = np.log(np.maximum(given, smallest))
    return logits
