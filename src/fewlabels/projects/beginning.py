"""What a new project is about: images or rows, and the training that fits them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch

from fewlabels import training
from fewlabels.data.decode import ImageFile
from fewlabels.data.files import FileImages, common_shape
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError, UsageError
from fewlabels.features import encoders
from fewlabels.features.encoders import NORMAL, Quality
from fewlabels.naming import check_known
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.projects import folder, indexing, planning
from fewlabels.projects.export.config import LARGEST_SIDE
from fewlabels.projects.indexing import Index
from fewlabels.projects.rows import OVER_ROWS, rows_in, scan_rows
from fewlabels.projects.shares import Shares, informed
from fewlabels.runs import Choice

_ENCODED = (
    "You chose the encoder {}; images are read at {} x {} pixels, and their features "
    "are computed once and kept."
)


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
    def of(
        cls,
        place: Path,
        images: Path | None,
        encoder: str | None,
        first: int | None = None,
    ) -> "Source":
        """List the items of a project that will be in ``place``: all, or some."""
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
        index = _scanned(images, place, first)
        if vectors is not None:
            vectors.of([one.name for one in index.files])
        files = tuple(one.file(images) for one in index.files)
        return cls(index, files, vectors, reference)

    def planned(
        self,
        trainer: str | Choice | None,
        encoder: str | None,
        size: int | None,
        shares: Shares,
        quality: str | None,
    ) -> Planned:
        """Return trainer, shape and reason: as told, or as fits."""
        if quality is not None:
            check_known("quality", quality, Quality)
        if self.vectors is not None:
            _check_useless(quality, "rows have no pixels")
            return _over_rows(self.vectors, trainer, shares)
        if encoder is not None or trainer is not None:
            usual = planning.over_features(self.index.num_listed)
            head = Choice.model_validate(usual if trainer is None else trainer)
            return _told(encoder, self.files, head, size, shares, quality)
        plan = planning.plan(
            FileImages(self.files, common_shape(self.files, size)),
            num_items=self.index.num_listed,
            shares=shares,
            quality=cast("Quality", quality or NORMAL),
            size=size,
        )
        chosen = Choice(name=plan.trainer, options=dict(plan.options))
        return Planned(chosen, plan.shape, plan.reason)

    def check(self, planned: Planned, classes: Sequence[str]) -> None:
        """Raise if the training cannot take such items; none is read for it."""
        num_items = len(self.index.files)
        kind = torch.uint8 if self.vectors is None else torch.float32
        like = torch.zeros((), dtype=kind).expand(num_items, *planned.shape)
        unknown = torch.full((num_items,), UNKNOWN)
        pool = Pool.build(ArrayImages(like), unknown, classes)
        training.resolve(planned.trainer.name, planned.trainer.options).check(pool)


def _scanned(images: Path, place: Path, first: int | None) -> Index:
    if not images.is_dir():
        raise DataError(f"There is no folder '{images}' with images.")
    inner = folder.inside(place, images)
    index = indexing.scan(images, without=inner, most=first)
    if not index.files:
        such_as = f" ({index.unreadable[0]})" if index.unreadable else ""
        raise DataError(
            f"There is no readable image in '{images}'{such_as}. Give a folder of PNG, "
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
        numbers = "1 number" if shape[0] == 1 else f"{shape[0]} numbers"
        reason = f"You brought rows of {numbers}: a linear head over them is fitted."
        return Planned(head, shape, reason)
    told = Choice.model_validate(trainer)
    bare = training.variant(told.name, inputs="") or told.name
    return Planned(
        informed(told.model_copy(update={"name": bare}), shares), shape, None
    )


def _told(
    encoder: str | None,
    found: tuple[ImageFile, ...],
    head: Choice,
    size: int | None,
    shares: Shares,
    quality: str | None,
) -> Planned:
    """Return the plan where somebody chose a trainer, an encoder or both.

    Images are read as large as the encoder wants them.
    """
    if encoder is not None:
        head = head.over(encoders.placed(encoder))
    if "encoder" not in training.options(head.name):
        _check_useless(quality, f"the trainer '{head.name}' has no encoder")
        return Planned(informed(head, shares), common_shape(found, size), None)
    head = _sized(head, size, quality)
    options = training.make(head.name, **head.options).options
    name = options["encoder"]
    own = encoders.side(name, **options["encoder_options"])
    shape = _read_at(found, name, size or own, quality)
    reason = None if encoder is None else _ENCODED.format(name, *shape[1:])
    return Planned(informed(head, shares), shape, reason)


def _sized(head: Choice, size: int | None, quality: str | None) -> Choice:
    """Return a training over an encoder that wants images of a size or quality."""
    name = head.options.get("encoder", encoders.ENCODER)
    options = head.options.get("encoder_options", {})
    if name == encoders.PIXELS:
        _check_useless(quality, f"the encoder '{name}' has a size of its own")
    side = planning.side(cast("Quality", quality or NORMAL), size)
    sized = encoders.sized(name, options, side, is_asked=quality is not None)
    if sized == options:
        return head
    return head.model_copy(
        update={"options": {**head.options, "encoder_options": sized}}
    )


def _read_at(
    found: tuple[ImageFile, ...], encoder: str, size: int | None, quality: str | None
) -> tuple[int, int, int]:
    """Return the shape of images for an encoder; one that takes any size sees enough.

    Small images stay as they are. The network that learns from the images itself is a
    small one, and takes longer with every pixel: it gets more only if asked to.
    """
    if size is None:
        is_small = planning.longest_side(found) <= planning.SMALL_SIDE
        if quality is not None or not (is_small or encoder == encoders.LEARNED):
            size = planning.side(cast("Quality", quality or NORMAL), None)
    return common_shape(found, size)


def _check_useless(quality: str | None, why: str) -> None:
    """Raise if a quality was asked for where it changes nothing."""
    if quality is not None:
        raise UsageError(
            f"The quality '{quality}' would have no effect, since {why}; leave it out."
        )
