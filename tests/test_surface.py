"""Public names, commands and file formats change by a decision only.

A new strategy, learner or data set is decided by its line in a table; it enters the file
whenever that is written next.
"""

import json

import pytest
from tests.surface import COMMAND, FILE, surface


@pytest.fixture(scope="module")
def actual():
    return json.loads(json.dumps(surface()))


@pytest.mark.parametrize("part", ["python", "commands", "files"])
def test_the_surface_is_the_one_that_was_decided(actual, part):
    decided = json.loads(FILE.read_text("utf-8"))[part]
    changed = {
        name: (decided.get(name), actual[part].get(name))
        for name in decided.keys() | actual[part].keys()
        if decided.get(name) != actual[part].get(name)
    }
    assert not changed, f"If you meant this, run {COMMAND} and say why in the commit."


def test_no_strategy_learner_or_data_set_has_left(actual):
    decided = json.loads(FILE.read_text("utf-8"))["names"]
    left = {kind: {*decided[kind]} - {*actual["names"][kind]} for kind in decided}
    assert not any(left.values()), f"If you meant this, run {COMMAND} and say why."
