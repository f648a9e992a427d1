"""What built-in strategies share: their base class, the request, scores and rows.

Shapes: n items asked about, C classes.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from fewlabels import models
from fewlabels.errors import Settings, UsageError
from fewlabels.gram import LinearKernel, euclidean_kernel
from fewlabels.pool import (
    WITHHELD,
    Images,
    MappedRows,
    Pool,
    Query,
    Record,
    Round,
    Rows,
    RowSource,
    slice_rows,
)
from fewlabels.progress import each
from fewlabels.protocols import Classifier, Outputs, OwnInputs
from fewlabels.search import check_size
from fewlabels.search.blocks import chunks

_CHUNK_ENTRIES = 2**18
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of ``select``, with what strategies often read from them."""

    classifier: Classifier
    pool: Pool
    size: int
    """How many candidates to choose; the pool has at least as many."""
    generator: Generator
    history: Sequence[Round] = ()

    def outputs(self, items: Tensor | None = None) -> Outputs:
        """Return features and logits of some items; None: of the whole pool."""
        asked = torch.arange(len(self.pool)) if items is None else items
        return self.classifier.outputs(self.pool.images, asked)

    def predictions(self, items: Tensor | None = None) -> Outputs:
        """Return outputs of some items, or of all, for at least two classes."""
        outputs = self.outputs(items)
        check_classes(outputs.logits)
        return outputs

    def candidates(self, max_pool: int) -> tuple[Tensor, Record]:
        """Return all candidates, or ``max_pool`` random ones if there are more.

        Returns:
            Indices, ascending, and a record of the sample, empty if all are returned.
        """
        candidates, limit = self.pool.candidates, max(max_pool, self.size)
        part = self.part_of(candidates, limit)
        return part, sample_record(len(part), len(candidates), max_pool)

    def part_of(self, items: Tensor, limit: int) -> Tensor:
        """Return all ``items``, or ``limit`` of them at random, ascending."""
        if len(items) <= limit:
            return items
        order = torch.randperm(len(items), generator=self.generator)
        return items[order[:limit]].sort().values

    def label_free_rows(
        self, outputs: Outputs, items: Tensor
    ) -> tuple[RowSource, float]:
        """Return rows for a graph of some items, and the value that means zero in them.

        These are the features, except for a classifier over a graph: its features
        depend on the labels, so the inputs of its network are returned, the same in all
        rounds.
        """
        classifier, images = self.classifier, self.pool.images
        if not isinstance(classifier.module, models.Neighbors):
            return outputs.features[:].numpy(), 0.0
        rows = network_inputs(classifier, images, items).flatten(start_dim=1)
        return rows.numpy(), float(classifier.module.origin)

    def sets(self, candidates: Tensor, labeled: Tensor | None = None) -> dict[str, Any]:
        """Return the arguments that searches share; by default with what is labeled."""
        known = self.pool.labeled if labeled is None else labeled
        chosen = {"size": self.size, "generator": self.generator}
        return {"labeled": known, "candidates": candidates, **chosen}

    def on_sphere(self, max_pool: int) -> tuple[Tensor, Record, Outputs, LinearKernel]:
        """Return candidates, and the kernel of their rows scaled to length one.

        Returns:
            Candidates and a record as of :meth:`candidates`; outputs and kernel of the
            candidates, followed by the labeled items.
        """
        candidates, record = self.candidates(max_pool)
        outputs = self.outputs(torch.cat([candidates, self.pool.labeled]))
        kernel = euclidean_kernel(outputs.features, normalize=True)
        return candidates, record, outputs, kernel


class BuiltIn(Settings, ABC):
    """A strategy of this package; others need no more than the method ``select``."""

    @abstractmethod
    def choose(self, request: Request) -> Query:
        """Choose ``request.size`` candidates."""

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
        check_size(size, len(pool.candidates))
        return self.choose(Request(classifier, pool, size, generator, history))


def check_classes(logits_nC: Tensor) -> None:
    """Raise unless predictions compare at least two classes."""
    if logits_nC.shape[-1] < 2:
        raise UsageError(f"There are {logits_nC.shape[-1]} logits; give one per class.")


def check_labels_given(pool: Pool) -> None:
    """Raise unless the class of every labeled item is known."""
    num_withheld = int((pool.labels == WITHHELD).sum())
    if num_withheld:
        raise UsageError(f"{num_withheld} labeled items have no class; pass labels.")


def margin(values_NC: Tensor) -> Tensor:
    """Largest value of each row less the second largest, shape (N,)."""
    largest = values_NC.topk(2, dim=1).values
    return largest[:, 0] - largest[:, 1]


def lead(logits_NC: Tensor) -> Tensor:
    """Lead of the most likely class over the second after softmax, shape (N,)."""
    return margin(logits_NC.softmax(dim=1))


def entropy(logits_NC: Tensor) -> Tensor:
    """Shannon entropy of each row's softmax in nats, shape (N,)."""
    logarithms = logits_NC.log_softmax(dim=1)
    return -(logarithms.exp() * logarithms).sum(dim=1)


def by_chunks(function: Callable[[Tensor], Tensor], rows: Rows) -> Tensor:
    """Return ``function`` of all rows, in double precision, a part at a time."""
    # Without rows, one empty part lets the function return a result of its own shape.
    parts = chunks(len(rows), rows.shape[1], _CHUNK_ENTRIES) or [slice(0)]
    return torch.cat(list(each(partial(_in_double, function), slice_rows(rows, parts))))


def _in_double(function: Callable[[Tensor], Tensor], rows: Rows) -> Tensor:
    return function(rows[:].to(torch.float64))


def network_inputs(classifier: Classifier, images: Images, items: Tensor) -> Tensor:
    """Return the inputs of a classifier's network for some items."""
    if isinstance(classifier, OwnInputs):
        return classifier.inputs(images, items)
    return models.as_input(images.read(items))


def unit_rows(rows: Rows) -> Rows:
    """Return the rows, each scaled to length one; zeros stay zeros.

    Rows of a file are scaled when they are read; others are copied.
    """
    if isinstance(rows, MappedRows):
        return replace(rows, is_unit=True)
    dtype = torch.promote_types(rows.dtype, torch.float32)
    scaled = torch.empty(rows.shape, dtype=dtype)
    for part in chunks(len(rows), rows.shape[1], _CHUNK_ENTRIES):
        scaled[part] = torch.nn.functional.normalize(rows[part].to(torch.float64))
    return scaled


def sample_record(num_seen: int, num_items: int, max_pool: int) -> Record:
    """Return a record of how many items were considered, if not all, and log it."""
    if num_seen == num_items:
        return {}
    _log.warning("%d of %d items are looked at (max_pool)", num_seen, num_items)
    counts = {"considered": num_seen, "out_of": num_items, "max_pool": max_pool}
    return {"subsample": counts}
