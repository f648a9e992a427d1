"""Choose a trainer for some images, and measure how long a training will take here.

The choice depends on the images alone. The time is measured in a few real steps on some
of the images.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor

from fewlabels import rng, training
from fewlabels.data.decode import ImageFile
from fewlabels.data.derived import ChosenImages
from fewlabels.data.files import FileImages, common_shape
from fewlabels.errors import ShapeError, UsageError
from fewlabels.features import FeatureCache, encoders, num_missing
from fewlabels.features.encoders import ENCODER, NORMAL, QUALITIES, Quality
from fewlabels.naming import is_import_path
from fewlabels.pool import UNKNOWN, Images, Pool
from fewlabels.projects.shares import UNKNOWN as UNKNOWN_SHARES
from fewlabels.projects.shares import Shares, informed
from fewlabels.protocols import Classifier
from fewlabels.runs import Choice
from fewlabels.training.training import Training

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

_IMAGE_AXES = 3
_PROBED = 32
_STEPS = 5
_SEED = 0

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How to train, and why."""

    trainer: str
    """Name of the trainer."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its options."""
    shape: tuple[int, int, int]
    """Channels, height and width that images are brought to."""
    reason: str
    """Why this trainer, in a sentence."""


def plan(
    images: Images,
    *,
    num_items: int | None = None,
    shares: Shares = UNKNOWN_SHARES,
    quality: Quality = NORMAL,
    size: int | None = None,
) -> TrainingPlan:
    """Choose a trainer for some images: the same one on every machine.

    A head without steps is fitted, over features of a pretrained network or, where
    images are gray and measure at most 32 pixels a side, over their pixels. Where the
    extra ``pretrained`` is not installed, all images are brought to at most 32 pixels,
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
    if len(images.shape) != _IMAGE_AXES or not len(images):
        raise ShapeError(
            f"There are {len(images)} items of shape {images.shape}; a plan is made "
            "for images of shape (channels, height, width)."
        )
    longest, num_items = _longest_side(images), num_items or len(images)
    why = f"The images measure {longest} pixels a side"
    is_small, is_gray = longest <= SMALL_SIDE, images.shape[0] == 1
    missing = "" if is_small and is_gray else _missing_encoder()
    if missing or (is_small and is_gray):
        chosen, seen = _over_pixels(num_items), "pixels"
        if not is_small:
            size = SMALL_SIDE if size is None else size
            why += f" and are resized to {size}"
        why += f". {missing} Until then" if missing else " and are gray"
    else:
        pixels = side(quality, size)
        encoder = {"encoder": ENCODER, "encoder_options": {"size": pixels}}
        chosen = Choice(name=over_features(num_items), options=encoder)
        seen = f"features, computed once by {ENCODER} at {pixels} pixels"
        if not is_small and size is None:
            size = pixels
    chosen = informed(chosen, shares)
    return TrainingPlan(
        trainer=chosen.name,
        options=chosen.options,
        shape=_shape(images, size),
        reason=f"{why}: a head without training steps is fitted to their {seen}.",
    )


def over_features(num_items: int) -> str:
    """Return the trainer that the features of so many items get."""
    return f"frozen-{HEAD if num_items <= MOST_JOINED else HEAD_OF_MANY}"


def _over_pixels(num_items: int) -> Choice:
    """Return the trainer of so many images that are learned from as they are."""
    if num_items <= MOST_JOINED:
        return Choice(name=HEAD)
    small = {"encoder": encoders.PIXELS, "encoder_options": {"size": SMALL_SIDE}}
    return Choice(name=over_features(num_items), options=small | {"scale": "common"})


def from_scratch(shares: Shares) -> Choice:
    """Return the trainer of a network from scratch; it is given known shares."""
    name = FROM_SCRATCH if shares == UNKNOWN_SHARES else ALIGNED
    return informed(Choice(name=name), shares)


def side(quality: Quality, size: int | None) -> int:
    """Return the side of the images that a pretrained network sees; a size wins."""
    return QUALITIES[quality] if size is None else max(size, SMALL_SIDE)


def longest_side(files: Sequence[ImageFile]) -> int:
    """Return the longer side of a typical image in files, in pixels."""
    return int(median(max(file.height, file.width) for file in files))


def expected_seconds(
    trainer: Choice, pool: Pool, cache: FeatureCache, clock: Clock = time.perf_counter
) -> float | None:
    """Measure how many seconds a training will take here; None: it is not known."""
    known = training.built_in(trainer.name, trainer.options)
    images, num_classes = pool.images, pool.num_classes
    if known is None or len(images.shape) != _IMAGE_AXES:
        return None
    chosen = torch.linspace(0, len(images) - 1, min(_PROBED, len(images))).long()
    some = ChosenImages(images, chosen)
    seconds, width = 0.0, 0
    if known.num_steps is not None:
        if known.inputs.has_features:
            return None
        seconds = known.num_steps * _seconds_per_step(known, some, num_classes, clock)
    elif known.inputs.has_features:
        name = known.options["encoder"]
        if name == encoders.LEARNED or is_import_path(name):
            return None
        encoder = encoders.resolve(name, **known.options["encoder_options"])
        width = encoder.feature_size
        missing = num_missing(images, encoder, cache)
        if missing:
            every = torch.arange(len(some))
            encoder.embed(some.read(every))  # the first time is slower
            begun = clock()
            encoder.embed(some.read(every))
            seconds = (clock() - begun) / len(some) * missing
    else:
        width = math.prod(images.shape)
    begun = clock()
    factor = known.rehearse(len(images), num_classes, width)
    return seconds + (clock() - begun) * factor


def _seconds_per_step(
    known: Training, some: Images, num_classes: int, clock: Clock
) -> float:
    """Return the median time of a few steps on some images with made-up labels."""
    labels: Tensor = torch.arange(len(some)) % num_classes
    labels[len(labels) // 2 + 1 :] = UNKNOWN
    pool = Pool.build(some, labels, [str(number) for number in range(num_classes)])
    times: list[float] = []

    def note(step: int, classifier: Classifier) -> None:
        del step, classifier
        times.append(clock())

    few = replace(known, alignment=None).changed(
        steps=_STEPS, checkpoint_every=1, devices=1
    )
    few.fit(pool, rng.stream(_SEED, "probe"), on_checkpoint=note)
    return median(later - earlier for earlier, later in pairwise(times))


def duration(seconds: float) -> str:
    """Return a time as people say it.

    Example:
        >>> duration(0.2), duration(61), duration(7000)
        ('a second', 'about 1 minute', 'about 1.9 hours')
    """
    if seconds <= 1:
        return "a second"
    unit, length = "second", 1
    if seconds >= 60:
        unit, length = ("hour", 3600) if seconds >= 3600 else ("minute", 60)
    count = seconds / length
    number = f"{count:.1f}" if unit == "hour" else f"{math.ceil(count - 0.5)}"
    return f"about {number} {unit}{'' if number in {'1', '1.0'} else 's'}"


def _longest_side(images: Images) -> int:
    """Return the longer side of a typical image, in pixels."""
    if isinstance(images, FileImages):
        return longest_side(images.files)
    return max(images.shape[1:])


def _shape(images: Images, size: int | None) -> tuple[int, int, int]:
    """Return what images are brought to; images in memory stay as they are."""
    if isinstance(images, FileImages):
        return common_shape(images.files, size)
    channels, height, width = images.shape
    return channels, height, width


def _missing_encoder() -> str:
    """Return what to install for the pretrained network; nothing if it is there."""
    try:
        encoders.resolve(ENCODER)
    except UsageError as error:
        return str(error)
    return ""
