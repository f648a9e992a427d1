"""A bound on what several threads hold at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class Room:
    """So much room and no more; who finds too little waits until others have left.

    Example:
        >>> room = Room(10)
        >>> with room.taken(7), room.taken(3):
        ...     print("full")
        full
    """

    def __init__(self, size: int) -> None:
        """Begin with all of it free."""
        self._size = size
        self._free = size
        self._changed = Condition()

    @contextmanager
    def taken(self, amount: int) -> Iterator[None]:
        """Take some of the room while the block runs; more than all counts as all."""
        needed = min(amount, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= needed)
            self._free -= needed
        try:
            yield
        finally:
            with self._changed:
                self._free += needed
                self._changed.notify_all()
