"""Count the lines of the source, package by package.

Lines of code are those without blank lines, comments and docstrings.
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


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


def main() -> None:
    """Print a row per package, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default="src/fewlabels")
    folder = parser.parse_args().folder
    found: dict[str, Counter[str]] = {}
    for file in folder.rglob("*.py"):
        name = file.relative_to(folder).parts[0]
        found.setdefault(name, Counter()).update(counted(file.read_text("utf-8")))
    rows = sorted(found.items(), key=lambda one: -one[1]["lines"])
    total = sum(found.values(), Counter())
    print(f"{'':18}{'lines':>8}{'code':>8}{'documents':>11}")
    for name, one in (*rows, ("all", total)):
        print(f"{name:18}{one['lines']:8,}{one['code']:8,}{one['documents']:11,}")


if __name__ == "__main__":
    main()
