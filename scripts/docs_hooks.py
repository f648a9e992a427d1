"""MkDocs hook: tables of strategies and learners, and a page per strategy.

It also shows the few reStructuredText marks of docstrings as Markdown.
"""

import re
import sys
from pathlib import Path
from typing import Any

from fewlabels import strategies, training

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


def learner_table() -> str:
    """Return a table of all learners, from the first sentence of each module."""
    names: dict[type, list[str]] = {}
    for name in training.names():
        learner = type(training.make(name).learner)
        names.setdefault(learner, []).append(f"`{name}`")
    rows = ["| names | what it does |", "|---|---|"]
    for learner, own in names.items():
        text = sys.modules[learner.__module__].__doc__ or ""
        rows.append(f"| {', '.join(own)} | {text.splitlines()[0]} |")
    return "\n".join(rows)


def on_config(config: Any) -> Any:
    """Add the page of each strategy to the navigation."""
    for section in config["nav"]:
        section.get("Strategies", []).extend(
            {name: f"strategies/{name}.md"} for name in strategies.names()
        )
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with the tables in their places."""
    markdown = markdown.replace("<!-- strategies -->", strategy_table())
    return markdown.replace("<!-- learners -->", learner_table())


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without role names and double colons."""
    html = _ROLE.sub(r"\1", html)
    html = _LITERAL_BLOCK.sub("", html)
    return _LITERAL_COLONS.sub(":</p>", html)
