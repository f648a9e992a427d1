"""Uncertainty of single items: a score per item, then the largest ones.

The classic three (Lewis and Gale, 1994; Settles, 2009). They look at each item alone,
so near copies of one uncertain item are all asked about.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fewlabels.pool import Query
from fewlabels.search import top
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks, entropy, margin

Scale = Literal["probabilities", "logits"]
"""Where confidence is read: after softmax, or before it as the NPC paper writes it."""


@dataclass(frozen=True)
class _Uncertainty(BuiltIn):
    """Choose the candidates with the largest scores."""

    ignores_order: ClassVar[bool] = True

    @abstractmethod
    def scores(self, logits_NC: Tensor) -> Tensor:
        """Return how uncertain each prediction is, shape (N,)."""

    def choose(self, request: Request) -> Query:
        """Choose the most uncertain candidates."""
        candidates = request.pool.candidates
        scores = by_chunks(self.scores, request.predictions(candidates).logits)
        indices = top(scores, candidates, request.size, request.generator)
        return Query(indices, record={"mean_score": float(scores.mean())})


@dataclass(frozen=True)
class _Confidence(_Uncertainty):
    """Uncertainty that is read from the values of the most likely classes."""

    on: Scale = "probabilities"

    def scaled(self, logits_NC: Tensor) -> Tensor:
        """Return the values that confidence is read from."""
        return logits_NC.softmax(dim=1) if self.on == "probabilities" else logits_NC


@dataclass(frozen=True)
class Margin(_Confidence):
    """Smallest lead of the most likely class over the second (NPC paper, Sec. 2.2)."""

    def scores(self, logits_NC: Tensor) -> Tensor:
        """Return minus the lead of the most likely class, shape (N,)."""
        return -margin(self.scaled(logits_NC))


@dataclass(frozen=True)
class LeastConfidence(_Confidence):
    """Least value of the most likely class (one arm of ALBL in the NPC paper)."""

    def scores(self, logits_NC: Tensor) -> Tensor:
        """Return minus the value of the most likely class, shape (N,)."""
        return -self.scaled(logits_NC).amax(dim=1)


@dataclass(frozen=True)
class Entropy(_Uncertainty):
    """Largest entropy of the predicted probabilities (NPC paper, Sec. 2.2)."""

    def scores(self, logits_NC: Tensor) -> Tensor:
        """Return the entropy of each prediction, shape (N,)."""
        return entropy(logits_NC)
