"""What counts as a line of code."""

from scripts.lines import counted, excess, lowered

SOURCE = '''"""A module."""

import os  # used below


def name():
    """Return a name."""
    # Two lines, one statement.
    return os.sep.join(
        ["a"])


TEXT = """
a value
"""
"""What is above it."""
'''


def test_comments_blanks_and_documents_are_no_code():
    assert counted(SOURCE) == {"lines": 16, "code": 7, "documents": 3}


def test_a_package_over_its_limit_or_without_one_is_named():
    limits = {"web": 10, "data": 10}
    assert not list(excess({"web": 10, "data": 9}, limits))
    over, unknown = excess({"web": 12, "news": 1}, limits)
    assert "web has 12 lines of code, 2 over" in over
    assert "news has no limit" in unknown


def test_limits_are_lowered_and_never_raised():
    text = (
        "[a]\nweb = 3\n\n[tool.fewlabels.lines]\ndata = 10\nweb = 10\n\n[b]\nweb = 9\n"
    )
    lower = lowered(text, {"web": 7, "data": 12}, {"web": 10, "data": 10})
    assert lower == text.replace("web = 10", "web = 7")


def test_strategies_keep_room_for_the_next_one():
    text = "[tool.fewlabels.lines]\nstrategies = 900\n\n"
    assert "strategies = 580" in lowered(text, {"strategies": 500}, {"strategies": 900})
