"""Stand-in until the real one is merged."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedTable:
    """x."""

    title: str
