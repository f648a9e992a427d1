"""How far the error will fall, and between which numbers.

Shapes: R rounds, n audited items, D draws.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CARRIED = 0.8
"""Share of the draws in which the error has to fall before a forecast is made."""

_DRAWS = 2000
_Array = NDArray[np.float64]


def expected_fall(
    num_labeled: Sequence[int],
    right: Sequence[Sequence[bool]],
    num_more: int,
    seed: int,
    level: float,
) -> tuple[float, float, float] | None:
    """Return by how much the error falls, and the ends of where that may be.

    See :func:`evaluation.expected_gain`, which says what is assumed.

    Args:
        num_labeled: Labels that each round's model was trained on, R numbers.
        right: Whether each round's model was right about each audited item.
        num_more: How many labels more.
        seed: Of the draws.
        level: How often the fall shall be between the ends.

    Returns:
        The fall, its lower and its upper end; None where it does not fall clearly.
    """
    draws, wrong_Rn = np.random.default_rng(seed % 2**64), ~np.array(right, dtype=bool)
    num_audited = wrong_Rn.shape[1]
    x_R = np.log(num_labeled)
    ahead = float(np.log(max(num_labeled) + num_more) - x_R.max())
    fall_1, _, _ = _falls(x_R, _log_error(wrong_Rn[:, None, :]), ahead)
    fall = float(fall_1[0])
    chosen_Dn = draws.integers(num_audited, size=(_DRAWS, num_audited))
    y_RD = _log_error(wrong_Rn[:, chosen_Dn])
    _, slope_D, error_D = _falls(x_R, y_RD, ahead)
    student_D = draws.standard_t(len(x_R) - 2, size=_DRAWS)
    drawn_D = _fall(slope_D + error_D * student_D, x_R, y_RD, ahead)
    if fall <= 0 or (drawn_D > 0).mean() < CARRIED:
        return None
    low, high = np.quantile(drawn_D, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return fall, min(low, fall), max(high, fall)


def _log_error(wrong_RDn: NDArray[np.bool_]) -> _Array:
    """Return log shares of wrong items (R, D); half a wrong item is added to all."""
    shares_RD = (wrong_RDn.sum(axis=-1) + 0.5) / (wrong_RDn.shape[-1] + 1)
    return np.asarray(np.log(shares_RD))


def _falls(x_R: _Array, y_RD: _Array, ahead: float) -> tuple[_Array, _Array, _Array]:
    """Fit lines; return the fall of the error ahead, slopes and their errors, (D,)."""
    centered_R = x_R - x_R.mean()
    spread = np.square(centered_R).sum()
    slope_D = (centered_R @ y_RD) / spread
    fitted_RD = y_RD.mean(axis=0) + centered_R[:, None] * slope_D
    freedom = len(x_R) - 2
    variance_D = np.square(y_RD - fitted_RD).sum(axis=0) / freedom / spread
    return _fall(slope_D, x_R, y_RD, ahead), slope_D, np.sqrt(variance_D)


def _fall(slope_D: _Array, x_R: _Array, y_RD: _Array, ahead: float) -> _Array:
    """Return by how much the error falls from the last round to ``ahead`` of it."""
    slope_D = slope_D.clip(max=0)
    last_D = y_RD.mean(axis=0) + (x_R.max() - x_R.mean()) * slope_D
    return np.asarray(np.exp(last_D.clip(max=0)) * -np.expm1(slope_D * ahead))
