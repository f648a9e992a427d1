"""Accuracy over the rounds on one audit slice, and what more labels may bring.

Shapes: R rounds, n audited items, D draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.errors import ShapeError, UsageError
from fewlabels.evaluation.intervals import AuditedAccuracy, accuracy_interval
from fewlabels.integers import whole_number

LEAST_ROUNDS = 3
"""Rounds below which nothing is foretold: two points fit every law."""

LEAST_AUDITED = 10
"""Audited items below which nothing is foretold."""

FURTHEST = 2.0
"""How far ahead is foretold, as a multiple of the labels there are."""

CARRIED = 0.8
"""Share of the draws in which the error has to fall for anything to be foretold."""

_DRAWS = 2000


@dataclass(frozen=True)
class CurvePoint:
    """One round: the labels its model was trained on, and how good it was."""

    num_labeled: int
    audited: AuditedAccuracy


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What more labels are expected to bring."""

    num_more: int
    """How many more labels."""
    gain: float | None
    """Expected rise of the accuracy, a share; None where no guess is honest."""
    low: float = 0.0
    """Lower end of where it may be."""
    high: float = 1.0
    """Upper end of where it may be."""
    level: float = 0.8
    """How often the rise shall be between the two, if the model of it holds."""
    reason: str = ""
    """Why there is no guess; empty where there is one."""

    def __str__(self) -> str:
        """Say it in a sentence, in points of a percent."""
        if self.gain is None:
            return f"No forecast: {self.reason}"
        return (
            f"{self.num_more} more labels are expected to bring "
            f"{100 * self.gain:z.1f} points ({100 * self.low:z.1f} to "
            f"{100 * self.high:z.1f} at the {100 * self.level:g} % level)."
        )


def learning_curve(
    num_labeled: Sequence[int],
    right: Tensor,
    level: float = 0.95,
    *,
    num_items: int | None = None,
) -> tuple[CurvePoint, ...]:
    """Return the accuracy of each round's model, with a band.

    The band holds for each round by itself. All rounds are measured on the same slice,
    so its luck moves them together, and differences between rounds are surer than the
    band looks.

    Args:
        num_labeled: Labels that each round's model was trained on, R numbers.
        right: Whether each round's model was right about each audited item, truth
            values, shape (R, n).
        level: How often the interval of a round covers the truth, at least.
        num_items: Size of the set that the slice was drawn from, if the accuracy on
            this very set is wanted; see :func:`accuracy_interval`.

    Returns:
        A point per round, in the order given.
    """
    _check(num_labeled, right)
    num_audited = right.shape[1]
    return tuple(
        CurvePoint(
            labels, accuracy_interval(rights, num_audited, level, num_items=num_items)
        )
        for labels, rights in zip(num_labeled, right.sum(dim=1).tolist(), strict=True)
    )


def expected_gain(
    num_labeled: Sequence[int],
    right: Tensor,
    num_more: int,
    generator: Generator,
    *,
    level: float = 0.8,
) -> Gain:
    """Return what ``num_more`` labels after the last round are expected to bring.

    The share of wrong items is taken to fall as a power of the number of labels, never
    to rise: log error = a - b log labels with b at least 0. Two things are uncertain,
    and both are drawn: which items were audited (drawn anew with replacement, the same
    for all rounds) and how well the rounds follow the law (the slope, from Student's
    distribution with R - 2 degrees of freedom). With three rounds that leaves much
    open, as it should. Where the error does not fall in four of five draws, such as
    after a fall of the accuracy, the rounds do not carry a forecast and none is made. A
    law without a floor promises too much far ahead, so nothing is foretold past twice
    the labels there are. Rounds without a label are left out.

    Args:
        num_labeled: Labels that each round's model was trained on, R numbers.
        right: Whether each round's model was right about each audited item, truth
            values, shape (R, n).
        num_more: How many labels more.
        generator: Where the draws come from.
        level: How often the rise shall be inside the interval, if the law holds.

    Returns:
        The expected rise with an interval; or the reason why there is none.
    """
    _check(num_labeled, right)
    more = whole_number("num_more", num_more)
    if more < 1 or not 0 < level < 1:
        raise UsageError(
            f"num_more is {more} and level {level}; give at least 1 label and a level "
            "between 0 and 1."
        )
    trained = [number for number, labels in enumerate(num_labeled) if labels > 0]
    num_labeled, right = [num_labeled[number] for number in trained], right[trained]
    reason = _why_not(num_labeled, right, more)
    if reason:
        return Gain(num_more=more, gain=None, level=level, reason=reason)
    x_R = torch.tensor(num_labeled, dtype=torch.float64).log()
    ahead = math.log(max(num_labeled) + more) - float(x_R.max())
    best_1, _ = _falls(x_R, _log_error(right[:, None, :]), ahead)
    gain = float(best_1)
    chosen_Dn = torch.randint(
        right.shape[1], (_DRAWS, right.shape[1]), generator=generator
    )
    drawn_D = _drawn_falls(x_R, _log_error(right[:, chosen_Dn]), ahead, generator)
    if gain <= 0 or float((drawn_D > 0).double().mean()) < CARRIED:
        shares = right.double().mean(dim=1).tolist()
        seen = ", ".join(f"{100 * share:.0f}" for share in shares)
        reason = (
            f"the accuracy ({seen} %) does not rise clearly with the labels so far."
        )
        return Gain(num_more=more, gain=None, level=level, reason=reason)
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.quantile(drawn_D, tails).tolist()
    return Gain(
        num_more=more, gain=gain, low=min(low, gain), high=max(high, gain), level=level
    )


def fall_note(right: Tensor) -> str | None:
    """Say so when the last round's model is worse than the one before.

    Example:
        >>> right = torch.arange(60) < torch.tensor([[37], [43], [34]])
        >>> print(fall_note(right)[:64])
        The accuracy fell from 72 % to 57 %: of 60 audited images 9 that

    Args:
        right: Whether each round's model was right about each audited item, truth
            values, shape (R, n).

    Returns:
        The note; None where the accuracy did not fall, or nothing was measured.
    """
    if len(right) < 2:
        return None
    before_n, now_n = right[-2], right[-1]
    num_lost = int((before_n & ~now_n).sum())
    num_won = int((~before_n & now_n).sum())
    if num_lost <= num_won:
        return None
    num_moved = num_lost + num_won
    tail = sum(math.comb(num_moved, lost) for lost in range(num_lost, num_moved + 1))
    chance = 100 * (tail / 2**num_moved)
    shares = [100 * float(one.double().mean()) for one in (before_n, now_n)]
    return (
        f"The accuracy fell from {shares[0]:.0f} % to {shares[1]:.0f} %: of "
        f"{len(now_n)} audited images {num_lost} that were right are wrong now, and "
        f"{num_won} the other way round. Chance alone does as much in "
        f"{f'{chance:.2g}' if chance >= 0.1 else 'less than 0.1'} % of cases."
    )


def _log_error(right_RDn: Tensor) -> Tensor:
    """Return log shares of wrong items (R, D); half a wrong item is added to all."""
    wrong_RD = (~right_RDn).sum(dim=-1).double()
    return ((wrong_RD + 0.5) / (right_RDn.shape[-1] + 1)).log()


def _falls(x_R: Tensor, y_RD: Tensor, ahead: float) -> tuple[Tensor, Tensor]:
    """Fit lines and return the fall of the error ahead (D,), and slopes with errors."""
    centered_R = x_R - x_R.mean()
    spread = centered_R.square().sum()
    slope_D = (centered_R @ y_RD) / spread
    fitted_RD = y_RD.mean(dim=0) + centered_R[:, None] * slope_D
    freedom = len(x_R) - 2
    variance_D = (y_RD - fitted_RD).square().sum(dim=0) / freedom / spread
    fall_D = _fall(slope_D, x_R, y_RD, ahead)
    return fall_D, torch.stack([slope_D, variance_D.sqrt()])


def _fall(slope_D: Tensor, x_R: Tensor, y_RD: Tensor, ahead: float) -> Tensor:
    """Return by how much the error falls from the last round to ``ahead`` of it."""
    slope_D = slope_D.clamp(max=0)
    last_D = y_RD.mean(dim=0) + (x_R.max() - x_R.mean()) * slope_D
    return last_D.clamp(max=0).exp() * -torch.expm1(slope_D * ahead)


def _drawn_falls(
    x_R: Tensor, y_RD: Tensor, ahead: float, generator: Generator
) -> Tensor:
    """Return the fall for slopes drawn around those of the fitted lines (D,)."""
    _, (slope_D, error_D) = _falls(x_R, y_RD, ahead)
    freedom = len(x_R) - 2
    normal = torch.randn(
        1 + freedom, len(slope_D), generator=generator, dtype=torch.float64
    )
    student_D = normal[0] / normal[1:].square().mean(dim=0).sqrt()
    return _fall(slope_D + error_D * student_D, x_R, y_RD, ahead)


def _why_not(num_labeled: Sequence[int], right: Tensor, more: int) -> str:
    """Return why nothing is foretold; nothing if it can be."""
    num_audited = right.shape[1]
    distinct = len(set(num_labeled))
    if distinct < LEAST_ROUNDS:
        return (
            f"the models so far saw {distinct} different numbers of labels; at least "
            f"{LEAST_ROUNDS} are needed to see where the curve goes."
        )
    if num_audited < LEAST_AUDITED:
        return (
            f"{num_audited} audited images; at least {LEAST_AUDITED} are needed to "
            "see the curve at all."
        )
    if more > (FURTHEST - 1) * max(num_labeled):
        return (
            f"{more} more labels are past {FURTHEST:g} times the {max(num_labeled)} "
            "that there are; ask for fewer."
        )
    return ""


def _check(num_labeled: Sequence[int], right: Tensor) -> None:
    is_table = right.ndim == 2 and right.dtype == torch.bool
    if not is_table or len(right) != len(num_labeled):
        raise ShapeError(
            f"right is {right.dtype} of shape {tuple(right.shape)}, and there are "
            f"{len(num_labeled)} rounds; give truth values of shape (rounds, audited)."
        )
