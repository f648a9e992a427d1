"""Names in the source are plain words: no identifier uses a word of the list below."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import fewlabels

_SOURCE = Path(fewlabels.__file__).parent
_REFUSED = frozenset(
    [
        "told",
        "stir",
        "heed",
        "heeding",
        "strangers",
        "outgrown",
        "patience",
        "patient",
        "happening",
        "desk",
        "board",
        "race",
        "considered",
        "spoil",
    ]
)
_PUBLIC = frozenset({"Told"})
"""Names that users import; they stay."""


def test_identifiers_are_plain_words() -> None:
    faults = [
        f"{path.relative_to(_SOURCE.parent)}:{line} {name}"
        for path in sorted(_SOURCE.rglob("*.py*"))
        if path.suffix in {".py", ".pyi"}
        for line, name in _refused(path)
    ]
    assert not faults, "choose a plainer name:\n" + "\n".join(faults)


def test_names_are_split_into_words() -> None:
    tree = ast.parse(
        "from x import y as desk_size\n"
        "class LabelDesk:\n    stir = 1\n"
        "def f(told, *, braces):\n    self.is_patient = TensorBoard()\n"
        "for one, item in rows: pass\n"
        "[1 for one in rows]\n"
        "try: pass\nexcept E as race: pass\n"
    )
    assert sorted(_refused_names(tree)) == [
        (1, "desk_size"),
        (2, "LabelDesk"),
        (3, "stir"),
        (4, "told"),
        (5, "is_patient"),
        (6, "one"),
        (7, "one"),
        (9, "race"),
    ]


def _refused(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of the identifiers in a file that use a refused word."""
    if _is_refused(path.stem):
        yield 1, path.stem
    yield from _refused_names(ast.parse(path.read_text(encoding="utf-8")))


def _refused_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        yield from ((line, name) for name in _defined(node) if _is_refused(name))
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            for part in ast.walk(node.target):
                if isinstance(part, ast.Name) and part.id == "one":
                    yield part.lineno, part.id


def _defined(node: ast.AST) -> list[str]:
    """Return the names that a node defines."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return [name]
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
    return []


def _is_refused(name: str) -> bool:
    """Return whether one of the words in snake or camel case is refused."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name.replace("TensorBoard", ""))
    return name not in _PUBLIC and not _REFUSED.isdisjoint(map(str.lower, words))
