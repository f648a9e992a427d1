"""Numbers as people read them."""

from collections.abc import Sequence
from math import isinf

MISSING = "–"
"""Stands where there is no number."""

_NBSP = "\N{NO-BREAK SPACE}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float | None) -> str:
    """Return a share in percent, with one decimal.

    Example:
        >>> percent(0.9719).replace("\N{NO-BREAK SPACE}", " ")
        '97.2 %'
    """
    return MISSING if share is None else f"{100 * share:.1f}{_NBSP}%"


def rough_percent(share: float) -> str:
    """Return a share that was measured on a few items, in whole percent.

    A share that is neither 0 nor 1 is never rounded to one of them.

    Example:
        >>> [rough_percent(s).replace("\N{NO-BREAK SPACE}", " ") for s in (0.91, 0.998)]
        ['91 %', '99.8 %']
    """
    digits = f"{100 * share:.0f}"
    if digits in {"0", "100"} and 0 < share < 1:
        return percent(min(max(share, 0.001), 0.999))
    return f"{digits}{_NBSP}%"


def points(difference: float) -> str:
    """Return a difference of two shares in percentage points, without its sign."""
    return f"{100 * abs(difference):.1f}{_NBSP}points"


def seconds(duration: float | None) -> str:
    r"""Return a duration in the unit that suits it; None where nobody measured.

    Example:
        >>> [seconds(s).replace("\N{NO-BREAK SPACE}", " ") for s in (1e-4, 7.5, 125)]
        ['< 0.01 s', '7.5 s', '2 min 05 s']
    """
    if duration is None:
        return MISSING
    if duration < 59.95:
        return _below_a_minute(duration)
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}{_NBSP}min{_NBSP}{rest:02d}{_NBSP}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{_NBSP}h{_NBSP}{minutes:02d}{_NBSP}min"


def number(value: float | None) -> str:
    """Return a number with four significant digits.

    Example:
        >>> number(0.123456), number(1.5e-13).replace("\N{NO-BREAK SPACE}", " ")
        ('0.1235', '1.5 × 10⁻¹³')
    """
    if value is None:
        return MISSING
    if isinf(value):
        return "∞"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    if exponent:
        power = str(int(exponent)).translate(_SUPERSCRIPT)
        return f"{_signed(mantissa)}{_NBSP}×{_NBSP}10{power}"
    return _signed(mantissa)


def power_of_ten(exponent: int) -> str:
    """Return a power of ten.

    Example:
        >>> power_of_ten(0), power_of_ten(-3)
        ('1', '10⁻³')
    """
    if exponent in {0, 1}:
        return str(10**exponent)
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def listed(words: Sequence[str]) -> str:
    """Return words as they stand in a sentence.

    Example:
        >>> listed(["npc", "random", "margin"])
        'npc, random and margin'
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def shortened(text: str, length: int) -> str:
    """Return a text, or its beginning where it is too long.

    Example:
        >>> shortened("npc (draws = 100)", 8)
        'npc (dr…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _below_a_minute(duration: float) -> str:
    if 0 < duration < 0.005:
        return f"<{_NBSP}0.01{_NBSP}s"
    return f"{duration:.{2 if duration < 1 else 1}f}{_NBSP}s"


def _signed(digits: str) -> str:
    return digits.replace("-", "\N{MINUS SIGN}")
