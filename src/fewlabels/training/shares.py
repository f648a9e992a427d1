"""Class shares, as learners that take no steps are told them."""

import math
from typing import Literal

from fewlabels.errors import UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool

Word = Literal["unknown", "even"]
Shares = Word | tuple[float, ...]
"""The shares themselves, ``"even"``, or ``"unknown"``."""


def check_shares(shares: Shares) -> None:
    """Raise unless shares are a known word, or numbers above zero."""
    if isinstance(shares, str):
        check_known("shares", shares, Word)
    elif not all(0 < share < math.inf for share in shares):
        msg = f"shares are {shares}; every share must be a number above zero."
        raise UsageError(msg)


def check_number_of_shares(shares: Shares, pool: Pool) -> None:
    """Raise unless shares that were given are one for each class."""
    if not isinstance(shares, str) and len(shares) != pool.num_classes:
        raise UsageError(
            f"{len(shares)} shares are given, and there are {pool.num_classes} "
            "classes; give one share for each."
        )
