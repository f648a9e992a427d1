"""MkDocs hook: show the few reStructuredText marks of docstrings as Markdown."""

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|mod|meth|attr):(<code>)~?")
_LITERAL_BLOCK = re.compile(r"<p>::</p>")
_LITERAL_COLONS = re.compile(r"::</p>")


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without role names and double colons."""
    html = _ROLE.sub(r"\1", html)
    html = _LITERAL_BLOCK.sub("", html)
    return _LITERAL_COLONS.sub(":</p>", html)
