"""The interfaces between the packages.

A user's own kernel, classifier, strategy, trainer or oracle is any object with these
methods; there is nothing to inherit from and nothing to register.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from fewlabels.errors import check_finite_rows
from fewlabels.pool import (
    Answers,
    Images,
    MappedRows,
    Pool,
    Query,
    Round,
    Rows,
    row_chunks,
)

if TYPE_CHECKING:
    from fewlabels.names import Identity


class Kernel(Protocol):
    """A positive semi-definite function of pairs of items."""

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""

    @property
    def rank_bound(self) -> int | None:
        """Largest rank a Gram matrix can have; None: full rank for distinct items."""

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index; shape of ``items``, float64."""

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j): shapes (..., r) and (..., c) give (..., r, c), float64."""


class InnerProduct(NamedTuple):
    """k(i, j) = scales[i] scales[j] (features[i] . features[j] + offset)."""

    features: NDArray[np.floating] | MappedRows
    """Shape (N, F), float32 or float64; possibly rows of a file."""
    scales: NDArray[np.float64]
    """Shape (N,)."""
    offset: float

    def of(self, items: Tensor) -> "InnerProduct":
        """Return the form of some items, by their places, with rows in memory."""
        file, places = self.features, items.numpy()
        rows = file[items].numpy() if isinstance(file, MappedRows) else file[places]
        return InnerProduct(rows, self.scales[places], self.offset)


@runtime_checkable
class Factored(Protocol):
    """A kernel that may have a form compiled code can work on."""

    def inner_product(self) -> InnerProduct | None:
        """Return the form; None where the rows are not in this machine's memory."""


@runtime_checkable
class Divisible(Protocol):
    """A kernel that keeps numbers of all items in memory, and can leave most out."""

    def part(self, items: Tensor) -> Kernel:
        """Return the kernel of some items alone, which are numbered from 0 on."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """Features and logits of some items; all are finite."""

    features: Rows
    """Input of the last layer, shape (n, F); in memory, or rows of a file."""
    logits: Tensor
    """Output before softmax, shape (n, C)."""

    def __post_init__(self) -> None:
        """Refuse NaN and infinity, from which anything could be chosen or counted."""
        check_finite("features", self.features)
        check_finite("logits", self.logits)


def check_finite(name: str, outputs: Rows) -> None:
    """Raise unless all outputs of a classifier are finite.

    Args:
        name: What they are, for the message.
        outputs: One row per item asked about, shape (..., n, width).
    """
    # The sum is made without a copy, and always finite where all is well.
    if all(bool(piece.sum().isfinite()) for piece in row_chunks(outputs)):
        return
    is_lost = torch.cat(
        [~piece.isfinite().all(dim=-1) for piece in row_chunks(outputs)]
    )
    lost = is_lost.reshape(-1, is_lost.shape[-1]).any(dim=0).nonzero().flatten()
    advice = "train again with a lower learning rate"
    check_finite_rows(f"{name} of items", lost, is_lost.shape[-1], advice)


class Classifier(Protocol):
    """A trained model that gives features and logits of items."""

    @property
    def num_classes(self) -> int:
        """Number of classes."""

    @property
    def module(self) -> nn.Module | None:
        """The network; None where only its outputs are known."""

    def outputs(self, images: Images, indices: Tensor) -> Outputs:
        """Return features and logits of the items, in evaluation mode, streamed."""

    def sample_logits(
        self, images: Images, indices: Tensor, num_samples: int, generator: Generator
    ) -> Tensor:
        """Return logits of ``num_samples`` sampled networks, (K, n, C).

        One sampled network is the same for all items, so that joint predictions mean
        something.
        """


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode inside the block and restore it after."""
    was_training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in was_training.items():
            part.training = mode


@runtime_checkable
class OwnInputs(Protocol):
    """A classifier whose module takes other inputs than images as floats in [-1, 1]."""

    def inputs(self, images: Images, indices: Tensor) -> Tensor:
        """Return what the module maps to the logits of the items at ``indices``."""


class Strategy(Protocol):
    """Chooses what to ask next. It keeps no state: memory travels in the record.

    Two attributes are read where a strategy has them. ``max_pool``: how many items it
    can look at; of a larger pool it looks at a random part and says so in the record.
    ``ignores_order = True``: a promise that a permuted pool gives the permuted answer
    while scores differ and all of the pool is looked at.
    """

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` distinct candidates of the pool.

        Args:
            classifier: The classifier of this round.
            pool: What is labeled and what may be asked.
            size: How many items to choose; at most the number of candidates.
            generator: The only source of randomness.
            history: The rounds so far, with the records of earlier queries.

        Returns:
            The chosen indices, their value and a record.
        """


def ignore(step: int, classifier: Classifier) -> None:
    """Do nothing with a checkpoint."""
    del step, classifier


@runtime_checkable
class Trainer(Protocol):
    """Makes a classifier from a pool.

    Of a trainer from outside ``fit`` is enough: :func:`fewlabels.training.resolve`
    answers the rest for it.
    """

    @property
    def identity(self) -> "Identity":
        """What decides the outcome; equal for trainers that do the same."""

    @property
    def num_steps(self) -> int | None:
        """How many optimizer steps a training takes; None: none, or nobody knows."""

    def check(self, pool: Pool) -> None:
        """Raise if it cannot train on a pool; quick, so ask early."""

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train from scratch.

        Args:
            pool: Labeled and unlabeled images. Without any label, the untrained network
                comes back.
            generator: The only source of randomness.
            workspace: A folder that belongs to this fit alone. A trainer that finds its
                own finished or half-finished work there goes on from it.
            on_checkpoint: Called with the step and the classifier as training goes on,
                before any state past that step is saved: a training that is taken up
                again calls with later steps only.

        Returns:
            The trained classifier.
        """


class Oracle(Protocol):
    """Knows labels: a table, a person, several persons."""

    def answer(self, query: Query) -> Answers:
        """Answer a query, wholly or in part."""
