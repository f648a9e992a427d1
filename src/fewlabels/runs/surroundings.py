"""What a result was made with."""

import platform
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
