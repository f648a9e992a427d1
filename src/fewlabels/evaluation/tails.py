"""Tails of two distributions in plain Python: to import SciPy takes a second."""

from math import erfc, exp, lgamma, log, log1p, sqrt

_HALVINGS = 60


def chance_of(least: int, trials: int, tail: float) -> float:
    """Return the chance of success at which many successes are rare.

    The larger the chance, the likelier they are, so it is found by halving.

    Args:
        least: The successes that are many, at least one.
        trials: How often it is tried.
        tail: How rare: the probability of at least so many, below one half.

    Returns:
        The chance, below the share of successes.
    """
    low, high = 0.0, least / trials
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _at_least(least, trials, middle) < tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _at_least(least: int, trials: int, chance: float) -> float:
    """Return how probable so many successes are; they are more than are expected."""
    ways = lgamma(trials + 1) - lgamma(least + 1) - lgamma(trials - least + 1)
    term = exp(ways + least * log(chance) + (trials - least) * log1p(-chance))
    total, number, odds = 0.0, least, chance / (1 - chance)
    while total + term != total:
        total += term
        term *= odds * (trials - number) / (number + 1)
        number += 1
    return total


def chi_squared_tail(value: float, freedom: int) -> float:
    """Return how probable a value as large is, with so many degrees of freedom.

    Example:
        >>> round(chi_squared_tail(3.841459, 1), 6), round(chi_squared_tail(2.0, 2), 6)
        (0.05, 0.367879)
    """
    half = value / 2
    if half == 0:
        return 1.0
    total, first = (erfc(sqrt(half)), 0.5) if freedom % 2 else (0.0, 0.0)
    for number in range(freedom // 2):
        power = first + number
        total += exp(power * log(half) - half - lgamma(power + 1))
    return total
