"""The next round is chosen as early as people are fast and choosing is slow."""

import pytest

from fewlabels.web.pace import AHEAD, FIRST_SECONDS, MOST_AHEAD, Pace


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def left_when_chosen(seconds_each, seconds_to_choose, size=40):
    """Return how many images of a second round are left when the third is chosen."""
    clock = Clock()
    pace = Pace(clock)
    if seconds_to_choose is not None:
        pace.begin()
        clock.now += seconds_to_choose
        pace.end()
    for left in range(size, 0, -1):
        asked = {"number": 1, "size": size, "open": left}
        pace.see(asked)
        if pace.is_time(asked):
            return left
        clock.now += seconds_each
    return 0


def test_where_choosing_is_quick_it_waits_for_most_labels():
    assert left_when_chosen(2, 0.5) == AHEAD


def test_where_choosing_takes_longer_it_begins_earlier():
    assert left_when_chosen(2, 9) == 7
    assert left_when_chosen(0.5, 60) == MOST_AHEAD  # which is all that tabs hold


def test_before_it_was_timed_choosing_is_taken_to_be_slow():
    assert left_when_chosen(2, None) == left_when_chosen(2, FIRST_SECONDS) > AHEAD


def test_of_a_small_round_half_is_answered_first():
    assert left_when_chosen(2, 60, size=6) == 3


@pytest.mark.parametrize("size", [1, 20])
def test_nothing_is_chosen_before_somebody_has_answered(size):
    pace = Pace(Clock())
    asked = {"number": 0, "size": size, "open": size}
    pace.see(None)
    pace.see(asked)
    assert not pace.is_time(asked)
