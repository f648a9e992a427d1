"""Names that a package imports when they are first used: torch alone takes a second."""

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def imported_when_used(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its names when asked.

    What it has, and from where, is what its file imports below ``if TYPE_CHECKING``:
    type checkers and Python read the same lines.

    Args:
        package: Its full name.

    Returns:
        A function from a name to what it stands for.
    """
    homes = _homes(package)

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home, inner = homes[name]
        if home == package:
            return import_module(f"{package}.{inner}")
        return getattr(import_module(home), inner)

    return found


def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Return module and name there of each name that a package imports for types."""
    source = inspect.getsource(sys.modules[package])
    guarded = (
        line
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
    )
    return {
        one.asname or one.name: (str(line.module), one.name)
        for line in guarded
        for one in line.names
    }
