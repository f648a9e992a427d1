"""Which trainer a new project gets, and how long a training will take here.

The choice of a trainer depends on the images alone. The time is measured in a few real
steps on some of the images.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from fewlabels import rng, training
from fewlabels.data.decode import ImageFile
from fewlabels.data.derived import ChosenImages
from fewlabels.data.files import FileImages, common_shape
from fewlabels.errors import DataError, ShapeError, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.models import encoders
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import num_missing
from fewlabels.models.encoders import ENCODER, NORMAL, QUALITIES, Quality
from fewlabels.names import is_import_path
from fewlabels.pool import UNKNOWN, ArrayImages, Images, Pool
from fewlabels.projects import image_index, settings
from fewlabels.projects.folder import reference
from fewlabels.projects.image_index import Index, image_file, inside
from fewlabels.projects.rows import OVER_ROWS, rows_in, scan_rows

HEAD = "blend"
"""The learner of a new project, over features or pixels; it takes no steps."""
HEAD_OF_MANY = "linear"
"""The same for more than :data:`MOST_JOINED` items; it takes rows of features."""
MOST_JOINED = 50_000
"""Most items of a graph, which compares all pairs; that takes about a minute."""

FROM_SCRATCH = "flexmatch"
"""The trainer of a network from scratch, where somebody asks for one."""
ALIGNED = "fixmatch-darp"
"""The same where class shares are known."""

SMALL_SIDE = 32
"""Longest side, in pixels, of images whose pixels can be compared as they are."""

_NUM_AXES = 3  # of an image
_NUM_TIMED, _NUM_STEPS = 32, 5  # images, and steps of a training that takes some


Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How to train, and why."""

    trainer: Choice
    """The trainer and its options."""
    shape: tuple[int, ...]
    """Channels, height and width that images are brought to, or the length of a row."""
    reason: str | None = None
    """Why this trainer, in a sentence; None: somebody chose it."""


def plan(
    images: Images,
    *,
    num_items: int | None = None,
    shares: settings.Shares = settings.UNKNOWN_SHARES,
    quality: Quality = NORMAL,
    size: int | None = None,
) -> TrainingPlan:
    """Choose a trainer for some images: the same one on every machine.

    A head without steps is fitted, over features of a pretrained network or, where
    images are gray and measure at most 32 pixels a side, over their pixels. Where the
    extra ``encoders`` is not installed, all images are brought to at most 32 pixels,
    and the head is fitted to those. A network from scratch is never the choice.

    Args:
        images: Images of the pool. Of files the native sizes count, whatever size they
            are brought to now.
        num_items: How many images there will be; None: as many as are given.
        shares: How frequent the classes are, as far as it is known.
        quality: How many pixels a pretrained network sees: see :data:`QUALITIES`.
        size: Side of the square that images are brought to whatever the quality; None:
            as the quality says, or what fits.

    Returns:
        The plan.

    Raises:
        ShapeError: If the items are vectors, not images.
    """
    if len(images.shape) != _NUM_AXES or not len(images):
        raise ShapeError(
            f"{len(images)} items have the shape {images.shape}; a plan is for images."
        )
    num_items = num_items or len(images)
    files = images.files if isinstance(images, FileImages) else None
    longest = max(images.shape[1:]) if files is None else _longest_side(files)
    why = f"The images measure {longest} pixels a side"
    is_small, is_gray, missing = longest <= SMALL_SIDE, images.shape[0] == 1, ""
    if not (is_small and is_gray):
        try:
            encoders.resolve(ENCODER)
        except UsageError as error:
            missing = str(error)
    if missing or (is_small and is_gray):
        chosen, seen = Choice(name=HEAD), "pixels"
        if num_items > MOST_JOINED:
            small = {"encoder_options": {"size": SMALL_SIDE}, "scale": "common"}
            options = {"encoder": encoders.PIXELS} | small
            chosen = Choice(name=_over_features(num_items), options=options)
        if not is_small:
            size = SMALL_SIDE if size is None else size
            why += f" and are resized to {size}"
        why += f". {missing} Until then" if missing else " and are gray"
    else:
        pixels = _side(quality, size)
        options = {"encoder": ENCODER, "encoder_options": {"size": pixels}}
        chosen = Choice(name=_over_features(num_items), options=options)
        seen = f"features, computed once by {ENCODER} at {pixels} pixels"
        if not is_small and size is None:
            size = pixels
    return TrainingPlan(
        trainer=settings.with_shares(chosen, shares),
        shape=tuple(images.shape) if files is None else common_shape(files, size),
        reason=f"{why}: a head without training steps is fitted to their {seen}.",
    )


def from_scratch(shares: settings.Shares) -> Choice:
    """Return the trainer of a network from scratch; it is given known shares."""
    name = FROM_SCRATCH if shares == settings.UNKNOWN_SHARES else ALIGNED
    return settings.with_shares(Choice(name=name), shares)


def _over_features(num_items: int) -> str:
    """Return the name of the trainer over features of so many items."""
    return f"frozen-{HEAD if num_items <= MOST_JOINED else HEAD_OF_MANY}"


def _side(quality: Quality | None, size: int | None) -> int:
    """Return the side of the images that a pretrained network sees; a size wins."""
    if size is not None:
        return max(size, SMALL_SIDE)
    return QUALITIES[quality or NORMAL]


def _longest_side(files: Sequence[ImageFile]) -> int:
    """Return the longer side of a typical image in files, in pixels."""
    return int(median(max(file.height, file.width) for file in files))


# ------------------------------------------------------------------- a new project


def plan_project(
    place: Path,
    images: Path | None,
    new: settings.NewProject,
    classes: Sequence[str],
    first: int | None,
) -> tuple[Index, str | None, TrainingPlan]:
    """List the items of a project that will be in ``place``, and choose how to train.

    Args:
        place: The folder of the project.
        images: The folder of its images; None: its items are rows.
        new: What its owner chose.
        classes: Names of the classes.
        first: List so many of the images; None for all.

    Returns:
        The items, how the project refers to its file of rows if there is one, and the
        plan, which can take such items.
    """
    shares, vectors, own = settings.read_shares(new.shares, len(classes)), None, None
    rows_file = encoders.rows_file(new.encoder)
    if rows_file is not None:
        vectors, own = rows_in(rows_file), reference(rows_file, place)
    if images is not None:
        if not images.is_dir():
            raise DataError(f"There is no folder '{images}' with images.")
        index = image_index.scan(images, without=inside(place, images), most=first)
        if not index.files:
            such_as = f" ({index.unreadable[0]})" if index.unreadable else ""
            raise DataError(
                f"There is no readable image in '{images}'{such_as}; give a folder "
                "with images such as .jpg or .png."
            )
        files = tuple(image_file(file, images) for file in index.files)
        if vectors is not None:
            vectors.of([file.path for file in index.files])
    elif vectors is not None:
        index, files = scan_rows(vectors), ()
    else:
        raise UsageError("Give a folder of images or the encoder vectors:FILE.")
    if vectors is not None:
        planned = _plan_rows(vectors.rows.shape[1], new.trainer)
    elif new.encoder is None and new.trainer is None:
        pictures = FileImages(files, common_shape(files, new.size))
        num_items, quality = index.num_listed, new.quality or NORMAL
        planned = plan(pictures, num_items=num_items, quality=quality, size=new.size)
    else:
        planned = _plan_chosen(files, new, index.num_listed)
    planned = replace(planned, trainer=settings.with_shares(planned.trainer, shares))
    blank = torch.zeros((), dtype=torch.uint8 if vectors is None else torch.float32)
    blank = blank.expand(len(index.files), *planned.shape)
    unknown = torch.full((len(blank),), UNKNOWN)
    pool = Pool.build(ArrayImages(blank), unknown, classes)
    training.resolve(planned.trainer.name, planned.trainer.options).check(pool)
    return index, own, planned


def _plan_rows(width: int, trainer: Choice | None) -> TrainingPlan:
    """Return how to learn from rows of so many numbers."""
    reason = None
    if trainer is None:
        reason = f"A linear head is fitted to your rows of {width} numbers."
        trainer = Choice(name=OVER_ROWS)
    bare = training.variant(trainer.name, inputs="") or trainer.name
    head = trainer.model_copy(update={"name": bare})
    return TrainingPlan(trainer=head, shape=(width,), reason=reason)


def _plan_chosen(
    files: Sequence[ImageFile], new: settings.NewProject, num_items: int
) -> TrainingPlan:
    """Return how to learn from images by the trainer or encoder that somebody chose.

    Small images stay as they are for an encoder that takes any size.
    """
    head, size = new.trainer or Choice(name=_over_features(num_items)), new.size
    if new.encoder is not None:
        head = head.over(encoders.absolute(new.encoder))
    if "encoder" not in training.options(head.name):
        return TrainingPlan(trainer=head, shape=common_shape(files, size))
    options = {"encoder": ENCODER, **head.options}
    given, side = options.get("encoder_options", {}), _side(new.quality, size)
    is_asked = new.quality is not None
    sized = encoders.options_for_side(
        options["encoder"], given, side, is_asked=is_asked
    )
    if sized != given:
        options["encoder_options"] = sized
    head = head.model_copy(update={"options": options})
    options = training.make(head.name, **head.options).options
    size = size or encoders.side(options["encoder"], **options["encoder_options"])
    is_large = _longest_side(files) > SMALL_SIDE
    if size is None and (is_large or new.quality is not None):
        size = _side(new.quality, None)
    shape, reason = common_shape(files, size), None
    if new.encoder is not None:
        reason = (
            f"You chose the encoder {options['encoder']}; images are read at "
            f"{shape[1]} x {shape[2]} pixels, and their features are kept."
        )
    return TrainingPlan(trainer=head, shape=shape, reason=reason)


# ------------------------------------------------------------------------ its time


def expected_seconds(
    trainer: Choice, pool: Pool, cache: FeatureCache, clock: Clock = time.perf_counter
) -> float | None:
    """Measure how many seconds a training will take here; None: it is not known."""
    known = training.built_in(trainer.name, trainer.options)
    images, num_classes = pool.images, pool.num_classes
    if known is None or len(images.shape) != _NUM_AXES:
        return None
    chosen = torch.linspace(0, len(images) - 1, min(_NUM_TIMED, len(images))).long()
    some = ChosenImages(images, chosen)
    if known.schedule is not None:
        if known.inputs.has_features:
            return None
        labels = torch.arange(len(some)) % num_classes
        labels[len(labels) // 2 + 1 :] = UNKNOWN
        short = replace(known.schedule, steps=_NUM_STEPS, checkpoint_every=1, devices=1)
        few = replace(known, alignment=None, schedule=short)
        times: list[float] = []
        few.fit(
            Pool.build(some, labels, [str(number) for number in range(num_classes)]),
            rng.stream(0, "probe"),
            on_checkpoint=lambda *_: times.append(clock()),
        )
        steps = (later - earlier for earlier, later in pairwise(times))
        return known.schedule.steps * median(steps)
    seconds, width = 0.0, math.prod(images.shape)
    if known.inputs.has_features:
        name = known.options["encoder"]
        if is_import_path(name):
            return None
        encoder = encoders.resolve(name, **known.options["encoder_options"])
        width = encoder.feature_size
        missing = num_missing(images, encoder, cache)
        if missing:
            every = torch.arange(len(some))
            encoder.embed(some.read(every))  # the first time is slower
            started = clock()
            encoder.embed(some.read(every))
            seconds = (clock() - started) / len(some) * missing
    started = clock()
    factor = known.rehearse(len(images), num_classes, width)
    return seconds + (clock() - started) * factor
