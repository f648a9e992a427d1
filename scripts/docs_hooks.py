"""MkDocs hook: what the pages derive from the code.

One page per strategy in the navigation, the options on each of them, and the tables of
strategies and learners. A strategy without a page in ``docs/strategies`` gets one from
the docstring of its class. The few reStructuredText marks of docstrings are shown as
Markdown.
"""

import ast
import dataclasses
import inspect
import itertools
import re
import sys
import textwrap
import typing
from pathlib import Path
from typing import Any

from fewlabels import strategies, training

_SOURCE = Path(__file__).parents[1] / "src"
_PAGES = Path(__file__).parents[1] / "docs" / "strategies"
_FACTS = re.compile(
    r"^Looks at: (.+?)\.\s+Avoids copies within a set: (.+?)\.\s+"
    r"Needs logits: (.+?)\.$",
    re.M,
)
_ROLE = re.compile(r":(?:class|func|mod|meth|attr):(<code>)~?")
_REFERENCE = re.compile(r":(?:class|func|mod|meth|attr|data):`~?([^`]+)`")
_UNIT = re.compile(r"(?<=\d) (?=%|ms\b|s\b|MB\b|GB\b|±)|(?<=±) (?=\d)")
_RANGE = re.compile(r"(?<=\d) to (?:over )?(?=[+-]?\d)")
_CODE_BLOCK = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
_PACKAGE = re.compile(r"^<!-- package: ([\w.]+) -->$", re.M)
_LITERAL_BLOCK = re.compile(r"<p>::</p>")
_LITERAL_COLONS = re.compile(r"::</p>")


def strategy_table() -> str:
    """Return a table of all strategies, from the line of facts on each page."""
    rows = [
        "| name | looks at | avoids copies within a set | needs logits |",
        "|---|---|---|---|",
    ]
    for name in strategies.names():
        facts = _FACTS.search(strategy_page(name))
        if facts is None:
            msg = f"The page of the strategy {name} has no line 'Looks at: ...'."
            raise ValueError(msg)
        rows.append(f"| [`{name}`]({name}.md) | {' | '.join(facts.groups())} |")
    return "\n".join(rows)


def strategy_page(name: str) -> str:
    """Return the page of a strategy: its file, or else its class's docstring."""
    file = _PAGES / f"{name}.md"
    if file.is_file():
        return file.read_text("utf-8")
    strategy = strategies.resolve(name)
    summary, _, rest = (inspect.getdoc(type(strategy)) or "").partition("\n\n")
    has_options = bool(dataclasses.fields(strategy))  # type: ignore[arg-type]
    options = "<!-- options -->" if has_options else "None."
    text = f"# `{name}`\n\n*{' '.join(summary.split())}*\n\n{rest}"
    return f"{text}\n\n## Options\n\n{options}\n".replace("``", "`")


def learner_table() -> str:
    """Return a table of all learners, from the first sentence of each module."""
    names: dict[type, list[str]] = {}
    for name in training.names():
        names.setdefault(type(training.make(name).learner), []).append(name)
    rows = ["| learner | forms | what it does |", "|---|---|---|"]
    for learner, (base, *forms) in names.items():
        text = sys.modules[learner.__module__].__doc__ or ""
        shown = [f"`{form}`" for form in ("-darp", "-da") if base + form in forms]
        shown += ["`frozen-`"] if f"frozen-{base}" in forms else []
        rows.append(f"| `{base}` | {', '.join(shown)} | {text.splitlines()[0]} |")
    return "\n".join(rows)


def options_table(name: str) -> str:
    """Return a table of a strategy's options, from its fields and their docstrings."""
    strategy = strategies.resolve(name)
    notes = _field_notes(type(strategy))
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in dataclasses.fields(strategy):  # type: ignore[arg-type]
        default = f'"{option.default}"' if isinstance(option.default, str) else None
        if default is None:
            is_number = type(option.default) in {int, float}
            default = f"{option.default:,g}" if is_number else str(option.default)
        note = " ".join([notes.get(option.name, ""), _choices(option.type)]).strip()
        rows.append(f"| `{option.name}` | `{default}` | {note} |")
    return "\n".join(rows)


def _field_notes(kind: type) -> dict[str, str]:
    """Return the docstring of each field of a dataclass and its bases."""
    notes = {}
    for base in reversed(kind.__mro__[:-1]):
        [node] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = typing.cast(ast.ClassDef, node).body
        for field, note in itertools.pairwise(body):
            match field, note:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    plain = _REFERENCE.sub(r"`\1`", " ".join(text.split()))
                    notes[name] = plain.replace("``", "`")
    return notes


def _choices(annotation: Any) -> str:
    """Return the values that a field may have, if they are listed."""
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is typing.Literal:
            values = ", ".join(f'`"{value}"`' for value in typing.get_args(part))
            return f"One of {values}."
    return ""


def public_names(package: str) -> list[str]:
    """Return the names that a package lists in its stub and imports when used."""
    stub = _SOURCE.joinpath(*package.split("."), "__init__.pyi")
    imports = [
        node
        for node in ast.parse(stub.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]
    return [alias.asname or alias.name for node in imports for alias in node.names]


def _package_reference(match: re.Match[str]) -> str:
    members = ", ".join(public_names(match[1]))
    options = f"      members: [{members}]\n      inherited_members: true\n"
    return f"::: {match[1]}\n    options:\n{options}"


def on_config(config: Any) -> Any:
    """Add the page of each strategy to the navigation."""
    pages = [{name: f"strategies/{name}.md"} for name in strategies.names()]
    _strategies_in(config["nav"]).extend(pages)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of strategies that have no file."""
    from mkdocs.structure.files import File

    for name in strategies.names():
        path = f"strategies/{name}.md"
        if files.get_file_from_path(path) is None:
            files.append(File.generated(config, path, content=strategy_page(name)))
    return files


def _strategies_in(nav: list[Any]) -> list[Any]:
    """Return the list of the navigation that holds the pages of strategies."""
    found = [
        inner for entry in nav if isinstance(entry, dict) for inner in entry.items()
    ]
    for name, inner in found:
        if isinstance(inner, list):
            pages = inner if name == "Strategies" else _strategies_in(inner)
            if pages:
                return pages
    return []


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with the derived tables in their places."""
    path = Path(page.file.src_uri)
    if "<!-- options -->" in markdown:
        markdown = markdown.replace("<!-- options -->", options_table(path.stem))
    markdown = _PACKAGE.sub(_package_reference, markdown)
    markdown = markdown.replace("<!-- strategies -->", strategy_table())
    return markdown.replace("<!-- learners -->", learner_table())


def on_page_content(html: str, **_: Any) -> str:
    """Return a page without role names and double colons; numbers keep their units."""
    html = "".join(map(_with_units_kept, _CODE_BLOCK.split(html)))
    html = _ROLE.sub(r"\1", html)
    html = _LITERAL_BLOCK.sub("", html)
    return _LITERAL_COLONS.sub(":</p>", html)


def _with_units_kept(html: str) -> str:
    """Return text in which no line ends between the parts of a number; not of code."""
    if html.startswith("<pre"):
        return html
    html = _UNIT.sub("\N{NO-BREAK SPACE}", html)
    return _RANGE.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), html)
