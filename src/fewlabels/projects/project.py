"""A project: a person's images and labels, and what was learned from them."""

import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Self

from fewlabels import files, strategies, training
from fewlabels.data.decode import ImageFile
from fewlabels.data.files import FileImages, common_shape
from fewlabels.data.unreadable import warn_of
from fewlabels.errors import (
    DataError,
    ProjectError,
    UnreadableFilesWarning,
    UsageError,
)
from fewlabels.projects import asking, exporting, learning, standing, telling
from fewlabels.projects.asking import Asked
from fewlabels.projects.catalog import take_in
from fewlabels.projects.exporting import Exported
from fewlabels.projects.folder import ProjectFolder, inside, reference, store_place
from fewlabels.projects.indexing import scan
from fewlabels.projects.learning import Trained
from fewlabels.projects.planning import duration, plan
from fewlabels.projects.settings import FILE, checked
from fewlabels.projects.standing import Status
from fewlabels.projects.telling import Told
from fewlabels.runs import Choice
from fewlabels.store import Store

_OWNER = "owner"


class Project(ProjectFolder):
    """Ask, tell, train, export: each verb of the command line is a method.

    All of them can be interrupted at any moment and called again.
    """

    @classmethod
    def create(
        cls,
        folder: str | PathLike[str],
        images: str | PathLike[str],
        classes: Sequence[str],
        *,
        budget: int,
        audit: int | None = None,
        query: int | None = None,
        overlap: int | None = None,
        strategy: str | Choice | None = None,
        trainer: str | Choice | None = None,
        size: int | None = None,
        seed: int | None = None,
        store: str | None = None,
    ) -> Self:
        """Begin a project.

        Args:
            folder: Where to keep it; new or empty.
            images: Folder of the images, which stay there and are not changed.
            classes: Names of the classes.
            budget: Labels in all.
            audit: How many of them measure; None: a fifth.
            query: Labels asked for in each round; None: 20.
            overlap: Annotators who shall label each image; None: one.
            strategy: What chooses images; None: ``npc``.
            trainer: What learns; None: what fits the images and the machine.
            size: Side of the square that images are brought to; None: what fits.
            seed: Seed of everything random; None: 0.
            store: Address of a PostgreSQL server; None: a file in the folder.

        Returns:
            The project, with its images indexed.
        """
        place, pictures = Path(folder), Path(images).expanduser()
        names = _class_names(classes)
        if size is not None and size < 1:
            msg = f"Images cannot be brought to {size} pixels a side; give 8 or more."
            raise UsageError(msg)
        _check_free(place)
        if not pictures.is_dir():
            raise DataError(f"There is no folder '{pictures}' with images.")
        index = scan(pictures, without=inside(place, pictures))
        if not index.files:
            first = f" ({index.unreadable[0]})" if index.unreadable else ""
            msg = (
                f"There is no readable image in '{pictures}'{first}. Give a folder of "
                "PNG, JPEG or other common images."
            )
            raise DataError(msg)
        found = tuple(one.file(pictures) for one in index.files)
        chosen, shape, reason = _planned(found, len(names), trainer, size)
        settings = checked(
            images=reference(pictures, place),
            store=store,
            budget=budget,
            audit=audit,
            query=query,
            overlap=overlap,
            strategy=strategy,
            trainer=chosen,
            reason=reason,
            shape=shape,
            seed=seed,
        )
        strategies.resolve(settings.strategy.name, settings.strategy.options)
        training.resolve(settings.trainer.name, settings.trainer.options)
        with _whole(place) as partial:
            with Store.open(store_place(partial, settings)) as labels:
                _check_unused(labels, names)
                labels.add_classes(names, annotator=_OWNER)
                take_in(labels, index)
            settings.write(partial)
        warn_of(pictures, index.unreadable)
        return cls.open(place, allow_code=True)  # the caller named it all

    def ask(
        self,
        *,
        size: int | None = None,
        strategy: str | Choice | None = None,
        anew: bool = False,
    ) -> Asked:
        """Choose the next images to label, or return those that are still open.

        Args:
            size: How many images the strategy chooses; None: as the project says.
            strategy: Another strategy than the project's, for this round.
            anew: Leave what is open of the last round and choose again.

        Returns:
            The images, in the order in which to label them.
        """
        chosen = None if strategy is None else Choice.model_validate(strategy)
        with self.owned():
            self.index()
            return asking.ask(self, size=size, strategy=chosen, anew=anew)

    def write_query(self, asked: Asked, path: str | PathLike[str]) -> Path:
        """Write a query for people: CSV, JSONL or Label Studio JSON, by its ending.

        Args:
            asked: What :meth:`ask` returned.
            path: ``.csv``, ``.jsonl`` or ``.json`` (Label Studio's tasks).

        Returns:
            The path.
        """
        return telling.write_query(self, asked, Path(path))

    def tell(
        self,
        path: str | PathLike[str],
        *,
        annotator: str | None = None,
        partial: bool = False,
    ) -> Told:
        """Take labels from a file: all of them or, where one is wrong, none.

        Args:
            path: CSV, JSONL, or an export of Label Studio (.json).
            annotator: Who labeled, where the file does not say.
            partial: Take the good rows, and list the others.

        Returns:
            What was taken.
        """
        return telling.tell(self, Path(path), annotator=annotator, partial=partial)

    def train(self) -> Trained:
        """Train on what is labeled, or go on with a training that was interrupted."""
        with self.owned():
            self.index()
            return learning.train(self)

    def expectation(self) -> str:
        """Say how the next training will be done, and how long it will take here.

        A few steps are done and timed, which takes some seconds by itself.

        Returns:
            A sentence.
        """
        with self.owned(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreadableFilesWarning)  # train warns
            self.index()
        snapshot = self.snapshot()
        expected = plan(self.images(snapshot), len(snapshot.classes))
        chosen, reason = self.settings.trainer, self.settings.reason
        if chosen == Choice(name=expected.trainer, options=dict(expected.options)):
            return f"{reason} Expected: {duration(expected.seconds)}."
        return f"{reason} Trainer: {chosen.name}; its time was not foretold."

    def status(self) -> Status:
        """Return how the project stands, and how good its model is."""
        return standing.status(self)

    def export(self, folder: str | PathLike[str], *, onnx: bool = False) -> Exported:
        """Write labels, predictions and the latest model for other programs.

        Args:
            folder: Where to; made if there is none.
            onnx: Also as ``model.onnx`` (extra ``onnx``).

        Returns:
            The files.
        """
        with self.owned():
            self.index()
            return exporting.export(self, Path(folder), onnx=onnx)

    def backup(self, path: str | PathLike[str]) -> None:
        """Copy all labels, as of one moment, into a new SQLite file."""
        self.store.backup(Path(path))


@contextmanager
def _whole(place: Path) -> Iterator[Path]:
    """Hand out a folder beside ``place`` that takes its name once it is complete.

    A folder that is there already is filled, the settings last: a shell may be in it.

    Yields:
        The folder.
    """
    real = place.resolve()  # '.' has no name of its own
    partial = real.with_name(real.name + files.LEFTOVER)
    with files.explained(place):
        shutil.rmtree(partial, ignore_errors=True)  # of one that was killed
        files.make_folder(partial)
        try:
            yield partial
            if not real.exists():
                partial.replace(real)
                return
            for path in sorted(partial.iterdir(), key=lambda one: one.name == FILE):
                path.replace(real / path.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _class_names(classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in classes)
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        msg = (
            f"The classes are {list(names)}; give at least two different names, such "
            "as --classes cat,dog."
        )
        raise UsageError(msg)
    return names


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = (
            f"'{folder}' is not empty; nothing was touched. Give a new or empty folder "
            "for the project. To go on with a project that is there, ask it."
        )
        raise ProjectError(msg)


def _check_unused(labels: Store, names: tuple[str, ...]) -> None:
    """Raise if another project keeps its labels in a store."""
    known = tuple(one.name for one in labels.classes())
    if labels.rounds() or known not in {(), names}:
        msg = (
            f"The label store holds another project, with {len(known)} classes and "
            f"{len(labels.rounds())} rounds; nothing was touched. Give this one an "
            "empty database."
        )
        raise ProjectError(msg)


def _planned(
    found: tuple[ImageFile, ...],
    num_classes: int,
    trainer: str | Choice | None,
    size: int | None,
) -> tuple[Choice, tuple[int, int, int], str | None]:
    """Return trainer, shape of images and reason: as told, or as fits."""
    if trainer is not None:
        return Choice.model_validate(trainer), common_shape(found, size), None
    fitting = plan(FileImages(found, common_shape(found, size)), num_classes)
    shape = fitting.shape if size is None else common_shape(found, size)
    chosen = Choice(name=fitting.trainer, options=dict(fitting.options))
    return chosen, shape, fitting.reason
