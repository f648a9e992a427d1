"""Where ticks and names go."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.report.figures import Curve, Point, draw_curves, hues, spread_apart
from fewlabels.report.wording import rough_percent

places = st.lists(st.floats(0, 300), min_size=1, max_size=8)


@given(places)
def test_names_are_spread_apart_in_their_order_and_none_is_above_the_top(wished):
    moved = spread_apart(wished, gap=18, top=300)
    order = sorted(range(len(wished)), key=wished.__getitem__)
    for lower, upper in pairwise(order):
        assert moved[upper] - moved[lower] >= 18 - 1e-6
    assert max(moved) <= 300 + 1e-6
    assert sum(spread_apart(wished, gap=18, top=1e4)) == pytest.approx(sum(wished))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_the_axis_holds_every_accuracy_and_stays_within_percent(accuracies):
    points = tuple(Point(10 + place, share) for place, share in enumerate(accuracies))
    drawing = draw_curves("x", [Curve("npc", 1, points)])
    low, high = drawing.figure.axes[0].get_ylim()
    assert 0 <= low <= min(accuracies) + 1e-9
    assert max(accuracies) - 1e-9 <= high <= 1


def test_a_strategy_keeps_its_color_and_runs_of_it_share_one():
    names = ["margin", "npc", "dal", "random", "margin", "npc (draws = 9)"]
    assert hues(names) == {
        "margin": 2, "npc": 1, "dal": 3, "random": 0, "npc (draws = 9)": 4
    }  # fmt: skip
    assert max(hues([f"mine {number}" for number in range(30)]).values()) == 9


def curve(name, *points, hue=1):
    return Curve(name, hue, tuple(Point(*point) for point in points))


def test_curves_are_drawn_with_their_names_wherever_they_end():
    early = curve("early & $first$ 写真", (10, 0.5, 0.4, 0.6))
    late = curve("l" * 40, (10, 0.5), (30, 0.7, 0.6, 1.1), hue=2)
    element = draw_curves("x", [early, late]).svg()
    assert "early &amp; $first$ 写真 50.0\N{NO-BREAK SPACE}%" in element
    assert f"{'l' * 24} 70.0\N{NO-BREAK SPACE}%" in element
    assert "50.0\N{NO-BREAK SPACE}% after 10 labels, 70.0" in element
    assert late.band == [(30, 0.6, 1.0)]
    assert "font-family" not in element


def test_a_single_curve_has_values_and_no_name():
    rough = curve("accuracy", (10, 0.998), (30, 0.5))
    element = draw_curves("x", [rough], value=rough_percent, words="As said.").svg()
    assert "99.8\N{NO-BREAK SPACE}%" in element
    assert 'aria-label="As said."' in element
    assert "accuracy 50" not in element
