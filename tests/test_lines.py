"""What counts as a line of code."""

from scripts.lines import counted

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
