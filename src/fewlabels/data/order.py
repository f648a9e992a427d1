"""The order of names, as a person would put them, and the names of splits."""

import re

TRAIN = "train"
"""The split whose items may be asked about."""

MEASURED = ("test", "val", "validation", "valid")
"""Names of splits to measure on; the first one that is present is taken."""

_DIGITS = re.compile(r"(\d+)")
_MOST_DIGITS = 1_000  # Python refuses to read numbers of several thousand digits


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts "9" before "10" and "img2" before "img10".

    Example:
        >>> sorted(["10", "9", "cat"], key=natural_key)
        ['9', '10', 'cat']
    """
    parts = [part for part in _DIGITS.split(name) if part]
    key = [(0, int(p[:_MOST_DIGITS]), p) if p.isdecimal() else (1, 0, p) for p in parts]
    return tuple(key)
