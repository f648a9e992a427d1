"""What may be called by name in a job."""

from collections.abc import Callable
from typing import Any, TypeVar

from fewlabels.errors import UsageError
from fewlabels.naming import AllowCode, imported

_Function = TypeVar("_Function", bound=Callable[..., Any])

_KIND = "function to call in a job"
_OURS = "fewlabels."
_MARK = "is_startable"


def startable(function: _Function) -> _Function:
    """Mark a function of this package as one that jobs may call by its name."""
    function.__dict__[_MARK] = True
    return function


def permitted(call: str, allowed: AllowCode) -> Callable[..., Any]:
    """Return the function that a job shall call.

    Args:
        call: ``"module:function"``: one of this package that is marked as
            :func:`startable`, or one that was allowed.
        allowed: Which other import paths may be called: any (True), these, or none.

    Returns:
        The function.

    Raises:
        UsageError: If nobody has allowed it; nothing is imported then.
    """
    is_allowed = allowed is True or call in (allowed or ())
    if is_allowed or call.startswith(_OURS):
        found: Callable[..., Any] = imported(_KIND, call)
        if is_allowed or getattr(found, _MARK, False):
            return found
    raise UsageError(
        f"'{call}' may not be called in a job, since it would run with your "
        "permissions. Functions of fewlabels that are meant for jobs may be called; "
        "the program that starts the job has to allow any other with allow_code."
    )
