"""The data sets that have a name."""

from fewlabels.data.digits import digits_pool
from fewlabels.pool import Pool


def names() -> list[str]:
    """Return the names of the data sets, sorted."""
    return ["digits"]


def named_pool(name: str) -> Pool:
    """Return a data set by name."""
    del name
    return digits_pool()
