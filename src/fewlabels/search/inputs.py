"""What a search is given, in any library's form, as the tensors that it works on."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fewlabels.errors import (
    BudgetError,
    NotFiniteError,
    ShapeError,
    UsageError,
    whole_number,
)
from fewlabels.pool import check_indices, to_numpy
from fewlabels.protocols import Kernel
from fewlabels.search.blocks import threads_for

_NUM_PROBED = 32
_NEGATIVE = 1e-5  # of the largest eigenvalue; rounding of single precision is below


def known_sets(
    kernel: Kernel, labeled: ArrayLike, candidates: ArrayLike, size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return what is labeled and what may be chosen, checked with the kernel.

    Both may be masks; they come back as distinct indices, none in both. If a size is
    given, there are that many candidates.
    """
    with threads_for(0):
        known = indices("labeled", labeled, kernel.num_items)
        free = indices("candidates", candidates, kernel.num_items)
        both = int(torch.isin(free, known).sum())
        if both:
            raise UsageError(
                f"{both} candidates are labeled already; take them out of one of the "
                "two."
            )
        if len(free):
            step = -(-len(free) // _NUM_PROBED)
            least_eigenvalue(kernel, torch.cat([known[:_NUM_PROBED], free[::step]]))
    if size is not None:
        check_size(size, len(free))
    return known, free


def check_size(size: int, num_candidates: int) -> None:
    """Raise :class:`BudgetError` unless that many candidates can be chosen."""
    if not 1 <= whole_number("size", size) <= num_candidates:
        advice = f"choose a size from 1 to {num_candidates}"
        raise BudgetError(
            f"{size} items are asked for, and there are {num_candidates} candidates; "
            f"{advice if num_candidates else 'nothing is left to choose'}."
        )


def least_eigenvalue(kernel: Kernel, items: Tensor) -> float:
    """Return the smallest eigenvalue of a Gram matrix; a negative one is refused."""
    gram = kernel.block(items, items)
    num_wrong = int((~torch.isfinite(gram)).sum())
    if num_wrong:
        raise NotFiniteError(
            f"The kernel is NaN or infinite for {num_wrong} of {gram.numel()} pairs of "
            "items; mend the kernel, or what it is computed from."
        )
    spectrum = torch.linalg.eigvalsh((gram + gram.mT) / 2)
    low, high = float(spectrum[0]), float(spectrum.abs().max())
    if low < -_NEGATIVE * high:
        raise UsageError(
            f"The kernel is not positive semi-definite: {len(items)} items have the "
            f"eigenvalue {low:.3g}. Give an inner product of some features."
        )
    return low


def indices(name: str, positions: ArrayLike, num_items: int) -> Tensor:
    """Return positions, or where a mask is true, as distinct indices, shape (n,)."""
    given = array(name, positions)
    if given.size == 0:
        return torch.empty(0, dtype=torch.int64)
    if given.ndim == 1 and given.dtype.kind == "b":
        if len(given) != num_items:
            raise UsageError(
                f"{name} is a mask of {len(given)} truth values, and the pool has "
                f"{num_items} items; give one truth value per item, or positions."
            )
        return torch.from_numpy(np.flatnonzero(given))
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise UsageError(
            f"{name} has shape {given.shape} and type {given.dtype}; give positions as "
            "a flat list of whole numbers, or a mask of the pool."
        )
    places = torch.from_numpy(given.astype(np.int64))
    check_indices(places, num_items, name)
    return places


def array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return ``values`` of any library as an array in which nothing is masked.

    Values that a nullable column lacks are NaN.
    """
    if isinstance(values, Tensor):
        return to_numpy(values)
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise ShapeError(
            f"{name} is a masked array, {values.mask.sum()} of its {values.size} "
            "entries masked; leave those items out, or fill them."
        )
    from scipy.sparse import issparse

    try:
        if issparse(values):
            return np.asarray(values.toarray())  # type: ignore[union-attr]  # it is
        given = np.asarray(values)
        return _without_objects(values, given) if given.dtype == object else given
    except MemoryError as error:
        raise ShapeError(
            f"{name} of shape {np.shape(values)} does not fit into memory as a full "
            "array; reduce it first, as by sklearn's TruncatedSVD."
        ) from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"{name} cannot be read as an array ({error}); give rows of equal length, "
            "or a NumPy array."
        ) from error


def _without_objects(values: Any, objects: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that came as Python objects, as nullable columns' do."""
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            return objects
    return np.asarray(objects.tolist())
