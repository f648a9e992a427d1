"""Uncertainty of single items: a score per item, then the largest ones.

The classic three (Lewis and Gale, 1994; Settles, 2009). They look at each item alone,
so near copies of one uncertain item are all asked about.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from torch import Generator, Tensor

from fewlabels.errors import UnknownNameError
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import top
from fewlabels.strategies.inputs import by_chunks, entropy, logits_of, margin

Scale = Literal["probabilities", "logits"]
"""Where confidence is read: after softmax, or before it as the NPC paper writes it."""


@dataclass(frozen=True)
class Margin:
    """Smallest lead of the most likely class over the second (NPC paper, Sec. 2.2)."""

    ignores_order: ClassVar[bool] = True
    on: Scale = "probabilities"

    def __post_init__(self) -> None:
        """Refuse a scale that does not exist."""
        _check_scale(self.on)

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        del history
        score = partial(_small_margin, self.on)
        return _most_uncertain(score, classifier, pool, size, generator)


@dataclass(frozen=True)
class LeastConfidence:
    """Least value of the most likely class (one arm of ALBL in the NPC paper)."""

    ignores_order: ClassVar[bool] = True
    on: Scale = "probabilities"

    def __post_init__(self) -> None:
        """Refuse a scale that does not exist."""
        _check_scale(self.on)

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        del history
        score = partial(_small_maximum, self.on)
        return _most_uncertain(score, classifier, pool, size, generator)


@dataclass(frozen=True)
class Entropy:
    """Largest entropy of the predicted probabilities (NPC paper, Sec. 2.2)."""

    ignores_order: ClassVar[bool] = True

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        del history
        return _most_uncertain(entropy, classifier, pool, size, generator)


def _probabilities(logits_NC: Tensor) -> Tensor:
    return logits_NC.softmax(dim=1)


def _unchanged(logits_NC: Tensor) -> Tensor:
    return logits_NC


_SCALES: dict[Scale, Callable[[Tensor], Tensor]] = {
    "probabilities": _probabilities,
    "logits": _unchanged,
}


def _small_margin(on: Scale, logits_NC: Tensor) -> Tensor:
    return -margin(_SCALES[on](logits_NC))


def _small_maximum(on: Scale, logits_NC: Tensor) -> Tensor:
    return -_SCALES[on](logits_NC).amax(dim=1)


def _check_scale(on: str) -> None:
    if on not in _SCALES:
        raise UnknownNameError("scale", on, _SCALES)


def _most_uncertain(
    score: Callable[[Tensor], Tensor],
    classifier: Classifier,
    pool: Pool,
    size: int,
    generator: Generator,
) -> Query:
    """Choose the candidates with the largest score of their logits."""
    scores = by_chunks(score, logits_of(classifier, pool, pool.candidates))
    indices = top(scores, pool.candidates, size, generator)
    return Query(indices, record={"mean_score": float(scores.mean())})
