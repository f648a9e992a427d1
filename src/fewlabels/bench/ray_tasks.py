"""What Ray calls on some machine; quick to import, so that small tasks are cheap."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from fewlabels.naming import imported


def do_run(work: str, place: str, order: dict[str, Any]) -> str | None:
    """Do a run in the working folder of the one who asked for it, if it is here too.

    Args:
        work: Import path of what does a run.
        place: The working folder.
        order: The arguments.

    Returns:
        What went wrong; None if the run is finished.
    """
    with suppress(OSError):
        os.chdir(place)
    error: str | None = imported("function that does a run", work)(**order)
    return error


def content(file: str) -> str:
    """Return what is in a file; nothing if this machine does not see it."""
    with suppress(OSError):
        return Path(file).read_text("utf-8")
    return ""
