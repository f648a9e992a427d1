"""The folder of a project: how it is created, and the records of its models."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from pydantic import Field

from fewlabels import files
from fewlabels.errors import FewlabelsError, ProjectError, StorageError
from fewlabels.experiments.evaluation.measurement import Change
from fewlabels.experiments.settings import FrozenModel
from fewlabels.projects.settings import FILE, ProjectSettings
from fewlabels.projects.store import Store

RECORD = "training.json"
"""Record of a model; written last, so a folder without it is unfinished."""

NUM_TO_TELL_APART = 2
"""Classes that need labels before anything can be learned."""

LOCK = ".lock"
"""File in the folder that keeps two processes from choosing, or creating, at once."""

_TIMEOUT = 10.0  # seconds for another process to put its files in place
_STORE = "labels.sqlite"
# The log is there while the store is open or after a kill; the page comes first.
_OTHERS = (f"{_STORE}-wal", f"{_STORE}-shm", ".page-key", "open-page.html")


class ModelRecord(FrozenModel):
    """How a model was trained, and its predictions for the audit slice."""

    number: int
    created: datetime
    seconds: float
    trainer: str
    reason: str
    """Why this trainer."""
    settings: str
    """Digest of everything that decided the training: labels, trainer, images."""
    labels: str
    """Digest of the labels alone."""
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    """Labels of each class that it was trained on."""
    audit: dict[str, str]
    """The predicted class of each image of the audit slice, by id."""
    predicted: tuple[int, ...]
    """How many images of the pool are predicted to be of each class."""
    confidences: dict[str, float] = Field(default={})
    """The probability of the predicted class of each image of the audit slice."""
    mean_confidence: float | None = None
    """The same of the images without a label, on average."""
    num_unlabeled: int = 0
    """How many those are."""
    change: Change | None = None
    """How many of their predictions are other than those of the latest model of the
    same trainer that was trained on fewer labels."""

    @property
    def name(self) -> str:
        """What the model is called in rounds and events."""
        return folder_name(self.number)

    @property
    def num_labeled(self) -> int:
        """Labels that it was trained on."""
        return sum(self.class_counts)


# -------------------------------------------------------------------- new projects


@contextmanager
def new_project_folder(place: Path) -> Iterator[Path]:
    """Create a folder whose content becomes that of ``place`` at the end of the block.

    Of two processes that do so at the same time the second is refused. An existing
    folder is filled, the settings last: a shell may be in it, or a drive.

    Yields:
        The folder.
    """
    real = place.resolve()  # '.' has no name of its own
    if not real.exists():
        with files.staging_folder(real) as partial:
            yield partial
            try:
                files.move(partial, real)
            except StorageError:
                check_empty(place)
                raise
        return
    in_use = ProjectError(f"Another process is creating a project in '{place}'.")
    with files.staging_folder(real / FILE) as partial:
        yield partial
        with files.hold_lock(real / LOCK, in_use, timeout=_TIMEOUT):
            check_empty(place)
            for path in sorted(partial.iterdir(), key=lambda path: path.name == FILE):
                files.move(path, real / path.name)


def check_empty(folder: Path) -> None:
    """Raise unless a folder is new, empty, or left by a killed process."""
    if not folder.exists():
        return
    if folder.is_dir():
        entries = files.unknown_entries(folder, LOCK, *_OTHERS)
        is_free = not entries
        if entries == [_STORE]:
            store = folder / _STORE
            with suppress(FewlabelsError), Store.open(store, create=False) as opened:
                is_free = not opened.rounds()
        if is_free:
            return
    raise ProjectError(
        f"'{folder}' is not empty; nothing was touched. Give a new or empty folder."
    )


def reference(images: Path, folder: Path) -> str:
    """Return how a project refers to its images: from its folder, if that is short.

    A project beside or above its images can be moved together with them.
    """
    absolute, base = images.resolve(), folder.resolve()
    relative = Path(os.path.relpath(absolute, base))
    return relative.as_posix() if relative.parts[:2] != ("..", "..") else str(absolute)


def store_place(folder: Path, settings: ProjectSettings) -> str | Path:
    """Return where the label store of a project is."""
    return settings.store if "://" in settings.store else folder / settings.store


# -------------------------------------------------------------------------- models


def folder_name(number: int) -> str:
    """Return the name of a model and of its folder."""
    return f"model-{number:03d}"


def read_records(folder: Path) -> tuple[ModelRecord, ...]:
    """Return what is known of every finished model, in the order of training."""
    models: list[ModelRecord] = []
    while (path := folder / folder_name(len(models)) / RECORD).is_file():
        try:
            content = files.verify_checksum(path.read_bytes())
            models.append(ModelRecord.model_validate_json(content))
        except (OSError, ValueError) as error:
            raise ProjectError(
                f"'{path}' is damaged; remove its folder and later ones, and train."
            ) from error
    return tuple(models)


def write_record(folder: Path, record: ModelRecord) -> None:
    """Write the record of a model into its folder, which makes the model count."""
    text = files.add_checksum(record.model_dump_json(indent=2) + "\n")
    files.replace_text(folder / RECORD, text)
    files.remove_leftovers(folder.iterdir())
