"""What a new project is about: images or rows, and the training that fits them."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fewlabels import training
from fewlabels.data.decode import ImageFile
from fewlabels.data.files import FileImages, common_shape
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError, UsageError
from fewlabels.features import encoders
from fewlabels.projects import folder, indexing, planning
from fewlabels.projects.export.config import LARGEST_SIDE
from fewlabels.projects.indexing import Index
from fewlabels.projects.rows import OVER_ROWS, rows_in, scan_rows
from fewlabels.projects.shares import Shares, informed
from fewlabels.runs import Choice


class Planned(NamedTuple):
    """How a project will be trained."""

    trainer: Choice
    shape: tuple[int, ...]
    """Channels, height and width that images are brought to; or the length of a row."""
    reason: str | None
    """Why this trainer; None: somebody chose it."""


def check_size(size: int | None) -> None:
    """Raise unless images can be brought to a square of this size."""
    if size is not None and not 1 <= size <= LARGEST_SIDE:
        raise UsageError(
            f"Images cannot be resized to {size} pixels a side; give 8 to "
            f"{LARGEST_SIDE}."
        )


@dataclass(frozen=True, eq=False)
class Source:
    """Where the items of a project are."""

    index: Index
    files: tuple[ImageFile, ...]
    """The images; none where items are rows alone."""
    vectors: Vectors | None
    """The rows that are learned from in the place of images."""
    reference: str | None
    """How the project refers to the file of rows."""

    @classmethod
    def of(cls, place: Path, images: Path | None, encoder: str | None) -> "Source":
        """List the items of a project that will be in ``place``."""
        file = encoders.rows_file(encoder)
        vectors = None if file is None else rows_in(file)
        reference = None if file is None else folder.reference(file, place)
        if images is None:
            if vectors is None:
                raise UsageError(
                    "There is nothing to label: give a folder of images, a file of "
                    "rows as the encoder vectors:FILE, or both."
                )
            return cls(scan_rows(vectors), (), vectors, reference)
        index = _scanned(images, place)
        if vectors is not None:
            vectors.of([one.name for one in index.files])
        files = tuple(one.file(images) for one in index.files)
        return cls(index, files, vectors, reference)

    def planned(
        self,
        num_classes: int,
        trainer: str | Choice | None,
        encoder: str | None,
        size: int | None,
        shares: Shares,
    ) -> Planned:
        """Return trainer, shape and reason: as told, or as fits."""
        if self.vectors is not None:
            return _over_rows(self.vectors, trainer, shares)
        if encoder is not None:
            return _over_features(encoder, self.files, trainer, size, shares)
        shape = common_shape(self.files, size)
        if trainer is not None:
            told = informed(Choice.model_validate(trainer), shares)
            return Planned(told, shape, None)
        images = FileImages(self.files, shape)
        plan = planning.plan(images, num_classes, shares=shares)
        chosen = Choice(name=plan.trainer, options=dict(plan.options))
        return Planned(chosen, plan.shape if size is None else shape, plan.reason)


def _scanned(images: Path, place: Path) -> Index:
    if not images.is_dir():
        raise DataError(f"There is no folder '{images}' with images.")
    index = indexing.scan(images, without=folder.inside(place, images))
    if not index.files:
        first = f" ({index.unreadable[0]})" if index.unreadable else ""
        raise DataError(
            f"There is no readable image in '{images}'{first}. Give a folder of PNG, "
            "JPEG or other common images."
        )
    return index


def _over_rows(
    vectors: Vectors, trainer: str | Choice | None, shares: Shares
) -> Planned:
    """Return the plan for rows, which are features already."""
    shape = vectors.rows.shape[1:]
    if trainer is None:
        head = informed(Choice(name=OVER_ROWS), shares)
        reason = (
            f"You brought rows of {shape[0]} numbers: a linear head over them is "
            "fitted."
        )
        return Planned(head, shape, reason)
    told = Choice.model_validate(trainer)
    bare = training.variant(told.name, inputs="") or told.name
    return Planned(
        informed(told.model_copy(update={"name": bare}), shares), shape, None
    )


def _over_features(
    encoder: str,
    found: tuple[ImageFile, ...],
    trainer: str | Choice | None,
    size: int | None,
    shares: Shares,
) -> Planned:
    """Return the plan where somebody chose an encoder."""
    name = encoders.placed(encoder)
    head = Choice.model_validate(planning.OVER_FEATURES if trainer is None else trainer)
    side = encoders.side(name) if size is None else size
    reason = f"You chose the encoder {name}; its features are computed once and kept."
    return Planned(informed(head.over(name), shares), common_shape(found, side), reason)
