"""Arrays in, indices out: every strategy for people who bring their own embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from fewlabels.errors import (
    LabelError,
    NotFiniteError,
    ShapeError,
    UsageError,
    check_count,
    whole_number,
)
from fewlabels.models.classifiers import PrecomputedClassifier
from fewlabels.pool import (
    UNKNOWN,
    WITHHELD,
    ArrayImages,
    Pool,
    Query,
    Rows,
    as_rows,
    check_query,
    row_chunks,
)
from fewlabels.protocols import Classifier, Strategy
from fewlabels.rng import stream
from fewlabels.search import check_size
from fewlabels.search.inputs import as_array, indices
from fewlabels.strategies import resolve

_MOST_CLASSES = 1_000_000
_NEARLY = 1e-3
_LARGEST = 1e60  # its fourth power, a product of two kernel values, is finite


def select(
    strategy: str | Strategy,
    *,
    features: ArrayLike,
    logits: ArrayLike | None = None,
    labeled: ArrayLike = (),
    labels: ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    size: int,
    seed: int | Generator,
    options: Mapping[str, Any] | None = None,
) -> NDArray[np.int64]:
    """Choose which items to label next.

    Args:
        strategy: A built-in name, ``"package.module:Name"``, or an object.
        features: One row per item, shape (N, F): any framework's embeddings, sparse
            ones included; a memory map is read in place. For strategies that need
            logits only, a column of zeros will do.
        logits: Classifier outputs before softmax, shape (N, C); or (K, N, C) for
            methods that want K sampled classifiers. Not needed by strategies that
            look at features only.
        labeled: Positions in the pool that are labeled already, or a mask with one
            truth value per item; may be empty.
        labels: Class numbers of ``labeled``, for methods that want them.
        candidates: Positions to choose from, or a mask; all that is not labeled by
            default.
        size: How many items to choose.
        seed: A number, or a generator to draw from.
        options: Options of the strategy, where it is given by name.

    Returns:
        ``size`` distinct candidates.

    Example:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(50, 8))
        >>> chosen = select("npc", features=rows, labeled=[0, 1], size=3, seed=0)
        >>> len(set(chosen.tolist()) - {0, 1})
        3
    """
    chooser = resolve(strategy, options)
    rows = _finite_rows("features", features, ndims=(2,))
    if not rows.shape[1]:
        raise ShapeError(f"features has shape {tuple(rows.shape)}; give columns.")
    pool, classifier = precomputed(rows, logits, labeled, labels, candidates)
    draws = seed if isinstance(seed, Generator) else stream(seed, "query")
    return checked_query(chooser, classifier, pool, size, draws).indices.numpy()


def checked_query(
    chooser: Strategy, classifier: Classifier, pool: Pool, size: int, draws: Generator
) -> Query:
    """Return what a strategy chooses, checked."""
    size = whole_number("size", size)
    check_size(size, len(pool.candidates))
    query = chooser.select(classifier, pool, size, draws)
    check_query(query, pool, size)
    return query


def precomputed(
    rows: Rows,
    logits: ArrayLike | None,
    labeled: ArrayLike,
    labels: ArrayLike | None,
    candidates: ArrayLike | None = None,
) -> tuple[Pool, PrecomputedClassifier]:
    """Check what belongs to some rows; return the pool and classifier they describe."""
    samples, mean_logits = _split_samples(logits, len(rows))
    known = indices("labeled", labeled, len(rows))
    pool_labels = torch.full((len(rows),), UNKNOWN, dtype=torch.int64)
    num_logits = mean_logits.shape[1]
    pool_labels[known] = _class_numbers(labels, known, num_logits)
    largest = int(pool_labels.max()) if len(rows) else UNKNOWN
    num_classes = max(num_logits, largest + 1, 1)
    asked = torch.nonzero(pool_labels == UNKNOWN).flatten()
    if candidates is not None:
        asked = indices("candidates", candidates, len(rows)).sort().values
    pool = Pool(
        images=ArrayImages(rows),
        ids=_Positions(len(rows)),
        labels=pool_labels,
        classes=tuple(map(str, range(num_classes))),
        candidates=asked,
        are_distinct=True,
    )
    return pool, PrecomputedClassifier(rows, mean_logits, samples)


@dataclass(frozen=True)
class _Positions(Sequence[str]):
    """Names of items that have none of their own: "0", "1" and so on."""

    num_items: int

    def __len__(self) -> int:
        """Return the number of items."""
        return self.num_items

    def __getitem__(self, index: Any) -> Any:
        """Return the name of an item, or the names of a slice."""
        chosen = range(self.num_items)[index]
        return str(chosen) if isinstance(chosen, int) else tuple(map(str, chosen))


def _split_samples(
    logits: ArrayLike | None, num_items: int
) -> tuple[Tensor | None, Tensor]:
    """Return sampled logits (K, N, C), if any, and one row of logits per item."""
    if logits is None:
        return None, torch.empty(num_items, 0)
    given = _finite_rows("logits", logits, ndims=(2, 3))
    given = given if isinstance(given, Tensor) else given[:]
    if given.ndim == 3 and not len(given):
        raise ShapeError(
            f"logits has shape {tuple(given.shape)}; give (N, C), or K > 0 of these."
        )
    check_count("logits", given.shape[-2], num_items, "row of features")
    has_shares = given.shape[-1] > 1 and given.numel() and float(given.min()) >= 0
    if has_shares and bool(((given.sum(dim=-1) - 1).abs() < _NEARLY).all()):
        raise UsageError(
            "logits holds probabilities; pass outputs before softmax, or logarithms."
        )
    if given.ndim == 2:
        return None, given
    mean_probabilities = given.softmax(dim=-1).mean(dim=0)
    return given, mean_probabilities.clamp_min(torch.finfo(given.dtype).tiny).log()


def _class_numbers(
    labels: ArrayLike | None, labeled: Tensor, num_logits: int
) -> Tensor:
    """Return the class numbers of ``labeled``; ``WITHHELD`` where none are given."""
    if labels is None:
        return torch.full_like(labeled, WITHHELD)
    given = as_array("labels", labels)
    if given.shape != tuple(labeled.shape):
        raise ShapeError(
            f"labels has shape {given.shape}; give one for each of {len(labeled)}."
        )
    if given.dtype.kind not in "biuf":
        raise LabelError(f"labels is of type {given.dtype}; give numbers from 0 on.")
    num_classes = num_logits or _MOST_CLASSES
    is_class = (given >= 0) & (given < num_classes) & (given == np.floor(given))
    wrong = np.flatnonzero(~is_class)
    if wrong.size:
        raise LabelError(
            f"{wrong.size} labels are not whole numbers from 0 to {num_classes - 1}, "
            f"the first is {given[wrong[0]]} at position {wrong[0]}; leave them out."
        )
    return torch.from_numpy(given.astype(np.int64))


def _finite_rows(name: str, values: ArrayLike, ndims: Sequence[int]) -> Rows:
    """Return ``values`` in floating point, checked, and copied only if need be."""
    numbers = as_array(name, values)
    if numbers.dtype.kind not in "biuf":
        raise ShapeError(f"{name} is of type {numbers.dtype}; pass numbers.")
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        given = as_rows(numbers)
    if isinstance(given, Tensor) and given.dtype == torch.float16:
        given = given.float()
    if given.ndim not in ndims:
        axes = " or ".join(map(str, ndims))
        raise ShapeError(f"{name} has shape {tuple(given.shape)}; give {axes} axes.")
    start = 0
    for piece in row_chunks(given):
        is_wrong = ~piece.isfinite() | (piece.abs() > _LARGEST)
        if bool(is_wrong.any()):
            row, *rest = torch.nonzero(is_wrong)[0].tolist()
            value, place = float(piece[row, *rest]), (start + row, *rest)
            raise NotFiniteError(
                f"{name} holds {value:.3g} at {place}; leave such items out, and scale "
                f"all others to {_LARGEST:g}."
            )
        start += len(piece)
    return given
