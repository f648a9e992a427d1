"""What a round asks about, as numbered pictures to label from."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewlabels.data.decode import ImageFile, decode
from fewlabels.errors import DataError, UsageError
from fewlabels.files import open_regular
from fewlabels.integers import count
from fewlabels.progress import track
from fewlabels.projects import Project
from fewlabels.projects.exchange import AskedItem
from fewlabels.projects.exchange.writing import suggestion
from fewlabels.report.rendering import write_page
from fewlabels.report.thumbnails import LARGEST_LOSSLESS, data_uri

_TEMPLATE = "sheet.html.j2"
_SIDE = 320
_MARK = b'content="fewlabels contact sheet"'
_BEGINNING = 1000


@dataclass(frozen=True)
class NumberedImage:
    """An image and its number in the round."""

    number: int
    name: str
    picture: str | None
    """A data URI; None where the file cannot be read any more."""
    is_small: bool
    """Whether it is enlarged pixel by pixel."""


@dataclass(frozen=True)
class Guess:
    """What the model takes an image for."""

    number: int
    name: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Everything the page shows."""

    title: str
    headline: str
    file: str
    """Where the labels are written."""
    command: str
    """What takes them."""
    classes: tuple[str, ...]
    images: tuple[NumberedImage, ...]
    guesses: tuple[Guess, ...]
    model: str | None
    image_size: str = "sheet"


def sheet_path(query: Path) -> Path:
    """Return where the contact sheet of a query stands: beside it.

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
        raise UsageError(
            f"'{path}' already exists, is not a contact sheet, and was not touched. "
            "Choose another name for the query."
        )
    return path


def write_contact_sheet(
    path: Path, project: Project, asked: Sequence[AskedItem], query: Path
) -> Path:
    """Write the images of a query as numbered pictures on one page.

    The page is one file that needs no script and no other file.

    Args:
        path: Where the page shall stand, as :func:`sheet_path` says.
        project: The project.
        asked: What is asked, as ``Project.questions`` returns it.
        query: The file whose rows carry the same numbers.

    Returns:
        ``path``.
    """
    snapshot = project.snapshot()
    files = project.image_files(snapshot)
    guesses = []
    for one in asked:
        best = suggestion(one, snapshot.classes)
        if best is not None:
            guesses.append(Guess(one.number, *best))
    with track("Drawing the contact sheet", len(asked)) as advance:
        images = []
        for one in asked:
            images.append(_numbered(one, files[snapshot.positions[one.id]]))
            advance(1)
    page = Sheet(
        title=project.folder.resolve().name,
        headline=f"Round {asked[0].round}: {count(len(asked), 'image')} to label",
        file=query.name,
        command=shlex.join(("fewlabels", "tell", str(project.folder), str(query))),
        classes=snapshot.classes,
        images=tuple(images),
        guesses=tuple(guesses),
        model=asked[0].model,
    )
    return write_page(path, _TEMPLATE, page)


def _numbered(one: AskedItem, file: ImageFile) -> NumberedImage:
    """Return an image in its own proportions, reduced where it is large."""
    longest = max(file.height, file.width)
    scale = min(1.0, _SIDE / longest)
    height, width = (max(1, round(scale * s)) for s in (file.height, file.width))
    try:
        pixels = decode(file, (1 if file.is_grey else 3, height, width))
        picture = data_uri(pixels, _SIDE)
    except DataError:
        picture = None
    return NumberedImage(one.number, one.path, picture, longest <= LARGEST_LOSSLESS)
