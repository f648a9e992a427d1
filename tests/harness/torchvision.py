"""Something empty in the place of torchvision, which timm imports for training."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NAME = "torchvision"


@contextmanager
def emptied() -> Iterator[None]:
    """Let something empty take the place of a torchvision that cannot be imported."""
    if _works():
        yield
        return
    finder = _Empty()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget()


@cache
def _works() -> bool:
    """Return whether torchvision is there and fits torch."""
    try:
        import_module(_NAME)
    except (ImportError, RuntimeError, OSError):
        _forget()
        return False
    return True


def _forget() -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == _NAME]:
        del sys.modules[name]


class _Anything(type):
    """A class that has every attribute: another such class."""

    def __getattr__(cls, name: str) -> Any:
        """Return a class of that name."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _EmptyModule(ModuleType):
    """A module that has every name, each a class that nothing is an instance of."""

    def __getattr__(self, name: str) -> Any:
        """Return a class of that name."""
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _Empty(MetaPathFinder, Loader):
    """Finds torchvision, and all modules in it, empty."""

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return a module for every name below torchvision."""
        del path, target
        is_meant = name.partition(".")[0] == _NAME
        return ModuleSpec(name, self, is_package=True) if is_meant else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module."""
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""
