"""Numbers of a comparison as people read them."""

import re
from math import isfinite

from fewlabels.report.wording import MISSING

_MINUS = "\N{MINUS SIGN}"


def spread(mean: float, deviation: float) -> str:
    """Return a mean accuracy in percent, with its deviation where there is one.

    Example:
        >>> spread(0.9463, 0.0007), spread(0.5, float("nan"))
        ('94.63 ± 0.07', '50.00')
    """
    if not isfinite(mean):
        return MISSING
    whole = f"{100 * mean:.2f}"
    return f"{whole} ± {100 * deviation:.2f}" if isfinite(deviation) else whole


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign; nothing that rounds to zero has one.

    Example:
        >>> signed(0.126), signed(-1.5, 1).replace("\N{MINUS SIGN}", "-"), signed(-0.0)
        ('+0.13', '-1.5', '0.00')
    """
    if not isfinite(value):
        return MISSING
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return f"{'+' if value > 0 else _MINUS}{text}"


def p_text(p: float) -> str:
    """Return a p value.

    Example:
        >>> p_text(0.0312), p_text(0.00002).replace("\N{NO-BREAK SPACE}", " ")
        ('0.031', '< 0.001')
    """
    if not isfinite(p):
        return MISSING
    return "<\N{NO-BREAK SPACE}0.001" if p < 0.0005 else f"{p:.3f}"


def decimal(value: float, digits: int = 2) -> str:
    """Return a number with some digits behind the point."""
    return f"{value:.{digits}f}" if isfinite(value) else MISSING


def in_percent(share: float, digits: int = 1) -> str:
    """Return a share in percent without the sign, as in a table.

    Example:
        >>> in_percent(0.1234)
        '12.3'
    """
    return decimal(100 * share, digits)


def word(text: str) -> str:
    """Return a text as a part of a file's name.

    Example:
        >>> word("zero-shot, 40 labels")
        'zero-shot-40-labels'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
