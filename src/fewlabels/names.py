"""Names of strategies, trainers and encoders, and what decides what they do.

:func:`resolve` turns a name and options into an object. Short names live in one
dictionary per kind, next to what they name. A name such as ``package.module:Name`` is
an import path, so that somebody's own class needs no fork and no registration. A path
in a call or a command is meant by its author. A path in a file may be untrusted, so
readers of files call :func:`check_code` first.

:func:`identity` is the way back: class, options and source of an object, by which a
resumed run notices that it would do something else.
"""

import ast
import dataclasses
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import pydantic

from fewlabels.errors import FewlabelsError, UnknownNameError, UsageError

DEFAULT_STRATEGY = "variance-reduction"
"""Name of the strategy wherever none is given."""

AllowCode = bool | Collection[str]
"""Which import paths a file may name: any (True), these, or none (False)."""

OMIT_DEFAULT = {"omit_default": True}
"""Metadata of an option that was added later: its default is not part of an identity,
so that objects keep the identity that they had before."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PACKAGE = __name__.partition(".")[0]
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def resolve(
    kind: str,
    choice: str | object,
    options: Mapping[str, Any],
    known: Mapping[str, Callable[..., Any]],
    *,
    method: str | None,
) -> Any:
    """Return the object that ``choice`` stands for.

    Args:
        kind: What is chosen, for messages, such as ``"strategy"``.
        choice: A short name, an import path (``"package.module:Name"``) or an object,
            which is returned as it is.
        options: Arguments for what the name stands for.
        known: Short names and what they stand for.
        method: A method that the object must have, such as ``"select(pool, size)"``;
            None: the caller checks the object.

    Returns:
        The object.

    Raises:
        UnknownNameError: If there is no such name, or no such option.
        UsageError: If the path or an option is wrong, or the object lacks the method.
    """
    given: object = options  # of callers without a type checker
    if not isinstance(given, Mapping) or not all(isinstance(o, str) for o in given):
        raise UsageError(f"The options of the {kind} are {given!r}; give a dictionary.")
    result: Any = choice
    if isinstance(choice, str):
        if choice not in known and ":" not in choice:
            raise UnknownNameError(kind, choice, known)
        result = known[choice] if choice in known else import_object(kind, choice)
    attribute = (method or "").partition("(")[0]
    lacking = UsageError(f"{choice!r} is not a {kind}: it has no method {method}.")
    if isinstance(choice, str) and callable(result):
        try:
            result = _build(choice, result, options)
        except UsageError as error:
            if isinstance(result, type) and method and not hasattr(result, attribute):
                raise lacking from error
            raise
    elif options and not (method and isinstance(result, type)):
        raise UsageError(
            f"The {kind} is an object already; it takes no options {sorted(options)}."
        )
    if method is None:
        return result
    if isinstance(result, type):
        raise UsageError(f"{choice!r} is a class; give {result.__name__}(...) instead.")
    if not callable(getattr(result, attribute, None)):
        raise lacking
    return result


def check_known(kind: str, name: str, choices: Any) -> None:
    """Raise unless ``name`` is one of the words of a ``Literal``."""
    if name not in get_args(choices):
        raise UnknownNameError(kind, name, get_args(choices))


def check_installed(what: str, *packages: str, install: str) -> None:
    """Raise unless packages are installed; none is imported.

    Args:
        what: What needs them.
        packages: Their names for import.
        install: What to give to pip, such as ``fewlabels[page]``.

    Raises:
        UsageError: If one is missing.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{what} needs {' and '.join(missing)}, not installed here. Run: pip "
            f"install '{install}'"
        )


def is_import_path(text: str) -> bool:
    """Return whether a text names code; nothing else is ever imported.

    Example:
        >>> is_import_path("my.module:Name"), is_import_path("onnx:model.onnx")
        (True, False)
    """
    module, colon, name = text.partition(":")
    words = (*module.split("."), name)
    return bool(colon) and all(word.isidentifier() for word in words)


def is_code_path(source: object) -> bool:
    """Return whether data are named by an import path, and no file is called so."""
    return (
        isinstance(source, str) and is_import_path(source) and not Path(source).exists()
    )


def import_paths(chosen: Any) -> Iterator[str]:
    """Yield every text that is an import path, at any depth.

    Example:
        >>> list(import_paths({"name": "albl", "options": {"arms": ["npc", "my:Own"]}}))
        ['my:Own']

    Yields:
        An import path.
    """
    if isinstance(chosen, str) and is_import_path(chosen):
        yield chosen
    elif isinstance(chosen, Collection) and not isinstance(chosen, str):
        for inner in chosen.values() if isinstance(chosen, Mapping) else chosen:
            yield from import_paths(inner)


def check_code(file: str | PathLike[str], chosen: Any, allowed: AllowCode) -> None:
    """Raise if a file names code to import that nobody has allowed.

    Args:
        file: Where the names were read.
        chosen: Names and options of strategies, trainers and encoders in it, as plain
            values.
        allowed: Which import paths are allowed.

    Raises:
        UsageError: If it names other import paths.
    """
    if allowed is True:
        return
    known = allowed or ()
    names = [f"'{path}'" for path in import_paths(chosen) if path not in known]
    if names:
        raise UsageError(
            f"'{file}' names code to import: {', '.join(names)}. That code would run "
            "with your permissions. If you know it and trust it, allow it with "
            "--allow-code, or with allow_code=True in Python."
        )


def import_object(kind: str, path: str) -> Any:
    """Return what an import path such as ``"package.module:Name"`` names.

    Modules are also looked for in the current folder, after all other places.

    Args:
        kind: What is imported, for messages.
        path: Module and name, with a colon between.

    Returns:
        The class, function or object.

    Raises:
        UsageError: If there is no such module, if it fails while it is imported, or if
            it has no such name.
    """
    if not is_import_path(path):
        raise UsageError(f"The {kind} '{path}' is not of the form package.module:Name.")
    name, _, attribute = path.partition(":")
    if name == "__main__":
        fix = f"write it into a file my_module.py and give 'my_module:{attribute}'"
        raise UsageError(f"Other processes cannot import the {kind} '{path}'; {fix}.")
    is_added = "" not in sys.path
    if is_added:
        sys.path.append("")
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"The {kind} '{path}' could not be imported: {_described(error)}. Correct "
            "the name or the module, install it, or run this in the folder it is in."
        ) from error
    finally:
        if is_added and "" in sys.path:
            sys.path.remove("")
    if not hasattr(module, attribute):
        raise UsageError(f"The module '{name}' has no '{attribute}'; correct the name.")
    return getattr(module, attribute)


def _described(error: BaseException) -> str:
    """Return an error's type and text on one line."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, ModuleNotFoundError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _build(name: str, maker: Any, options: Mapping[str, Any]) -> Any:
    """Call ``maker`` with options that are checked against its signature and fields."""
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError):  # some classes of C have none
        signature = None
    if signature is not None:
        for option in options:
            if option not in signature.parameters:
                kind = f"option of '{name}'"
                raise UnknownNameError(kind, option, signature.parameters)
        try:
            signature.bind(**options)
        except TypeError as error:
            raise UsageError(f"'{name}' cannot be made: {error}.") from error
    try:
        return construct(maker, options)
    except pydantic.ValidationError as error:
        sentences = []
        for fault in error.errors():
            own = fault.get("ctx", {}).get("error")
            option = ".".join(map(str, fault["loc"]))
            seen = f"Option '{option}' of '{name}' is {fault['input']!r}"
            is_own = isinstance(own, UsageError)
            sentences.append(str(own) if is_own else f"{seen}: {fault['msg']}.")
        raise UsageError(" ".join(sentences)) from error
    except FewlabelsError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"'{name}' could not be made with the options {sorted(options)}: "
            f"{_described(error)}."
        ) from error


def construct(maker: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Call ``maker``; the types of a dataclass's fields are checked where possible."""
    if not (isinstance(maker, type) and dataclasses.is_dataclass(maker)):
        return maker(**options)
    try:
        adapter = _adapter(maker)
    except (pydantic.PydanticUserError, pydantic.PydanticUndefinedAnnotation):
        return maker(**options)
    try:
        plain = json.dumps(options)
    except (TypeError, ValueError):
        return adapter.validate_python(dict(options))
    return adapter.validate_json(plain, strict=True)  # no text becomes a number


@cache
def _adapter(kind: type) -> pydantic.TypeAdapter[Any]:
    """Return the validator of a dataclass, which is slow to build."""
    return pydantic.TypeAdapter[Any](kind)


class Identity(pydantic.BaseModel):
    """Class, options and source of an object: what decides what it does."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    type: str
    """Name of its class."""
    options: dict[str, Any]
    """Options by name, as JSON can hold them."""
    source: dict[str, str]
    """A hash of each module outside this package that defines the class or one of its
    bases: of the class and what it uses there, without comments and docstrings."""

    def changes(self, now: "Identity") -> list[str]:
        """Return a sentence for each difference from another identity."""
        changes = []
        if self.type != now.type:
            changes.append(f"the class was {self.type} and is now {now.type}")
        for module in {**self.source, **now.source}:
            if self.source.get(module) != now.source.get(module):
                changes.append(f"the source of '{module}' is not what it was")
        for name in {**self.options, **now.options}:
            before, after = (
                repr(options[name]) if name in options else "no option"
                for options in (self.options, now.options)
            )
            if before != after:
                changes.append(f"{name} was {before} and is now {after}")
        return changes


def identity(thing: object) -> Identity:
    """Return what decides what an object does.

    An object may have an attribute ``identity``; otherwise its fields are taken. Fields
    that may hold somebody's own code (``metadata={"code": True}``) add its source.

    Example:
        >>> from fewlabels import strategies
        >>> identity(strategies.resolve("margin")).options
        {'on': 'probabilities'}
    """
    own = getattr(thing, "identity", None)
    if isinstance(own, Identity):
        return own
    if dataclasses.is_dataclass(thing):
        options = {}
        for field in dataclasses.fields(thing):
            value = getattr(thing, field.name)
            if field.metadata.get("omit_default") and value == field.default:
                continue
            if field.metadata.get("code") and _is_code(value):
                value = f"{value.__module__}:{value.__qualname__}"
            options[field.name] = value
    else:
        fields = getattr(thing, "__dict__", {})
        options = {name: fields[name] for name in fields if not name.startswith("_")}
    return Identity(
        type=type(thing).__qualname__,
        options=_plain(options),
        source=dict(_sources(thing)),
    )


def composite_identity(
    name: str, options: Mapping[str, Any], parts: Iterable[Any]
) -> Identity:
    """Return the identity of something that is made of parts."""
    values = {
        name: dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
        for name, value in options.items()
    }
    source = {module: code for part in parts for module, code in _sources(part)}
    return Identity(type=name, options=_plain(values), source=source)


def _is_code(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, type)


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it, equal for equal values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return identity(value).model_dump()
    if isinstance(value, Mapping):
        return {str(name): _plain(value[name]) for name in value}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    is_finite = isinstance(value, float) and math.isfinite(value)
    if value is None or is_finite or isinstance(value, str | int):
        return value
    # An object without a repr of its own is named by its place in memory.
    return _ADDRESS.sub("", repr(value))


def _sources(thing: Any) -> Iterator[tuple[str, str]]:
    """Yield external modules that define an object's types or options, and hashes."""
    used: list[Any] = [*type(thing).__mro__]
    for field in dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ():
        if field.metadata.get("code"):
            own = getattr(thing, field.name)
            used.append(own if isinstance(own, str) or _is_code(own) else type(own))
    modules = dict[str, set[str]]()
    for own in used:
        path = own if isinstance(own, str) else f"{own.__module__}:{own.__qualname__}"
        module, colon, name = path.partition(":")
        if colon:
            modules.setdefault(module, set()).add(name.partition(".")[0])
    for module, names in modules.items():
        if is_external(module):
            yield module, source_hash(module, names)


def is_external(module: str) -> bool:
    """Return whether a module is neither of this package nor of Python itself."""
    return module.partition(".")[0] not in {_PACKAGE, *sys.stdlib_module_names}


def source_hash(module: str, names: Collection[str] = ()) -> str:
    """Return a hash of the source of a module; "unknown" where there is none.

    Args:
        module: Name of the module.
        names: What is used of it. Then statements count that define these or what they
            use in turn; comments, docstrings and layout do not. Empty: the whole text.

    Returns:
        The hash.
    """
    try:
        source = inspect.getsource(sys.modules[module])
        body = ast.parse(source).body if names else []
    except (KeyError, OSError, TypeError, SyntaxError):  # of a console, or compiled
        return "unknown"
    used, known, kept = {"*", *names}, set[str](), list[ast.stmt]()
    while used != known:
        known, kept = used, [part for part in body if _changed_by(part) & used]
        nodes = [node for part in kept for node in ast.walk(part)]
        used = used | {node.id for node in nodes if isinstance(node, ast.Name)}
        for node in nodes:
            if isinstance(node, _DEFINITIONS) and ast.get_docstring(node):
                node.body = node.body[1:]
    is_clear = bool(names) and set[str]().union(*map(_changed_by, kept)) >= {*names}
    text = "".join(map(ast.dump, kept)) if is_clear else source
    return sha256(text.encode()).hexdigest()


def _changed_by(part: ast.stmt) -> set[str]:
    """Return the names of a module that a statement defines or changes."""
    if isinstance(part, ast.If) and "__main__" in ast.dump(part.test):
        return set()  # which is no part of the module
    changed = set[str]()
    for node in [part] if isinstance(part, _DEFINITIONS) else ast.walk(part):
        if isinstance(node, (*_DEFINITIONS, ast.alias)):
            changed.add((getattr(node, "asname", "") or node.name).partition(".")[0])
        elif isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) or (
            isinstance(part, ast.Expr) and isinstance(node, ast.Attribute)
        ):  # such as WEIGHTS.update(...)
            changed |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return changed
