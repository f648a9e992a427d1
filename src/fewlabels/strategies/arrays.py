"""Arrays in, indices out: every strategy for people who bring their own embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from fewlabels.errors import NotFiniteError, ShapeError, UsageError
from fewlabels.features import PrecomputedClassifier
from fewlabels.pool import (
    UNKNOWN,
    WITHHELD,
    ArrayImages,
    Pool,
    check_indices,
    check_query,
)
from fewlabels.protocols import Strategy
from fewlabels.rng import stream
from fewlabels.search import check_size
from fewlabels.strategies import resolve


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
        features: One row per item, shape (N, F): any framework's embeddings.
        logits: Classifier outputs before softmax, shape (N, C); or (K, N, C) for
            methods that want K sampled classifiers. Not needed by strategies that
            look at features only.
        labeled: Positions in the pool that are labeled already; may be empty.
        labels: Class numbers of ``labeled``, for methods that want them.
        candidates: Positions to choose from; all that is not labeled by default.
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
    pool, classifier = _precomputed(features, logits, labeled, labels, candidates)
    check_size(size, len(pool.candidates))
    generator = seed if isinstance(seed, Generator) else stream(seed, "query")
    query = chooser.select(classifier, pool, size, generator)
    check_query(query, pool, size)
    return query.indices.numpy()


def _precomputed(
    features: ArrayLike,
    logits: ArrayLike | None,
    labeled: ArrayLike,
    labels: ArrayLike | None,
    candidates: ArrayLike | None,
) -> tuple[Pool, PrecomputedClassifier]:
    """Check the arrays and return them as the pool and classifier they describe."""
    rows = _finite("features", features, ndims=(2,))
    samples, mean_logits = _split_samples(logits, len(rows))
    known = _indices("labeled", labeled, len(rows))
    pool_labels = torch.full((len(rows),), UNKNOWN, dtype=torch.int64)
    pool_labels[known] = _given_labels(labels, known)
    largest = int(pool_labels.max()) if len(rows) else UNKNOWN
    num_classes = max(mean_logits.shape[1], largest + 1, 1)
    asked = (
        torch.nonzero(pool_labels == UNKNOWN).flatten()
        if candidates is None
        else _indices("candidates", candidates, len(rows)).sort().values
    )
    pool = Pool(
        images=ArrayImages(rows),
        ids=tuple(map(str, range(len(rows)))),
        labels=pool_labels,
        classes=tuple(map(str, range(num_classes))),
        candidates=asked,
    )
    return pool, PrecomputedClassifier(rows, mean_logits, samples)


def _split_samples(
    logits: ArrayLike | None, num_items: int
) -> tuple[Tensor | None, Tensor]:
    """Return sampled logits (K, N, C), if any, and one row of logits per item."""
    if logits is None:
        return None, torch.empty(num_items, 0)
    given = _finite("logits", logits, ndims=(2, 3))
    if given.shape[-2] != num_items:
        msg = (
            f"features have {num_items} rows and logits {given.shape[-2]}; both need "
            "one row per item of the pool."
        )
        raise ShapeError(msg)
    if given.ndim == 2:
        return None, given
    mean_probabilities = given.softmax(dim=-1).mean(dim=0)
    return given, mean_probabilities.clamp_min(torch.finfo(given.dtype).tiny).log()


def _given_labels(labels: ArrayLike | None, labeled: Tensor) -> Tensor:
    if labels is None:
        return torch.full_like(labeled, WITHHELD)
    given = torch.from_numpy(_numeric("labels", labels).astype(np.int64))
    if given.shape != labeled.shape:
        msg = (
            f"labeled names {len(labeled)} items and labels has shape "
            f"{tuple(given.shape)}; give one class number per labeled item."
        )
        raise ShapeError(msg)
    return given


def _indices(name: str, positions: ArrayLike, num_items: int) -> Tensor:
    given = np.asarray(positions)
    if given.size == 0:
        return torch.empty(0, dtype=torch.int64)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        msg = (
            f"{name} has shape {given.shape} and type {given.dtype}; give positions in "
            "the pool as a flat list of whole numbers."
        )
        raise UsageError(msg)
    indices = torch.from_numpy(given.astype(np.int64))
    check_indices(indices, num_items, name)
    return indices


def _finite(name: str, values: ArrayLike, ndims: Sequence[int]) -> Tensor:
    """Return ``values`` in floating point, checked, and copied only if need be."""
    if not isinstance(values, Tensor):
        values = torch.from_numpy(_numeric(name, values))
    given = values.detach().cpu()
    given = given if given.is_floating_point() else given.to(torch.float64)
    if given.ndim not in ndims:
        wanted = " or ".join(map(str, ndims))
        msg = f"{name} has shape {tuple(given.shape)}; {wanted} axes are needed."
        raise ShapeError(msg)
    wrong = torch.nonzero(~torch.isfinite(given))
    if len(wrong):
        msg = (
            f"{name} holds {len(wrong)} numbers that are NaN or infinite, the first at "
            f"position {tuple(wrong[0].tolist())}; distances to them mean nothing. "
            "Leave those items out or mend what computed them."
        )
        raise NotFiniteError(msg)
    return given


def _numeric(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_):
        msg = (
            f"{name} is of type {array.dtype} where numbers are needed; pass floats or "
            "whole numbers."
        )
        raise ShapeError(msg)
    return array if array.flags.writeable else array.copy()
