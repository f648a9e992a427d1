"""Where ticks and names go."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.report.curves import (
    Curve,
    Panel,
    Point,
    kept_below,
    page_curves,
    percent_ticks,
    spread_apart,
    spread_ticks,
)
from fewlabels.report.headline import interval

places = st.lists(st.floats(0, 300), min_size=1, max_size=8)
shares = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(places)
def test_names_are_spread_apart_in_their_order(wished):
    moved = spread_apart(wished, least_gap=18)
    order = sorted(range(len(wished)), key=wished.__getitem__)
    for lower, upper in pairwise(order):
        assert moved[upper] - moved[lower] >= 18 - 1e-6
    assert sum(moved) == pytest.approx(sum(wished), abs=1e-6)


@given(shares)
def test_the_axis_holds_every_accuracy_and_stays_within_percent(accuracies):
    ticks = percent_ticks(accuracies)
    assert 0 <= ticks[0] <= 100 * min(accuracies) + 1e-9
    assert 100 * max(accuracies) - 1e-9 <= ticks[-1] <= 100
    assert len(ticks) >= 2


@given(st.sets(st.integers(0, 500), min_size=1), st.floats(1, 50))
def test_ticks_keep_both_ends(amounts, least_gap):
    ordered = sorted(amounts)
    ticks = spread_ticks(ordered, least_gap)
    assert set(ticks) <= amounts
    assert (ticks[0], ticks[-1]) == (ordered[0], ordered[-1])


@given(st.integers(1, 2000), st.floats(0, 1))
def test_the_interval_holds_the_share_itself(num_test, accuracy):
    low, high = interval(accuracy, num_test)
    assert 0 <= low <= accuracy + 1e-12
    assert accuracy - 1e-12 <= high <= 1


@given(places)
def test_no_name_is_above_the_top(wished):
    moved = kept_below(spread_apart(wished, least_gap=18), gap=18, top=300)
    assert max(moved) <= 300
    for lower, upper in pairwise(sorted(moved)):
        assert upper - lower >= 18 - 1e-6


def curve(name, *points, **changed):
    return Curve(name, 1, tuple(Point(*point) for point in points), **changed)


def test_curves_are_drawn_with_their_names_wherever_they_end():
    early = curve("early & first", (10, 0.5, 0.4, 0.6))
    late = curve("late", (10, 0.5, None, None), (30, 0.7, 0.6, 1.1), number=1)
    wide, narrow = page_curves(Panel((early, late)))
    for element in (wide, narrow):
        assert "early &amp; first 50.0\N{NO-BREAK SPACE}%" in element
        assert "late 70.0\N{NO-BREAK SPACE}%" in element
        assert "late: 50.0\N{NO-BREAK SPACE}% after 10 labels, 70.0" in element
    assert late.heights == [0.5, 0.7, 0.6, 1.0]


def test_a_single_curve_has_values_and_no_name():
    rough = curve("accuracy", (10, 0.998), (30, 0.5), is_rough=True)
    wide, _ = page_curves(Panel((rough,)), words="As said.")
    assert "99.8\N{NO-BREAK SPACE}%" in wide
    assert 'aria-label="As said."' in wide
    assert "accuracy 50" not in wide
