"""What decides the outcome of a strategy or a trainer, as plain data.

Two results belong together if what made them was the same: the type, every option with
its resolved value, and the source of code that is not this package's. Its own code is
told by its version, which runs and models write down.
"""

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, ConfigDict

from fewlabels.naming import is_import_path

UNDECIDING = {"decides": False}
"""Marks a field of a dataclass that changes how something is done, not its outcome."""

SILENT = {"silent": True}
"""Marks an option that is told only where it is not the default, since it came later:
what was made without it is still what it was."""

_OWN = __name__.partition(".")[0]
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_UNKNOWN = "unknown"


class Identity(BaseModel):
    """What decides what an object does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str
    """Name of its class."""
    options: dict[str, Any]
    """All of them that decide, by name, as JSON can hold them."""
    source: dict[str, str]
    """A hash of each module outside this package that defines the class, or one that
    it inherits from."""

    def changes(self, now: "Identity") -> list[str]:
        """Say what differs from another identity."""
        found = []
        if self.type != now.type:
            found.append(f"the class was {self.type} and is now {now.type}")
        found += [
            f"the source of '{module}' is not what it was"
            for module in {**self.source, **now.source}
            if self.source.get(module) != now.source.get(module)
        ]
        found += [
            f"{name} was {_told(self.options, name)} and is now "
            f"{_told(now.options, name)}"
            for name in {**self.options, **now.options}
            if _told(self.options, name) != _told(now.options, name)
        ]
        return found


def identity(thing: object) -> Identity:
    """Return what decides what an object does.

    An object may say so itself, by an attribute ``identity``. Else its fields do, but
    for those that are marked as deciding nothing (``metadata=UNDECIDING`` of a
    dataclass's field): where a cache lies changes no result. Those that may be
    somebody's own code (``metadata={"code": True}``) are told with its source.

    Example:
        >>> from fewlabels import strategies
        >>> identity(strategies.resolve("margin")).options
        {'on': 'probabilities'}
    """
    own = getattr(thing, "identity", None)
    if isinstance(own, Identity):
        return own
    return Identity(
        type=type(thing).__qualname__,
        options=_options(thing),
        source=dict(_sources(thing)),
    )


def composed(name: str, options: Mapping[str, Any], parts: Iterable[Any]) -> Identity:
    """Return the identity of something that is made of parts."""
    told = {
        name: dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
        for name, value in options.items()
    }
    source = {module: code for part in parts for module, code in _sources(part)}
    return Identity(type=name, options=_plain(told), source=source)


def _told(options: Mapping[str, Any], name: str) -> str:
    return repr(options[name]) if name in options else "no option"


def untold(thing: Any) -> set[str]:
    """Return the options of a dataclass that came later and are as if they had not."""
    return {
        field.name
        for field in dataclasses.fields(thing)
        if field.metadata.get("silent") and getattr(thing, field.name) == field.default
    }


def _options(thing: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(thing):
        options = {
            field.name: _path(value) if field.metadata.get("code") else value
            for field in dataclasses.fields(thing)
            if field.metadata != UNDECIDING and field.name not in untold(thing)
            for value in [getattr(thing, field.name)]
        }
    else:
        own = getattr(thing, "__dict__", {})
        options = {name: own[name] for name in own if not name.startswith("_")}
    return {str(name): _plain(options[name]) for name in options}


def _path(value: Any) -> Any:
    """Return a function or a class by its import path, and others as they are."""
    is_code = inspect.isfunction(value) or isinstance(value, type)
    return f"{value.__module__}:{value.__qualname__}" if is_code else value


def _imported(thing: Any) -> Iterator[str]:
    """Yield the modules that options of a dataclass name as somebody's own code."""
    for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ():
        if field.metadata.get("code"):
            value = getattr(thing, field.name)
            if not isinstance(value, str):
                is_code = inspect.isfunction(value) or isinstance(value, type)
                yield (value if is_code else type(value)).__module__
            elif is_import_path(value):
                yield value.partition(":")[0]


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it, equal for equal values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return identity(value).model_dump()
    if isinstance(value, Mapping):
        return {str(name): _plain(value[name]) for name in value}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    is_number = isinstance(value, int) or (
        isinstance(value, float) and math.isfinite(value)
    )
    is_plain = value is None or isinstance(value, str) or is_number
    # An object without a repr of its own is named by its place in memory.
    return value if is_plain else _ADDRESS.sub("", repr(value))


def _sources(thing: Any) -> Iterator[tuple[str, str]]:
    """Yield modules from outside that define an object's types or options, hashed."""
    modules = (parent.__module__ for parent in type(thing).__mro__)
    for name in dict.fromkeys((*modules, *_imported(thing))):
        if is_outside(name):
            yield name, hash_of(name)


def is_outside(module: str) -> bool:
    """Return whether a module is neither of this package nor of Python itself."""
    return module.partition(".")[0] not in {_OWN, *sys.stdlib_module_names}


def hash_of(module: str) -> str:
    """Return a hash of the source of a module; "unknown" where there is none."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # typed into a console, or compiled
        return _UNKNOWN
    return sha256(source.encode()).hexdigest()
