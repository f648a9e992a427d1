"""Draw which module imports which, as Mermaid, between two markers of a document.

Modules are grouped by the layers of the import-linter contract. An arrow that others
imply is left out (the transitive reduction), so that what remains can be read.

    python scripts/module_picture.py            # draw anew
    python scripts/module_picture.py --check    # fail if the drawing is stale
"""

import argparse
import sys
import tomllib
from pathlib import Path

import grimp

BEGIN = "<!-- module picture: begin (written by scripts/module_picture.py) -->"
END = "<!-- module picture: end -->"

Arrow = tuple[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Draw or check the picture and return the exit code."""
    here = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if stale")
    parser.add_argument("--root", type=Path, default=here, help="the project's folder")
    options = parser.parse_args(arguments)
    document = options.root / "ARCHITECTURE.md"
    old = document.read_text(encoding="utf-8")
    new = with_picture(old, picture(options.root))
    if options.check and new != old:
        print(f"{document.name}: the module picture is stale; run `make picture`.")
        return 1
    if not options.check:
        document.write_text(new, encoding="utf-8")
    return 0


def with_picture(text: str, drawing: str) -> str:
    """Return the document with the drawing between its markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"ARCHITECTURE.md needs the two lines\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n```mermaid\n{drawing}\n```\n{END}{after}"


def picture(root: Path) -> str:
    """Return the Mermaid text for the package that the layers contract names."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    linter = settings["tool"]["importlinter"]
    package = linter["root_package"]
    modules, arrows = imports(package)
    contract = next(c for c in linter["contracts"] if c["type"] == "layers")
    lines = ["graph TD"]
    for number, layer in enumerate(contract["layers"]):
        members = [name.strip(" ()") for name in layer.split("|")]
        present = [name for name in members if name in modules]
        if present:
            lines += [f'    subgraph layer{number}[" "]', "        direction LR"]
            lines += [f"        {name}" for name in present]
            lines.append("    end")
    lines += [f"    {start} --> {end}" for start, end in reduced(arrows)]
    return "\n".join(lines)


def imports(package: str) -> tuple[list[str], list[Arrow]]:
    """Return the direct children of the package, and who imports whom."""
    graph = grimp.build_graph(
        package, exclude_type_checking_imports=True, cache_dir=None
    )
    children = sorted(name.rpartition(".")[2] for name in graph.find_children(package))
    arrows = [
        (importer, imported)
        for importer in children
        for imported in children
        if importer != imported
        and graph.direct_import_exists(
            importer=f"{package}.{importer}",
            imported=f"{package}.{imported}",
            as_packages=True,
        )
    ]
    return children, arrows


def reduced(arrows: list[Arrow]) -> list[Arrow]:
    """Leave out each arrow whose end is reached from its start by a longer way."""
    after: dict[str, set[str]] = {}
    for start, end in arrows:
        after.setdefault(start, set()).add(end)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = after.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    return [
        (start, end)
        for start, end in arrows
        if not any(end in reached(middle) for middle in after[start] - {end})
    ]


if __name__ == "__main__":
    sys.exit(main())
