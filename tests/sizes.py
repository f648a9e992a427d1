"""How much of something is tried in each change, and how much in the slow tests."""

import pytest


def seeds(fast, number=100):
    """Return seeds for ``parametrize``; those from ``fast`` on are slow tests."""
    later = range(fast, number)
    return [*range(fast), *(pytest.param(n, marks=pytest.mark.slow) for n in later)]
