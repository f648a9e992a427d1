"""From a name and options to an object, with clear words for a wrong name.

Short names live in one dictionary per kind, next to what they name. A name such as
``package.module:Name`` is an import path, so that somebody's own class needs no fork
and no registration.

Whoever writes a path in a call or a command means it. A path that stands in a file may
be a stranger's, so who reads files asks :func:`check_code` first.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import (
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from fewlabels.checks import check_number, whole_number
from fewlabels.errors import FewlabelsError, UnknownNameError, UsageError

DEFAULT_STRATEGY = "variance-reduction"
"""Name of the strategy wherever none is given."""

AllowCode = bool | Collection[str]
"""Which import paths a file may name: any (True), these, or none (False)."""


def resolve(
    kind: str,
    choice: str | object,
    options: Mapping[str, Any],
    known: Mapping[str, Callable[..., Any]],
    *,
    method: str | None,
) -> Any:
    """Return the object that ``choice`` stands for.

    A wrong path or option, and an object without the method, raise
    :class:`fewlabels.errors.UsageError`.

    Args:
        kind: What is chosen, for messages, such as ``"strategy"``.
        choice: A short name, an import path (``"package.module:Name"``) or an object,
            which comes back as it is.
        options: Arguments for what the name stands for.
        known: Short names and what they stand for.
        method: What the object has to offer, such as ``"select(pool, size)"``; None:
            the caller looks at the object itself.

    Returns:
        The object.

    Raises:
        UnknownNameError: If there is no such name, or no such option.
    """
    _check_options(kind, options)
    if not isinstance(choice, str):
        found = _as_it_is(kind, choice, options)
    elif choice in known:
        found = _built(choice, known[choice], options)
    elif ":" in choice:
        found = _built(choice, imported(kind, choice), options)
    else:
        raise UnknownNameError(kind, choice, known)
    if method is not None:
        _check_method(kind, choice, found, method)
    return found


def check_installed(what: str, *packages: str, extra: str) -> None:
    """Raise unless the packages that something needs are here; none is imported."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise UsageError(
            f"{what} needs {' and '.join(missing)}, which {verb} not installed. Run: "
            f"pip install 'fewlabels[{extra}]'"
        )


def imported(kind: str, path: str) -> Any:
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
        raise _not_imported(kind, path, "that names no module and no object in it")
    module_name, _, attribute = path.partition(":")
    module = _module(kind, path, module_name)
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise UsageError(
            f"The module '{module_name}' has no '{attribute}' to use as a {kind}. Give "
            "the name of a class or an object that it defines."
        ) from error


def check_code(file: str | PathLike[str], chosen: Any, allowed: AllowCode) -> None:
    """Raise if a file names code to import that nobody has allowed.

    Args:
        file: Where the names were read.
        chosen: What stands there of strategies, trainers and encoders: names and
            options, as plain values.
        allowed: What was allowed.

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


def import_paths(chosen: Any) -> Iterator[str]:
    """Yield every text that is an import path, at any depth.

    Example:
        >>> list(import_paths({"name": "albl", "options": {"arms": ["npc", "my:Own"]}}))
        ['my:Own']

    Yields:
        A text.
    """
    if isinstance(chosen, str):
        if is_import_path(chosen):
            yield chosen
    elif isinstance(chosen, Mapping):
        yield from import_paths(list(chosen.values()))
    elif isinstance(chosen, Collection):
        for inner in chosen:
            yield from import_paths(inner)


def is_import_path(text: str) -> bool:
    """Return whether a text names code; nothing else is ever imported.

    Example:
        >>> is_import_path("my.module:Name"), is_import_path("onnx:model.onnx")
        (True, False)
    """
    module, colon, name = text.partition(":")
    words = (*module.split("."), name)
    return bool(colon) and all(word.isidentifier() for word in words)


def _module(kind: str, path: str, name: str) -> ModuleType:
    try:
        with _current_folder_importable():
            return import_module(name)
    except (Exception, SystemExit) as error:
        raise _not_imported(kind, path, _told(error)) from error


def _not_imported(kind: str, path: str, reason: str) -> UsageError:
    return UsageError(
        f"The {kind} '{path}' could not be imported: {reason}. Give it as "
        "package.module:Name, and make sure that Python finds the module and can "
        "run it."
    )


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """Let Python look for modules in the current folder, after all other places."""
    here = ""
    if here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(here)


def _told(error: BaseException) -> str:
    """Return an error's type and text on one line; only the text of a plain one."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, ModuleNotFoundError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _built(name: str, maker: Any, options: Mapping[str, Any]) -> Any:
    """Call ``maker`` with options that are checked against its fields."""
    if not callable(maker):
        return _as_it_is(name, maker, options)
    _check_call(name, maker, options)
    try:
        return made(maker, options)
    except ValidationError as error:
        raise UsageError(validation_message(name, error)) from error
    except FewlabelsError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"'{name}' could not be made with the options {sorted(options)}: "
            f"{_told(error)}. Correct the options, or what makes it."
        ) from error


def made(maker: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Call ``maker``; the types of a dataclass's fields are checked, where they can."""
    if not (isinstance(maker, type) and dataclasses.is_dataclass(maker)):
        return maker(**options)
    try:
        adapter = _adapter(maker)
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return maker(**options)
    for name, hint in get_type_hints(maker).items():
        if name in options:
            _check_numbers(name, hint, options[name])
    return adapter.validate_python(dict(options))


def _check_numbers(name: str, hint: Any, value: object) -> None:
    """Raise where something else stands for a number, which pydantic would convert.

    Args:
        name: What to call it in the message.
        hint: The type of a field; of types with parts, all parts are checked.
        value: What was given for it.
    """
    hints = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    words = [kind for kind in hints if get_origin(kind) is Literal]
    kinds = {*hints, *(type(word) for kind in words for word in get_args(kind))}
    if isinstance(value, Mapping):
        for kind in filter(dataclasses.is_dataclass, hints):
            for key, inner in get_type_hints(kind).items():
                if key in value:
                    _check_numbers(f"{name}.{key}", inner, value[key])
    elif isinstance(value, list | tuple):
        for kind in hints:
            inner, *others = get_args(kind) or (Any,)
            if all(other in (inner, Ellipsis) for other in others):
                for item in value:
                    _check_numbers(name, inner, item)
    elif isinstance(value, bool | str | float) and type(value) not in kinds:
        if float in kinds:
            check_number(name, value)
        elif int in kinds:
            whole_number(name, value)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    """Return what checks the fields of a dataclass; made once, since it takes long."""
    return TypeAdapter[Any](kind)


def _as_it_is(kind: str, thing: object, options: Mapping[str, Any]) -> Any:
    if options:
        raise UsageError(
            f"The {kind} is an object already, so its options {sorted(options)} "
            "have nowhere to go; set them when you make the object."
        )
    return thing


def _check_options(kind: str, options: object) -> None:
    if not isinstance(options, Mapping) or not all(isinstance(o, str) for o in options):
        raise UsageError(
            f"The options of the {kind} are {options!r}; give a dictionary of names "
            "and values."
        )


def _check_call(name: str, maker: Any, options: Mapping[str, Any]) -> None:
    """Raise unless ``maker`` takes these options and needs no others."""
    try:
        signature = inspect.signature(maker)
    except (TypeError, ValueError):  # some classes of C have none
        return
    for option in options:
        if option not in signature.parameters:
            raise UnknownNameError(f"option of '{name}'", option, signature.parameters)
    try:
        signature.bind(**options)
    except TypeError as error:
        raise UsageError(
            f"'{name}' cannot be made with the options {sorted(options)}: {error}. "
            "Give all options that it needs."
        ) from error


def _check_method(kind: str, choice: object, found: object, method: str) -> None:
    """Raise unless ``found`` is an object with this method."""
    if isinstance(found, type):
        raise UsageError(
            f"{choice!r} is a class where a {kind} is needed; make an object of it: "
            f"{found.__name__}(...)."
        )
    if not callable(getattr(found, method.partition("(")[0], None)):
        kind_named = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
        raise UsageError(
            f"{choice!r} is not {kind_named}: it has no method {method}. See "
            f"protocols.{kind.capitalize()}."
        )


def validation_message(name: str, error: ValidationError) -> str:
    """Say in a sentence each what Pydantic found wrong with options of ``name``."""
    return " ".join(_sentence(name, fault) for fault in error.errors())


def _sentence(name: str, fault: ErrorDetails) -> str:
    own = fault.get("ctx", {}).get("error")
    if isinstance(own, UsageError):
        return str(own)
    reason = fault["msg"][:1].lower() + fault["msg"][1:]
    option = ".".join(map(str, fault["loc"]))
    return f"Option '{option}' of '{name}' is {fault['input']!r}: {reason}."


def check_known(kind: str, name: str, choices: Any) -> None:
    """Raise unless ``name`` is one of the words of a ``Literal``."""
    if name not in get_args(choices):
        raise UnknownNameError(kind, name, get_args(choices))
