"""The contact sheet: the images of a query as numbered pictures to label from."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fewlabels.errors import DataError, UsageError, count
from fewlabels.files import open_regular
from fewlabels.progress import track
from fewlabels.projects import Project
from fewlabels.projects.exchange import AskedItem, suggestion
from fewlabels.report.page import write_page
from fewlabels.report.pictures import LARGEST_LOSSLESS, data_uri, decode_within

_SIDE = 320
_MARK = b'content="fewlabels contact sheet"'
_BEGINNING = 1000


def sheet_path(query: Path) -> Path:
    """Return the path of a query's contact sheet, which is beside it.

    Args:
        query: The file that asks.

    Returns:
        The place, which is free or holds an earlier contact sheet.

    Raises:
        UsageError: If another file is there.
    """
    path = query.with_suffix(".html")
    try:
        with open_regular(path, 2**62) as file:
            is_ours = _MARK in file.read(_BEGINNING)
    except FileNotFoundError:
        return path
    except OSError:
        is_ours = False
    if not is_ours:
        raise UsageError(f"'{path}' is not a contact sheet; choose another name.")
    return path


def write_contact_sheet(
    path: Path, project: Project, asked: Sequence[AskedItem], query: Path
) -> Path:
    """Write the images of a query as numbered pictures on one page.

    The page is one file that needs no script and no other file.

    Args:
        path: Where to write the page, of :func:`sheet_path`.
        project: The project.
        asked: What is asked, as ``Project.questions`` returns it.
        query: The file whose rows carry the same numbers.

    Returns:
        ``path``.
    """
    snapshot = project.snapshot()
    files = project.image_files(snapshot)
    images, guesses = [], []
    with track("Drawing the contact sheet", len(asked)) as advance:
        for item in asked:
            file = files[snapshot.positions[item.id]]
            is_small = max(file.height, file.width) <= LARGEST_LOSSLESS
            picture = None
            with suppress(DataError):  # it may be gone by now
                picture = data_uri(decode_within(file, _SIDE), _SIDE)
            images.append((item.number, item.path, picture, is_small))
            if (best := suggestion(item, snapshot.classes)) is not None:
                guesses.append((item.number, *best))
            advance(1)
    page = {
        "title": project.folder.resolve().name,
        "headline": f"Round {asked[0].round}: {count(len(asked), 'image')} to label",
        "file": query.name,
        "command": shlex.join(("fewlabels", "tell", str(project.folder), str(query))),
        "classes": snapshot.classes,
        "images": images,
        "guesses": guesses,
        "model": asked[0].model,
        "image_size": "sheet",
    }
    return write_page(path, "sheet.html.j2", page)
