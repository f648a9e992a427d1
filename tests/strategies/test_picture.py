"""The picture of all strategies is drawn, and no two panels look alike."""

import importlib.util
from itertools import combinations
from pathlib import Path

import pytest

from fewlabels import strategies

SCRIPT = Path(__file__).parents[2] / "scripts" / "strategies_picture.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("strategies_picture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def problem(script):
    return script.Scene(seed=0)


def test_there_is_a_panel_per_strategy(script, problem):
    titles = [axes.get_title() for axes in script.picture(problem).axes]
    assert [title.split()[0] for title in titles if title] == list(strategies.names())


def test_no_two_strategies_pick_the_same_points(problem):
    picks = {name: set(problem.picks(name).tolist()) for name in strategies.names()}
    alike = [
        pair for pair in combinations(picks, 2) if picks[pair[0]] == picks[pair[1]]
    ]
    assert alike == [], "is the second of each pair worth a name of its own?"
