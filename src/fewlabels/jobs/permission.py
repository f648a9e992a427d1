"""What may be called by name in a job."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fewlabels.errors import UsageError
from fewlabels.names import AllowCode, import_object

_Function = TypeVar("_Function", bound=Callable[..., Any])

_KIND = "function to call in a job"
_OURS = "fewlabels."
_MARK = "is_startable"


def startable(function: _Function) -> _Function:
    """Mark a function of this package as one that jobs may call by its name.

    The job hands it ``allow_code``, which nobody can give as an argument: the function
    imports nothing that its other arguments name unless that allows it.

    Returns:
        The function.
    """
    function.__dict__[_MARK] = True
    return function


def call_permitted(
    call: str, arguments: Mapping[str, Any], *, allowed: AllowCode
) -> Any:
    """Call a function by its name, if that is permitted, and return its result.

    Args:
        call: ``"module:function"``: one of this package that is marked as
            :func:`startable`, or one that was allowed.
        arguments: Its arguments.
        allowed: Which other import paths may be called, or named by the arguments of
            one that is marked: any (True), these, or none.

    Returns:
        The result of the call.

    Raises:
        UsageError: If nobody has allowed it; then at most a module of this package was
            imported, to see whether its function is marked.
    """
    is_allowed = allowed is True or call in (allowed or ())
    if is_allowed or call.startswith(_OURS):
        function: Callable[..., Any] = import_object(_KIND, call)
        if getattr(function, _MARK, False) is True:
            if "allow_code" in arguments:
                raise UsageError(f"Leave allow_code out of the arguments of '{call}'.")
            return function(**arguments, allow_code=allowed)
        if is_allowed:
            return function(**arguments)
    raise UsageError(f"'{call}' may not be called in a job without allow_code.")
