import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pytest

from fewlabels.data.room import Room


def test_threads_never_take_more_than_there_is():
    room, lock, held, seen = Room(10), Lock(), [0], []

    def work(amount):
        with room.taken(amount):
            with lock:
                held[0] += amount
                seen.append(held[0])
            time.sleep(0.001)
            with lock:
                held[0] -= amount

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, [3, 7, 1, 10, 4, 6, 2, 9] * 10))
    assert len(seen) == 80
    assert max(seen) <= 10


def test_who_wants_too_much_gets_all_of_it():
    room = Room(10)
    with room.taken(1000):
        assert room._free == 0
    assert room._free == 10


def test_an_error_gives_the_room_back():
    room = Room(10)
    with pytest.raises(ZeroDivisionError), room.taken(4):
        raise ZeroDivisionError
    assert room._free == 10
