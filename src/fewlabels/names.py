"""From a name and options to an object, with clear words for a wrong name.

Short names live in one dictionary per kind, next to what they name. A name such as
``package.module:Name`` is an import path, so that somebody's own class needs no fork
and no registration.

Whoever writes a path in a call or a command means it. A path that stands in a file may
be a stranger's, so who reads files asks :func:`check_code` first.
"""

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from fewlabels.errors import (
    FewlabelsError,
    UnknownNameError,
    UsageError,
    check_number,
    whole_number,
)

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
        found = _built(choice, import_object(kind, choice), options)
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
        return construct(maker, options)
    except ValidationError as error:
        raise UsageError(validation_message(name, error)) from error
    except FewlabelsError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"'{name}' could not be made with the options {sorted(options)}: "
            f"{_told(error)}. Correct the options, or what makes it."
        ) from error


def construct(maker: Callable[..., Any], options: Mapping[str, Any]) -> Any:
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


NOT_IN_IDENTITY = {"decides": False}
"""Marks a field of a dataclass that changes how something is done, not its outcome."""

OMIT_DEFAULT = {"silent": True}
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
            f"{name} was {_described(self.options, name)} and is now "
            f"{_described(now.options, name)}"
            for name in {**self.options, **now.options}
            if _described(self.options, name) != _described(now.options, name)
        ]
        return found


def identity(thing: object) -> Identity:
    """Return what decides what an object does.

    An object may say so itself, by an attribute ``identity``. Else its fields do, but
    for those that are marked as deciding nothing (``metadata=NOT_IN_IDENTITY`` of a
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


def composite_identity(
    name: str, options: Mapping[str, Any], parts: Iterable[Any]
) -> Identity:
    """Return the identity of something that is made of parts."""
    told = {
        name: dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
        for name, value in options.items()
    }
    source = {module: code for part in parts for module, code in _sources(part)}
    return Identity(type=name, options=_plain(told), source=source)


def _described(options: Mapping[str, Any], name: str) -> str:
    return repr(options[name]) if name in options else "no option"


def omitted_defaults(thing: Any) -> set[str]:
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
            if field.metadata != NOT_IN_IDENTITY
            and field.name not in omitted_defaults(thing)
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
        if is_external(name):
            yield name, source_hash(name)


def is_external(module: str) -> bool:
    """Return whether a module is neither of this package nor of Python itself."""
    return module.partition(".")[0] not in {_OWN, *sys.stdlib_module_names}


def source_hash(module: str) -> str:
    """Return a hash of the source of a module; "unknown" where there is none."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # typed into a console, or compiled
        return _UNKNOWN
    return sha256(source.encode()).hexdigest()
