"""The folder of a project: settings, label store, images and models."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict

from fewlabels import files
from fewlabels.errors import (
    FewlabelsError,
    ProjectError,
    StorageError,
    UnreadableFile,
    UnreadableFilesWarning,
)
from fewlabels.experiments.evaluation.measurement import Change
from fewlabels.names import AllowCode
from fewlabels.projects import image_index
from fewlabels.projects.image_index import Index, image_file
from fewlabels.projects.settings import FILE, ProjectSettings
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.store import ListedFile, Store
from fewlabels.projects.store.database import check_trusted

if TYPE_CHECKING:
    from fewlabels.data.decode import ImageFile
    from fewlabels.pool import Images

RECORD = "training.json"
"""Record of a model; written last, so a folder without it is unfinished."""

NUM_TO_TELL_APART = 2
"""Classes that need labels before anything can be learned."""

LOCK = ".lock"
"""File in the folder that keeps two processes from choosing, or creating, at once."""

_INDEX_LOCK = ".index.lock"
_UNUSABLE = "unusable.txt"
_TIMEOUT = 10.0  # seconds for another process to put its files in place
_STORE = "labels.sqlite"
# The log is there while the store is open or after a kill; the page comes first.
_OTHERS = (f"{_STORE}-wal", f"{_STORE}-shm", ".page-key", "open-page.html")


class ModelRecord(BaseModel):
    """How a model was trained, and its predictions for the audit slice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    confidences: dict[str, float] = {}
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


@dataclass(frozen=True, eq=False)
class ProjectFolder:
    """The methods of a project about its folder and its images."""

    folder: Path
    settings: ProjectSettings
    store: Store
    allow_code: AllowCode = False
    """Which import paths ``project.json`` may name."""

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str],
        *,
        allow_code: AllowCode = False,
        trust_store: bool = False,
    ) -> Self:
        """Open the project in a folder.

        Args:
            folder: The folder of the project.
            allow_code: Which import paths ``project.json`` may name as strategy,
                trainer or encoder: any (True), these, or none. Without it, a project
                can still be labeled and its status be read.
            trust_store: Confirm the PostgreSQL server that ``project.json`` names, for
                good. Without it, only a server that was confirmed is connected to.

        Returns:
            The project; close it, or use it in a ``with`` block.

        Raises:
            ProjectError: If there is none, its label store is another project's, or
                its server was not confirmed on this machine.
        """
        place = Path(folder)
        settings = ProjectSettings.read(place)
        check_trusted(place, settings.store, confirm=trust_store)
        store = Store.open(store_place(place, settings), create=False)
        if settings.store_identity not in {None, store.identity}:
            store.close()
            raise ProjectError(
                f"'{place}' began with another label store; correct 'store' in {FILE}."
            )
        settings.warn_of_changes(place)
        return cls(place, settings, store, allow_code)

    def close(self) -> None:
        """Close the label store."""
        self.store.close()

    def __enter__(self) -> Self:
        """Return the project."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the project."""
        self.close()

    @property
    def settings_file(self) -> Path:
        """Where the settings are, for people who want to change them."""
        return self.folder / FILE

    @property
    def images_folder(self) -> Path:
        """Where the images are; if items are rows, the folder of the file of rows."""
        if self.settings.images is None:
            return self.vectors_file.parent
        return self.folder / self.settings.images

    @property
    def vectors_file(self) -> Path:
        """Where the rows are that are learned from in the place of images."""
        assert self.settings.vectors is not None
        return self.folder / self.settings.vectors

    @property
    def models_folder(self) -> Path:
        """Where the models are, each in a folder of its own."""
        return self.folder / "models"

    @contextmanager
    def alone(self, lock: str, doing: str, *, timeout: float = 0) -> Iterator[None]:
        """Keep other processes from doing the same while the block runs.

        Everything else can go on: people label while a process trains. If another
        process holds the lock, a :class:`ProjectError` says so.

        Yields:
            Nothing.
        """
        in_use = ProjectError(
            f"Another process is {doing} in '{self.folder}'; wait until it is done. "
            "Everything else can go on meanwhile."
        )
        with files.hold_lock(self.folder / lock, in_use, timeout=timeout):
            yield

    def index(self) -> Index:
        """Return all images that are there now, after updating the store.

        Known files are not read again. One warning names new files that cannot be
        read. If the folder or all images are gone, it is a :class:`ProjectError`.
        """
        known: dict[str, ListedFile] = {item.path: item for item in self.store.items()}
        index = self._scan(known, len(known))
        if index.num_read or len(index.files) != len(known):
            # Again, one process at a time, so that an older scan is never written last.
            # What was read just now is not read again.
            read = {file.path: file for file in index.files}
            with self.alone(_INDEX_LOCK, "listing the images", timeout=-1):
                known = {item.path: item for item in self.store.items()}
                index = self._scan(known | read, len(known))
                index.write(self.store)
        if self.settings.images is not None:
            self._warn_of_new(index.unreadable)
        return index

    def _scan(self, known: Mapping[str, ListedFile], num_expected: int) -> Index:
        """Return the images or rows there are now; there must be some if expected."""
        if self.settings.images is None:
            from fewlabels.projects.rows import rows_in, scan_rows

            return scan_rows(rows_in(self.vectors_file), known)
        folder, index = self.images_folder, None
        if folder.is_dir():
            own = image_index.inside(self.folder, folder)
            index = image_index.scan(folder, known, without=own)
        if index is None or (num_expected and not index.files):  # such as a lost drive
            raise ProjectError(
                f"None of the {num_expected} images is in '{folder.resolve()}'. Put "
                f"them back or correct 'images' in {FILE}. The labels are safe."
            )
        return index

    def _warn_of_new(self, unreadable: Sequence[UnreadableFile]) -> None:
        """Warn about unreadable files that are not in the list of earlier ones."""
        path, text = self.folder / _UNUSABLE, "".join(f"{f}\n" for f in unreadable)
        with files.wrap_os_errors(path):
            known = path.read_text("utf-8") if path.exists() else ""
        if text != known:
            files.replace_text(path, text)
        earlier = set(known.splitlines())
        new = [file for file in unreadable if str(file) not in earlier]
        if new:
            unusable = UnreadableFilesWarning(self.images_folder, new)
            warnings.warn(unusable, stacklevel=2)

    def snapshot(self) -> Snapshot:
        """Read the label store, as of one moment."""
        return Snapshot.of(self.store, self.settings.overlap)

    def images(self, snapshot: Snapshot) -> "Images":
        """Return what is learned from: images, read when they are needed, or rows."""
        shape = self.settings.shape
        if len(shape) > 1:
            from fewlabels.data.files import FileImages

            return FileImages(self.image_files(snapshot), shape)
        from fewlabels.projects.rows import row_images, rows_in

        paths = [item.path for item in snapshot.items]
        are_items = self.settings.images is None
        rows = row_images(rows_in(self.vectors_file), paths, are_items=are_items)
        if rows.shape != shape:
            raise ProjectError(
                f"'{self.vectors_file}' has rows of shape {rows.shape}, not {shape}."
            )
        return rows

    def image_files(self, snapshot: Snapshot) -> "tuple[ImageFile, ...]":
        """Return the files of images, without opening them; none if items are rows."""
        if self.settings.images is None:
            return ()
        folder = self.images_folder
        return tuple(image_file(item, folder) for item in snapshot.items)

    def records(self) -> tuple[ModelRecord, ...]:
        """Return what is known of every model, in the order of training."""
        return read_records(self.models_folder)


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
