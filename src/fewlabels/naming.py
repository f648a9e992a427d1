"""From a name and options to an object, with clear words for a wrong name.

Short names live in one dictionary per kind, next to what they name. A name with a colon
is an import path, so that somebody's own class needs no fork and no registration.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from fewlabels.errors import UnknownNameError, UsageError


def resolve(
    kind: str,
    choice: str | object,
    options: Mapping[str, Any],
    known: Mapping[str, Callable[..., Any]],
) -> Any:
    """Return the object that ``choice`` stands for.

    An option of a wrong type, and options for what is an object already, raise
    :class:`fewlabels.errors.UsageError`.

    Args:
        kind: What is chosen, for messages, such as ``"strategy"``.
        choice: A short name, an import path (``"package.module:Name"``) or an object,
            which comes back as it is.
        options: Arguments for what the name stands for.
        known: Short names and what they stand for.

    Returns:
        The object.

    Raises:
        UnknownNameError: If there is no such name, or no such option.
    """
    if not isinstance(choice, str):
        return _as_it_is(kind, choice, options)
    if ":" in choice:
        return _built(choice, imported(kind, choice), options)
    if choice not in known:
        raise UnknownNameError(kind, choice, known)
    return _built(choice, known[choice], options)


def imported(kind: str, path: str) -> Any:
    """Return what an import path such as ``"package.module:Name"`` names.

    Args:
        kind: What is imported, for messages.
        path: Module and name, with a colon between.

    Returns:
        The class, function or object.

    Raises:
        UsageError: If there is no such module or no such name in it.
    """
    module_name, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, ValueError) as error:
        msg = (
            f"The {kind} '{path}' could not be imported: {error}. Give it as "
            "package.module:Name, and make sure that Python finds the package."
        )
        raise UsageError(msg) from error
    except AttributeError as error:
        msg = (
            f"The module '{module_name}' has no '{attribute}' to use as a {kind}. Give "
            "the name of a class or an object that it defines."
        )
        raise UsageError(msg) from error


def _built(name: str, maker: Any, options: Mapping[str, Any]) -> Any:
    """Call ``maker`` with options that are checked against its fields."""
    if not callable(maker):
        return _as_it_is(name, maker, options)
    signature = inspect.signature(maker)
    for option in options:
        if option not in signature.parameters:
            raise UnknownNameError(f"option of '{name}'", option, signature.parameters)
    if not dataclasses.is_dataclass(maker):
        _check_call(name, signature, options)
        return maker(**options)
    try:
        return TypeAdapter(maker).validate_python(dict(options))
    except ValidationError as error:
        raise UsageError(validation_message(name, error)) from error


def _as_it_is(kind: str, thing: object, options: Mapping[str, Any]) -> Any:
    if options:
        msg = (
            f"The {kind} is an object already, so its options {sorted(options)} "
            "have nowhere to go; set them when you make the object."
        )
        raise UsageError(msg)
    return thing


def _check_call(
    name: str, signature: inspect.Signature, options: Mapping[str, Any]
) -> None:
    try:
        signature.bind(**options)
    except TypeError as error:
        msg = (
            f"'{name}' cannot be made with the options {sorted(options)}: {error}. "
            "Give all options that it needs."
        )
        raise UsageError(msg) from error


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
    """Raise unless ``name`` is one of the words of a ``Literal``.

    Args:
        kind: What is chosen, for the message.
        name: The word as given.
        choices: The ``Literal`` type.

    Raises:
        UnknownNameError: If it is another word.
    """
    if name not in get_args(choices):
        raise UnknownNameError(kind, name, get_args(choices))
