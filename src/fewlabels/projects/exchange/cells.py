"""Cells of a table, written so that a spreadsheet takes them for what they are.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end may be run as a
formula. It gets an apostrophe in front, which spreadsheets take for "this is text", and
reading takes one apostrophe off again. Identifiers get the mark ``id:``, because a hash
such as ``12345678e9012345`` would come back as a rounded number.
"""

import re

ID_MARK = "id:"
"""What an identifier in a table begins with."""

_RISKY = re.compile(r"'*[=+\-@\t\r\n]")
_GUARDED = re.compile(r"'+[=+\-@\t\r\n]")


def guarded(cell: str) -> str:
    """Return a cell that no spreadsheet runs.

    Example:
        >>> guarded("=1+1.png"), guarded("cat.png")
        ("'=1+1.png", 'cat.png')
    """
    return f"'{cell}" if _RISKY.match(cell) else cell


def unguarded(cell: str) -> str:
    """Return what was written by ``guarded``; other text stays as it is.

    Example:
        >>> unguarded("'=1+1.png"), unguarded("'tis.png")
        ('=1+1.png', "'tis.png")
    """
    return cell[1:] if _GUARDED.match(cell) else cell
