"""What Ray calls on some machine; quick to import, so that small tasks are cheap."""

import os
from contextlib import suppress
from typing import Any

from fewlabels.naming import imported


def do_run(work: str, place: str, order: dict[str, Any]) -> str | None:
    """Do a run in the working folder of who asked for it; return what went wrong."""
    with suppress(OSError):
        os.chdir(place)
    error: str | None = imported("function that does a run", work)(**order)
    return error
