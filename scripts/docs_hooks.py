"""MkDocs hook: one page per strategy in the navigation and the table of strategies.

It also shows the few reStructuredText marks of docstrings as Markdown.
"""

import re
from pathlib import Path
from typing import Any

from fewlabels import strategies

_PAGES = Path(__file__).parents[1] / "docs" / "strategies"
_FACTS = re.compile(
    r"^Looks at: (.+)\. Avoids copies within a set: (.+)\. Needs logits: (.+)\.$", re.M
)
_ROLE = re.compile(r":(?:class|func|mod|meth|attr):(<code>)~?")
_LITERAL_BLOCK = re.compile(r"<p>::</p>")
_LITERAL_COLONS = re.compile(r"::</p>")


def strategy_table() -> str:
    """Return a table of all strategies, from the line of facts on each page."""
    rows = [
        "| name | looks at | avoids copies within a set | needs logits |",
        "|---|---|---|---|",
    ]
    for name in strategies.names():
        facts = _FACTS.search((_PAGES / f"{name}.md").read_text("utf-8"))
        if facts is None:
            msg = f"docs/strategies/{name}.md has no line 'Looks at: ...'."
            raise ValueError(msg)
        rows.append(f"| [`{name}`]({name}.md) | {' | '.join(facts.groups())} |")
    return "\n".join(rows)


def on_config(config: Any) -> Any:
    """Add the page of each strategy to the navigation."""
    for section in config["nav"]:
        section.get("Strategies", []).extend(
            {name: f"strategies/{name}.md"} for name in strategies.names()
        )
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with the table of strategies in its place."""
    return markdown.replace("<!-- strategies -->", strategy_table())


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without role names and double colons."""
    html = _ROLE.sub(r"\1", html)
    html = _LITERAL_BLOCK.sub("", html)
    return _LITERAL_COLONS.sub(":</p>", html)
