"""Which training fits the images and the machine, and how long it will take.

No table of machines: a few real steps are done on some of the images, and timed.
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
from fewlabels.features.encoders import (
    ENCODER,
    NORMAL,
    QUALITIES,
    Encoder,
    Quality,
)
from fewlabels.naming import is_import_path
from fewlabels.pool import UNKNOWN, Images, Pool
from fewlabels.projects.shares import UNKNOWN as UNKNOWN_SHARES
from fewlabels.projects.shares import Shares, informed
from fewlabels.protocols import Classifier, Trainer
from fewlabels.runs import Choice
from fewlabels.training.training import Training

SMALL_SIDE = 32
"""Longest side, in pixels, of images that a network is trained on from scratch."""

BEARABLE = 60.0
"""Seconds of training from scratch that people put up with in each round."""

FROM_SCRATCH = "flexmatch"
ALIGNED = "fixmatch-darp"
MOST_JOINED = 50_000
"""Items that a graph is made of; it compares all pairs, which takes about a minute."""

_IMAGE_AXES = 3
_PROBED = 32
_STEPS = 5
_SEED = 0

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How to train, and what to expect of it."""

    trainer: str
    """Name of the trainer."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its options."""
    shape: tuple[int, int, int]
    """Channels, height and width that images are brought to."""
    seconds: float
    """Expected time of a first training, which makes features; NaN: not measured."""
    reason: str
    """Why this and nothing else, in a sentence."""
    embedding: Mapping[Quality, float] = field(default_factory=dict)
    """Seconds that the features of all images take at each quality, where there is a
    choice."""

    @property
    def choice(self) -> str:
        """What each quality would cost, in a sentence; empty without a choice."""
        told = [
            f"{duration(seconds)} at {'' if number else 'quality '}{quality} "
            f"({QUALITIES[quality]}{'' if number else ' pixels a side'})"
            for number, (quality, seconds) in enumerate(self.embedding.items())
        ]
        return (
            f"Features take {', '.join(told[:-1])} and {told[-1]}, once."
            if told
            else ""
        )

    def __str__(self) -> str:
        """Say what will be done, why and how long it will take."""
        if math.isnan(self.seconds):
            return self.reason
        return f"{self.reason} Expected time: {duration(self.seconds)}."


def plan(
    images: Images,
    num_classes: int,
    *,
    num_items: int | None = None,
    shares: Shares = UNKNOWN_SHARES,
    quality: Quality = NORMAL,
    size: int | None = None,
    bearable: float = BEARABLE,
    is_timed: bool = True,
    clock: Clock = time.perf_counter,
) -> TrainingPlan:
    """Choose a trainer for some images on this machine, and estimate its time.

    Images of at most 32 pixels a side are trained on from scratch by FlexMatch, unless
    people would have to wait for that in each round: then labels spread to similar
    ones, by their pixels where they are grey. Larger ones are embedded once by a
    pretrained network, and labels spread to those of similar features. Of more than
    :data:`MOST_JOINED` images no graph is made: over features a linear head is fitted,
    and grey ones are trained on from scratch. Where the extra
    ``pretrained`` is not installed, larger images are brought to 32 pixels and trained
    on from scratch. Predictions are aligned to class shares only where these are known.

    Args:
        images: Images of the pool. Of files the native sizes count, whatever size they
            are brought to now.
        num_classes: Number of classes.
        num_items: How many images there will be; None: as many as are given.
        shares: How frequent the classes are, as far as it is known.
        quality: How many pixels a pretrained network sees: see :data:`QUALITIES`.
        size: Side of the square that images are brought to whatever the quality; None:
            as the quality says, or what fits.
        bearable: Seconds of training from scratch that are put up with.
        is_timed: Whether to measure what decides nothing, too, which takes seconds.
        clock: What tells the time.

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
    num_items, longest = num_items or len(images), _longest_side(images)
    seen = f"The images measure {longest} pixels a side"
    missing = _missing_encoder()
    if longest <= SMALL_SIDE:
        why = f"{seen}, at most {SMALL_SIDE}"
        small = _scratch(images, num_classes, shares, why, clock, size)
        is_grey = images.shape[0] == 1
        has_other = num_items <= MOST_JOINED if is_grey else not missing
        if small.seconds <= bearable or not has_other:
            return small
        why = (
            f"{seen}, but a network from scratch would take {duration(small.seconds)} "
            f"in each round here (the trainer '{small.trainer}' does it all the same)"
        )
        over = {} if is_grey else _over_encoder(quality, size)
        quick = _quick(images, num_items, num_classes, shares, why, clock, over, size)
        return quick if quick.seconds < small.seconds else small
    if missing:
        small_side = SMALL_SIDE if size is None else size
        why = f"{seen} and are resized to {small_side}. {missing} Until then"
        return _scratch(images, num_classes, shares, why, clock, small_side)
    why = f"{seen}, more than {SMALL_SIDE}"
    over, told = _over_encoder(quality, size), clock if is_timed else None
    return _quick(images, num_items, num_classes, shares, why, told, over, size)


def over_features(num_items: int) -> str:
    """Return the trainer that the features of so many items get."""
    return "frozen-spreading" if num_items <= MOST_JOINED else "frozen-linear"


def side(quality: Quality, size: int | None) -> int:
    """Return the side of the images that a pretrained network sees; a size wins."""
    return QUALITIES[quality] if size is None else max(size, SMALL_SIDE)


def longest_side(files: Sequence[ImageFile]) -> int:
    """Return the longer side of a typical image in files, in pixels."""
    return int(median(max(file.height, file.width) for file in files))


def _over_encoder(quality: Quality, size: int | None) -> dict[str, Any]:
    """Return the options of a training over the pretrained network."""
    return {"encoder": ENCODER, "encoder_options": {"size": side(quality, size)}}


def expected_seconds(
    trainer: Choice, pool: Pool, cache: FeatureCache, clock: Clock = time.perf_counter
) -> float | None:
    """Return how many seconds a training will take here."""
    known = training.built_in(trainer.name, trainer.options)
    images, shape, num_classes = pool.images, pool.images.shape, pool.num_classes
    if known is None or len(shape) != _IMAGE_AXES:
        return None
    if known.num_steps is None:
        return _solving(images, num_classes, known, cache, clock)
    if known.inputs.has_features:
        return None
    wanted = (shape[0], shape[1], shape[2])
    return _stepping(images, wanted, num_classes, known, clock)


def _solving(
    images: Images,
    num_classes: int,
    known: Training,
    cache: FeatureCache,
    clock: Clock,
) -> float | None:
    """Return how long a training without steps takes, embedding included."""
    if not known.inputs.has_features:
        width = math.prod(images.shape)
        return _rehearsed(known, len(images), num_classes, width, clock)
    name = known.options["encoder"]
    if name == encoders.LEARNED or is_import_path(name):
        return None
    encoder = encoders.resolve(name, **known.options["encoder_options"])
    seconds = _rehearsed(known, len(images), num_classes, encoder.feature_size, clock)
    missing = num_missing(images, encoder, cache)
    if missing:
        seconds += _embedding(_some(images), missing, encoder, clock)
    return seconds


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


def _scratch(
    images: Images,
    num_classes: int,
    shares: Shares,
    why: str,
    clock: Clock,
    size: int | None = None,
) -> TrainingPlan:
    """Return the plan to train a network on the images themselves."""
    shape = _shape(images, size)
    is_known = shares != UNKNOWN_SHARES
    chosen = informed(Choice(name=ALIGNED if is_known else FROM_SCRATCH), shares)
    by = "FixMatch with DARP" if is_known else "FlexMatch"
    return TrainingPlan(
        trainer=chosen.name,
        options=chosen.options,
        shape=shape,
        seconds=_stepping(images, shape, num_classes, _made(chosen), clock),
        reason=f"{why}: a network is trained from scratch by {by}.",
    )


def _quick(
    images: Images,
    num_items: int,
    num_classes: int,
    shares: Shares,
    why: str,
    clock: Clock | None,
    over: Mapping[str, Any],
    size: int | None,
) -> TrainingPlan:
    """Return the plan without steps, over an encoder or pixels; no clock: not timed."""
    own = over.get("encoder_options", {})
    shape = _shape(images, own.get("size") if size is None else size)
    name = over_features(num_items) if over else "spreading"
    chosen = informed(Choice(name=name, options=dict(over)), shares)
    seconds, embedding = math.nan, dict[Quality, float]()
    if clock is not None:
        seconds, width = 0.0, math.prod(shape)
        if over:
            encoder = encoders.resolve(ENCODER, **own)
            seconds = _embedding(_some(images, shape), num_items, encoder, clock)
            width = encoder.feature_size
            embedding = _costs(images, num_items, clock) if size is None else {}
        seconds += _rehearsed(_made(chosen), num_items, num_classes, width, clock)
    is_linear = name == "frozen-linear"
    way = "a linear head is fitted to" if is_linear else "labels spread among similar"
    seen = f"features, computed once by {ENCODER} at {own['size']} " if over else ""
    return TrainingPlan(
        trainer=chosen.name,
        options=chosen.options,
        shape=shape,
        seconds=seconds,
        reason=f"{why}: {way} {seen}pixels.",
        embedding=embedding,
    )


def _costs(images: Images, num_items: int, clock: Clock) -> dict[Quality, float]:
    """Return how many seconds the features of all images take at each quality."""
    found: dict[Quality, float] = {}
    for quality, size in QUALITIES.items():
        some = _some(images, _shape(images, size))
        encoder = encoders.resolve(ENCODER, size=size)
        found[quality] = _embedding(some, num_items, encoder, clock)
    return found


def _embedding(some: Images, num_images: int, encoder: Encoder, clock: Clock) -> float:
    """Return how long it takes to embed many images like some."""
    every = torch.arange(len(some))
    encoder.embed(some.read(every))  # the first time is no measure
    begun = clock()
    encoder.embed(some.read(every))
    return (clock() - begun) / len(some) * num_images


def _made(chosen: Choice) -> Training:
    return training.make(chosen.name, **chosen.options)


def _rehearsed(
    known: Training, num_items: int, num_classes: int, width: int, clock: Clock
) -> float:
    """Return how long a training takes besides its steps, from a rehearsal."""
    begun = clock()
    factor = known.rehearse(num_items, num_classes, width)
    return (clock() - begun) * factor


def _stepping(
    images: Images,
    shape: tuple[int, int, int],
    num_classes: int,
    wanted: Training,
    clock: Clock,
) -> float:
    """Return how long a training from scratch takes, refinements included."""
    plain = replace(wanted, alignment=None)
    few = plain.changed(steps=_STEPS, checkpoint_every=1, devices=1)
    step = _timed(few, _probe(images, shape, num_classes), clock)
    besides = _rehearsed(wanted, len(images), num_classes, 0, clock)
    return (wanted.num_steps or 0) * step + besides


def _timed(trainer: Trainer, pool: Pool, clock: Clock) -> float:
    """Return seconds of a step: of the fastest, since other work is no measure."""
    times: list[float] = []

    def note(step: int, classifier: Classifier) -> None:
        del step, classifier
        times.append(clock())

    trainer.fit(pool, rng.stream(_SEED, "probe"), on_checkpoint=note)
    return min(later - earlier for earlier, later in pairwise(times))


def _probe(images: Images, shape: tuple[int, int, int], num_classes: int) -> Pool:
    """Return a few of the images as a pool, half of them with labels made up."""
    some = _some(images, shape)
    labels: Tensor = torch.arange(len(some)) % num_classes
    labels[len(labels) // 2 + 1 :] = UNKNOWN
    return Pool.build(some, labels, [str(number) for number in range(num_classes)])


def _some(images: Images, shape: tuple[int, int, int] | None = None) -> Images:
    """Return a few of the images, files brought to a shape if one is given."""
    chosen = torch.linspace(0, len(images) - 1, min(_PROBED, len(images))).long()
    if isinstance(images, FileImages) and shape is not None:
        files = tuple(images.files[index] for index in chosen.tolist())
        return FileImages(files, shape)
    return ChosenImages(images, chosen)


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
