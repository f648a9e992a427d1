"""Public names, commands and file formats change by a decision only."""

import json

import pytest
from tests.surface import COMMAND, FILE, surface


@pytest.fixture(scope="module")
def actual():
    return json.loads(json.dumps(surface()))


@pytest.mark.parametrize("part", ["names", "python", "commands", "files"])
def test_the_surface_is_the_one_that_was_decided(actual, part):
    decided = json.loads(FILE.read_text("utf-8"))[part]
    changed = {
        name: (decided.get(name), actual[part].get(name))
        for name in decided.keys() | actual[part].keys()
        if decided.get(name) != actual[part].get(name)
    }
    assert not changed, f"If you meant this, run {COMMAND} and say why in the commit."
