"""Which training fits the images and the machine, and how long it will take.

No table of machines: a few real steps are done on some of the images, and timed.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from fewlabels import rng, training
from fewlabels.data.derived import ChosenImages
from fewlabels.data.files import FileImages, common_shape
from fewlabels.errors import ShapeError, UsageError
from fewlabels.features import encoders
from fewlabels.pool import UNKNOWN, Images, Pool
from fewlabels.protocols import Classifier
from fewlabels.training import FixMatchDarpTrainer, darp

SMALL_SIDE = 32
"""Longest side, in pixels, of images that a network is trained on from scratch."""

ENCODED_SIDE = 96
"""Side of the square that larger images are brought to for the encoder."""

BEARABLE = 1800.0
"""Seconds of training from scratch past which a head over features is taken."""

FROM_SCRATCH = "fixmatch-darp"
OVER_FEATURES = "frozen-fixmatch-darp"
ENCODER = "efficientnet-lite0"

_IMAGE_AXES = 3
_PROBED = 32
_STEPS = 5
_ROWS = 5000
_SEED = 0

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to train, and what to expect of it."""

    trainer: str
    """Name of the trainer."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its options."""
    shape: tuple[int, int, int]
    """Channels, height and width that images are brought to."""
    seconds: float
    """Expected time of one training; later ones find features made already."""
    reason: str
    """Why this and nothing else, in a sentence."""

    def __str__(self) -> str:
        """Say what will be done, why and how long it will take."""
        return f"{self.reason} Expected time: {duration(self.seconds)}."


def plan(
    images: Images,
    num_classes: int,
    *,
    bearable: float = BEARABLE,
    clock: Clock = time.perf_counter,
) -> Plan:
    """Choose a trainer for some images on this machine, and foretell its time.

    Images of at most 32 pixels a side are trained on from scratch, by FixMatch with
    DARP, unless that would take longer than is bearable here. Larger ones are embedded
    once by a pretrained network, and a head over its features is trained by FixMatch
    with DARP. Where the extra ``pretrained`` is not installed, larger images are
    brought to 32 pixels and trained on from scratch. Timing takes some seconds.

    Args:
        images: All images of the pool. Of files the native sizes count, whatever size
            they are brought to now.
        num_classes: Number of classes.
        bearable: Seconds of training from scratch that are put up with.
        clock: What tells the time.

    Returns:
        The plan.

    Raises:
        ShapeError: If the items are vectors, not images.
    """
    if len(images.shape) != _IMAGE_AXES or not len(images):
        msg = (
            f"There are {len(images)} items of shape {images.shape}; a plan is made "
            "for images of shape (channels, height, width)."
        )
        raise ShapeError(msg)
    side = _longest_side(images)
    seen = f"The images measure {side} pixels a side"
    missing = _missing_encoder()
    if side <= SMALL_SIDE:
        small = _scratch(images, num_classes, f"{seen}, at most {SMALL_SIDE}", clock)
        if small.seconds <= bearable or missing:
            return small
        slow = f"a network from scratch would take {duration(small.seconds)} here"
        frozen = _frozen(images, num_classes, f"{seen}, but {slow}", clock)
        return frozen if frozen.seconds < small.seconds else small
    if missing:
        why = f"{seen} and are brought to {SMALL_SIDE}. {missing} Until then"
        return _scratch(images, num_classes, why, clock, size=SMALL_SIDE)
    return _frozen(images, num_classes, f"{seen}, more than {SMALL_SIDE}", clock)


def duration(seconds: float) -> str:
    """Say a time as people do.

    Example:
        >>> duration(0.2), duration(61), duration(7000)
        ('a second', 'about 1 minute', 'about 1.9 hours')

    Args:
        seconds: How long.

    Returns:
        A few words.
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
    images: Images, num_classes: int, why: str, clock: Clock, size: int | None = None
) -> Plan:
    """Return the plan to train a network on the images themselves."""
    shape = _shape(images, size)
    darp_trainer = training.resolve(FROM_SCRATCH)
    assert isinstance(darp_trainer, FixMatchDarpTrainer)
    trainer = training.resolve("fixmatch", {"steps": _STEPS, "checkpoint_every": 1})
    _, step = _timed(trainer, _probe(images, shape, num_classes), clock)
    seconds = darp_trainer.steps * step
    seconds += _refining(darp_trainer, len(images), num_classes, clock)
    return Plan(
        trainer=FROM_SCRATCH,
        shape=shape,
        seconds=seconds,
        reason=f"{why}: a network is trained from scratch by FixMatch with DARP.",
    )


def _frozen(images: Images, num_classes: int, why: str, clock: Clock) -> Plan:
    """Return the plan to train a head over features that are made once."""
    shape = _shape(images, ENCODED_SIDE)
    options = {"encoder": ENCODER}
    darp_trainer = training.resolve(OVER_FEATURES, options)
    assert isinstance(darp_trainer, FixMatchDarpTrainer)
    pool = _probe(images, shape, num_classes)
    begun = clock()
    encoders.resolve(ENCODER)
    loading = clock() - begun
    _over_features(pool, clock)  # the first time is no measure
    embedding, step = _over_features(pool, clock)
    per_image = max(embedding - loading, 0.0) / len(pool)
    seconds = per_image * len(images) + darp_trainer.steps * step
    seconds += _refining(darp_trainer, len(images), num_classes, clock)
    return Plan(
        trainer=OVER_FEATURES,
        options=options,
        shape=shape,
        seconds=seconds,
        reason=f"{why}: a head over features of the pretrained network {ENCODER} is "
        "trained by FixMatch with DARP; the features are made once and kept.",
    )


def _over_features(pool: Pool, clock: Clock) -> tuple[float, float]:
    """Embed all views of a pool and do a few steps over them; see :func:`_timed`."""
    with TemporaryDirectory() as folder:
        changes = {"steps": _STEPS, "checkpoint_every": 1, "cache": folder}
        trainer = training.resolve("frozen-fixmatch", {"encoder": ENCODER} | changes)
        return _timed(trainer, pool, clock)


def _timed(trainer: Any, pool: Pool, clock: Clock) -> tuple[float, float]:
    """Return seconds until the first step was done, and seconds of a later step."""
    times: list[float] = []

    def note(step: int, classifier: Classifier) -> None:
        del step, classifier
        times.append(clock())

    begun = clock()
    trainer.fit(pool, rng.stream(_SEED, "probe"), on_checkpoint=note)
    steps = [later - earlier for earlier, later in pairwise(times)]
    return times[0] - begun, median(steps)


def _refining(
    trainer: FixMatchDarpTrainer, num_items: int, num_classes: int, clock: Clock
) -> float:
    """Return how long all refinements of a training take together."""
    rows = min(num_items, _ROWS)
    draws = rng.stream(_SEED, "probe of refinement")
    logits = torch.randn(rows, num_classes, generator=draws)
    begun = clock()
    darp.solve(
        torch.softmax(logits, dim=1),
        darp.targets.uniform(rows, num_classes),
        capacity=None,
    )
    often = math.ceil(trainer.steps * (1 - trainer.warmup) / trainer.refine_every)
    return (clock() - begun) * num_items / rows * often


def _probe(images: Images, shape: tuple[int, int, int], num_classes: int) -> Pool:
    """Return a few of the images as a pool, half of them with labels made up."""
    chosen = torch.linspace(0, len(images) - 1, min(_PROBED, len(images))).long()
    some: Images = ChosenImages(images, chosen)
    if isinstance(images, FileImages):
        files = tuple(images.files[index] for index in chosen.tolist())
        some = FileImages(files, shape)
    labels: Tensor = torch.arange(len(chosen)) % num_classes
    labels[len(labels) // 2 + 1 :] = UNKNOWN
    return Pool.build(some, labels, [str(number) for number in range(num_classes)])


def _longest_side(images: Images) -> int:
    """Return the longer side of a typical image, in pixels."""
    if isinstance(images, FileImages):
        return int(median(max(file.height, file.width) for file in images.files))
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
