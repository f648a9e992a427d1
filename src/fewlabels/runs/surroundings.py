"""What a result was made with, and variables of the environment."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any


def environment() -> dict[str, Any]:
    """Return versions and platform of this process, as JSON can hold them."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("fewlabels", "torch", "numpy")},
        },
        "platform": platform.platform(),
    }


@contextmanager
def restored(name: str) -> Iterator[None]:
    """Give a variable of the environment back the value that it has now."""
    before = os.environ.get(name)
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before
