"""Count the lines of the source, package by package, and keep code within its budget.

Lines of code are those without blank lines, comments and docstrings. ``--check`` fails
where a package has more of them than the table ``tool.fewlabels.lines`` in
pyproject.toml allows; ``--lower`` lowers the numbers there to those of today.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_ROOM = {"strategies": 80, "training": 70}
"""Lines that stay free for the next strategies and learners."""


def counted(text: str) -> Counter[str]:
    """Return how many lines a file has, and how many of them are code or documents.

    A string that stands alone documents what is above it.
    """
    documents = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return Counter(
        lines=len(text.splitlines()),
        code=len(code - documents),
        documents=len(documents),
    )


def by_package(folder: Path) -> dict[str, Counter[str]]:
    """Return the counts of each package; modules beside packages count as one."""
    counts: dict[str, Counter[str]] = {}
    for file in (*folder.rglob("*.py"), *folder.rglob("*.pyi")):
        name = file.relative_to(folder).parts[0]
        package = "modules" if "." in name else name
        counts.setdefault(package, Counter()).update(counted(file.read_text("utf-8")))
    return counts


def excess(code: Mapping[str, int], limits: Mapping[str, int]) -> Iterable[str]:
    """Yield a sentence for each package over its limit or without one."""
    for package, number in code.items():
        if package not in limits:
            yield f"{package} has no limit. Add it to tool.fewlabels.lines."
        elif number > limits[package]:
            yield (
                f"{package} has {number:,} lines of code, {number - limits[package]:,} "
                "over its limit. Remove some, or raise the limit and say why."
            )


def lowered(text: str, code: Mapping[str, int], limits: Mapping[str, int]) -> str:
    """Return pyproject.toml with limits that fit today's code, and none raised."""
    before, head, rest = text.partition("[tool.fewlabels.lines]\n")
    table, blank, after = rest.partition("\n\n")
    for package, limit in limits.items():
        number = min(limit, code.get(package, 0) + _ROOM.get(package, 0))
        table = re.sub(rf"(?m)^{package} = \d+", f"{package} = {number}", table)
    return before + head + table + blank + after


def main() -> None:
    """Print a row per package with its limit, and the sum."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default="src/fewlabels")
    parser.add_argument("--check", action="store_true", help="fail over a limit")
    parser.add_argument("--lower", action="store_true", help="lower the limits")
    given = parser.parse_args()
    counts = by_package(given.folder)
    code = {package: count["code"] for package, count in counts.items()}
    settings = Path("pyproject.toml")
    text = settings.read_text("utf-8")
    limits = tomllib.loads(text)["tool"]["fewlabels"]["lines"]
    if given.check:
        sys.exit("\n".join(excess(code, limits)) or 0)
    if given.lower:
        settings.write_text(lowered(text, code, limits), "utf-8")
    rows = sorted(counts.items(), key=lambda row: -row[1]["code"])
    total = sum(counts.values(), Counter())
    limits["all"] = sum(limits.values())
    print(f"{'':14}{'lines':>8}{'code':>8}{'limit':>8}{'documents':>11}")
    for name, count in (*rows, ("all", total)):
        print(
            f"{name:14}{count['lines']:8,}{count['code']:8,}"
            f"{limits.get(name, 0):8,}{count['documents']:11,}"
        )


if __name__ == "__main__":
    main()
