"""What strategies take from a pool and a classifier, checked in one place.

Shapes: n items asked about, C classes.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.errors import UsageError
from fewlabels.matrices import Rows
from fewlabels.pool import WITHHELD, Pool, Record
from fewlabels.protocols import Classifier
from fewlabels.search.blocks import chunks

_CHUNK_ENTRIES = 2**22
_log = logging.getLogger(__name__)


def logits_of(classifier: Classifier, pool: Pool, items: Tensor) -> Tensor:
    """Return the logits of ``items``, shape (n, C).

    Args:
        classifier: The classifier of this round.
        pool: The pool.
        items: Indices, shape (n,).

    Returns:
        Logits as the classifier gives them.
    """
    logits = classifier.outputs(pool.images, items).logits
    check_classes(logits)
    return logits


def check_classes(logits_nC: Tensor) -> None:
    """Raise unless predictions compare at least two classes."""
    if logits_nC.shape[-1] < 2:
        msg = (
            f"The strategy compares the classes of an item, and there are "
            f"{logits_nC.shape[-1]} logits per item; pass logits of shape (N, C) with "
            "at least two classes, or choose a strategy that needs features only."
        )
        raise UsageError(msg)


def margin(values_NC: Tensor) -> Tensor:
    """Largest value of each row less the second largest, shape (N,)."""
    largest = values_NC.topk(2, dim=1).values
    return largest[:, 0] - largest[:, 1]


def entropy(logits_NC: Tensor) -> Tensor:
    """Shannon entropy of each row's softmax in nats, shape (N,)."""
    logarithms = logits_NC.log_softmax(dim=1)
    return -(logarithms.exp() * logarithms).sum(dim=1)


def check_labels_given(pool: Pool) -> None:
    """Raise unless the class of every labeled item is known."""
    num_withheld = int((pool.labels == WITHHELD).sum())
    if num_withheld:
        msg = (
            f"The classes of {num_withheld} labeled items are not given, and the "
            "strategy looks at them; pass labels, one class number per labeled item, "
            "or choose a strategy that needs none."
        )
        raise UsageError(msg)


def are_right(classifier: Classifier, pool: Pool, items: Tensor) -> Tensor:
    """Return where the predicted class of labeled items is their label, shape (n,).

    Args:
        classifier: The classifier of this round.
        pool: The pool.
        items: Labeled indices, shape (n,).

    Returns:
        1 where it is, else 0; float64.
    """
    check_labels_given(pool)
    predicted = logits_of(classifier, pool, items).argmax(dim=1)
    return (predicted.cpu() == pool.labels[items]).to(torch.float64)


def by_chunks(function: Callable[[Tensor], Tensor], rows: Rows) -> Tensor:
    """Return ``function`` of all rows, in double precision, a part at a time.

    Args:
        function: Maps rows (n, width) to one number, or a few, each.
        rows: Shape (N, width), any floating type.

    Returns:
        One entry per row, float64.
    """
    # Of no rows the function makes an answer of its own shape.
    parts = chunks(len(rows), rows.shape[1], _CHUNK_ENTRIES) or [slice(0)]
    return torch.cat([function(rows[part].to(torch.float64)) for part in parts])


def unit_rows(rows: Rows) -> Tensor:
    """Return a copy of the rows, each scaled to length one; zeros stay zeros.

    Args:
        rows: Shape (N, F), any floating type.

    Returns:
        Shape (N, F), float64 where the rows are, else float32.
    """
    is_double = rows.dtype == torch.float64
    scaled = torch.empty(rows.shape, dtype=rows.dtype if is_double else torch.float32)
    for part in chunks(len(rows), rows.shape[1], _CHUNK_ENTRIES):
        scaled[part] = torch.nn.functional.normalize(rows[part].to(torch.float64))
    return scaled


def check_part(**limits: int) -> None:
    """Raise where a part of the pool that is to be looked at would be empty.

    Args:
        limits: Sizes of parts, by the names of the options that set them.

    Raises:
        UsageError: If one of them is below 1.
    """
    for name, limit in limits.items():
        if limit < 1:
            msg = (
                f"{name} is {limit}, and nothing would be looked at; give at least 1, "
                "or leave it out."
            )
            raise UsageError(msg)


@dataclass(frozen=True, eq=False)
class Considered:
    """The items that a strategy looks at, where it cannot look at all."""

    items: Tensor
    """Indices, ascending."""
    record: Record
    """What to write down; empty where nothing was left out."""


def considered(
    items: Tensor, max_pool: int, generator: Generator, *, at_least: int = 1
) -> Considered:
    """Return all ``items``, or a random part where there are more than ``max_pool``.

    Args:
        items: Indices, ascending.
        max_pool: How many can be looked at.
        generator: Draws the part.
        at_least: How many are needed, whatever ``max_pool`` says.

    Returns:
        The items, and a notice for the record of the query.
    """
    part = sampled(items, max(max_pool, at_least), generator)
    return Considered(part, notice(len(part), len(items), max_pool))


def notice(num_considered: int, num_items: int, max_pool: int) -> Record:
    """Return what to write down where only a part was looked at, and log it.

    Args:
        num_considered: How many items were looked at.
        num_items: Out of how many.
        max_pool: The option that says so.

    Returns:
        An entry for the record of the query; empty where nothing was left out.
    """
    if num_considered == num_items:
        return {}
    _log.warning("%d of %d items are looked at (max_pool)", num_considered, num_items)
    seen = {"considered": num_considered, "out_of": num_items, "max_pool": max_pool}
    return {"subsample": seen}


def sampled(items: Tensor, limit: int, generator: Generator) -> Tensor:
    """Return all ``items``, or ``limit`` of them at random, ascending.

    Args:
        items: Indices, ascending.
        limit: How many are enough.
        generator: Draws them where there are more.

    Returns:
        Indices, ascending.
    """
    if len(items) <= limit:
        return items
    order = torch.randperm(len(items), generator=generator)
    return items[order[:limit]].sort().values
