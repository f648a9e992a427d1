"""The folder of a project: where everything is, and how it is read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fewlabels import files
from fewlabels.data.unreadable import warn_of
from fewlabels.errors import ProjectError, UnreadableFile
from fewlabels.naming import AllowCode, check_code
from fewlabels.projects import models
from fewlabels.projects.models import ModelRecord
from fewlabels.projects.settings import FILE, ProjectSettings
from fewlabels.projects.shares import outgrown
from fewlabels.projects.snapshot import Snapshot
from fewlabels.runs import Choice
from fewlabels.store import Store, trust

if TYPE_CHECKING:
    from fewlabels.data.decode import ImageFile
    from fewlabels.features import FeatureCache, encoders
    from fewlabels.pool import Images, Pool
    from fewlabels.projects.indexing import Index, IndexedFile
    from fewlabels.protocols import Classifier, Trainer

LOCK = ".lock"
"""File in the folder that keeps two processes from choosing, or beginning, at once."""
TRAINING_LOCK = ".training.lock"
"""The same for training, which takes longer and keeps nobody from choosing."""
OTHER_TRAINING_LOCK = ".other-training.lock"
"""The same for training by another trainer than the project's, while that goes on."""
_INDEX_LOCK = ".index.lock"
_UNUSABLE = "unusable.txt"


@dataclass(frozen=True, eq=False)
class ProjectFolder:
    """Settings, label store and models of a project."""

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
                trainer or encoder: any (True), these, or none. Without it, labels can
                be told and the project's state be read.
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
        if trust_store:
            trust.trust(place, settings.store)
        trust.check_trusted(place, settings.store)
        store = Store.open(store_place(place, settings), create=False)
        if settings.store_identity not in {None, store.identity}:
            store.close()
            raise ProjectError(
                f"The label store of '{place}' is not the one that it began with, but "
                "that of another project; nothing was touched. Put the right one back "
                f"or correct 'store' in '{place / FILE}'."
            )
        settings.tell_changes(place)
        found = cls(place, settings, store, allow_code)
        with suppress(ProjectError):  # damaged: who needs a model is told
            models.seal(found.models_folder)
        return found

    def close(self) -> None:
        """Let go of the label store."""
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
    def alone(self, lock: str, doing: str, *, patience: float = 0) -> Iterator[None]:
        """Keep other processes from doing the same while the block runs.

        Only who does the same is kept out: people label, others ask and look while one
        process trains. A :class:`ProjectError` tells that another is at it.

        Yields:
            Nothing.
        """
        in_use = ProjectError(
            f"Another process is {doing} in '{self.folder}'; wait until it is done. "
            "Everything else can go on meanwhile."
        )
        with files.alone(self.folder / lock, in_use, patience=patience):
            yield

    def index(self) -> "Index":
        """Return all images there are now, after taking in what changed there.

        Files that were known are not read again. One warning names those that cannot be
        read, when they are met first. A folder or images that are all gone raise
        :class:`ProjectError`.
        """
        from fewlabels.projects.catalog import as_indexed, take_in

        known = {one.name: one for one in map(as_indexed, self.store.items())}
        index = self._scanned(known, len(known))
        if index.num_read or len(index.files) != len(known):
            # Once more, one process at a time: who looked earlier must not be the last
            # to write. What was read just now is not read again.
            read = {one.name: one for one in index.files}
            with self.alone(_INDEX_LOCK, "listing the images", patience=-1):
                known = {one.name: one for one in map(as_indexed, self.store.items())}
                index = self._scanned(known | read, len(known))
                take_in(self.store, index, known)
        if self.settings.images is not None:
            self.warn_once(index.unreadable)
        return index

    def _scanned(self, read: Mapping[str, "IndexedFile"], num_known: int) -> "Index":
        """Look which images there are; some must be, where some were known."""
        from fewlabels.projects.indexing import scan

        if self.settings.images is None:
            from fewlabels.projects.rows import rows_in, scan_rows

            return scan_rows(rows_in(self.vectors_file), read)
        folder, found = self.images_folder, None
        if folder.is_dir():
            found = scan(folder, read, without=inside(self.folder, folder))
        if found is None or (num_known and not found.files):  # such as a lost drive
            raise ProjectError(self._gone(num_known))
        return found

    def warn_once(self, unreadable: Sequence[UnreadableFile]) -> None:
        """Give one warning of files that cannot be used, but for those known already.

        All of them are listed in ``unusable.txt``, which is how they are known.
        """
        listed = self.folder / _UNUSABLE
        lines = [f"{one}\n" for one in unreadable]
        with files.explained(listed):
            known = listed.read_text("utf-8") if listed.exists() else ""
        fresh = set(lines).difference(known.splitlines(keepends=True))
        if "".join(lines) != known:
            files.replace_text(listed, "".join(lines))
        warn_of(self.images_folder, [o for o in unreadable if f"{o}\n" in fresh])

    def _gone(self, num_known: int) -> str:
        return (
            f"None of the {num_known} images is in '{self.images_folder.resolve()}'. "
            "Connect the drive or put them back; if they are elsewhere now, write that "
            f"folder as 'images' into '{self.settings_file}'. The labels are safe."
        )

    def snapshot(self) -> Snapshot:
        """Read the label store, as of one moment."""
        return Snapshot.of(self.store, self.settings.overlap)

    def images(self, snapshot: Snapshot) -> "Images":
        """Return what is learned from: images, read when they are needed, or rows."""
        from fewlabels.data.files import FileImages

        shape = self.settings.shape
        if len(shape) > 1:
            return FileImages(self.image_files(snapshot), shape)
        from fewlabels.projects.rows import row_images, rows_in

        paths = [item.path for item in snapshot.items]
        are_items = self.settings.images is None
        found = row_images(rows_in(self.vectors_file), paths, are_items=are_items)
        if found.shape != shape:
            raise ProjectError(
                f"The rows in '{self.vectors_file}' have {found.shape[0]} numbers, and "
                f"the project began with rows of {shape[0]}. Put those back, or begin "
                "another project; the labels are safe."
            )
        return found

    def image_files(self, snapshot: Snapshot) -> "tuple[ImageFile, ...]":
        """Return the files of a snapshot's images, without opening them.

        None, where what is labeled are rows.
        """
        from fewlabels.projects.catalog import as_indexed

        if self.settings.images is None:
            return ()
        folder = self.images_folder
        return tuple(as_indexed(item).file(folder) for item in snapshot.items)

    def trainer(self) -> "Trainer":
        """Return the trainer of the project."""
        from fewlabels import training

        chosen = self.chosen_trainer()
        return training.resolve(chosen.name, chosen.options)

    def chosen_trainer(self) -> Choice:
        """Return the trainer by its name, told only shares that fit the classes."""
        chosen = self.allowed(self.settings.trainer)
        return outgrown(chosen, len(self.store.classes()))

    def allowed(self, chosen: Choice) -> Choice:
        """Return what ``project.json`` chose, unless it is code nobody has allowed."""
        check_code(self.settings_file, chosen.code, self.allow_code)
        return chosen

    def records(self) -> tuple[ModelRecord, ...]:
        """Return what is known of every model, in the order of training."""
        return models.records(self.models_folder)

    def classifier(self, record: ModelRecord, pool: "Pool") -> "Classifier":
        """Return a trained model, with the features of the pool that are kept."""
        from fewlabels.features import Embedded, FrozenClassifier, embedded
        from fewlabels.projects.export import load_model

        place = self.models_folder / record.name
        found = load_model(place, encoder=self._own_encoder(pool)).classifier
        if not isinstance(found, FrozenClassifier):
            return found
        cache = self.feature_cache
        rows = embedded(pool.images, found.encoder, cache=cache)
        return replace(found, known=(Embedded(pool.images, rows),), cache=cache)

    def _own_encoder(self, pool: "Pool") -> "encoders.Encoder | None":
        """Return the encoder that its owner brought along; no file holds it."""
        from fewlabels.features import embedded, encoders

        options = self.settings.trainer.options
        name = options.get("encoder")
        if not isinstance(name, str) or name in encoders.names():
            return None
        import torch

        from fewlabels.data.derived import ChosenImages

        self.allowed(self.settings.trainer)
        found = encoders.resolve(name, **options.get("encoder_options", {}))
        # A module does not know how many features it gives before its first image.
        embedded(ChosenImages(pool.images, torch.zeros(1).long()), found)
        return found

    @property
    def feature_cache(self) -> "FeatureCache":
        """Where features are kept, for all projects that have the same images."""
        from fewlabels.features import FeatureCache

        return FeatureCache.of_this_user()


def store_place(folder: Path, settings: ProjectSettings) -> str | Path:
    """Return where the label store of a project is."""
    return settings.store if "://" in settings.store else folder / settings.store


def inside(folder: Path, images: Path) -> str | None:
    """Return the name of ``folder`` below ``images``; None if it is elsewhere."""
    inner, outer = folder.resolve(), images.resolve()
    if inner == outer or not inner.is_relative_to(outer):
        return None
    return inner.relative_to(outer).as_posix()


def reference(images: Path, folder: Path) -> str:
    """Return how a project refers to its images: from its folder, where that is short.

    A project beside or above its images can be moved together with them.
    """
    absolute, base = images.resolve(), folder.resolve()
    relative = Path(os.path.relpath(absolute, base))
    return relative.as_posix() if relative.parts[:2] != ("..", "..") else str(absolute)
