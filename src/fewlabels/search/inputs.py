"""What a search is given, as the tensors that it works on, and its random sets.

The set of draw ``i`` is the same however draws are split into chunks or spread over
processes: its random numbers are a hash of the key and ``i``.

Shapes: N items in the pool, M draws, Q members of a set.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

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
from fewlabels.rng import keyed_uniforms
from fewlabels.search.blocks import chunks, threads_for

_NUM_PROBED = 32
_NEGATIVE = 1e-5  # of the largest eigenvalue; rounding of single precision is below
_TURNS = 4
_ARRIVAL_ENTRIES = 2**22


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
            raise UsageError(f"{both} candidates are labeled already; leave them out.")
        if len(free):
            step = -(-len(free) // _NUM_PROBED)
            least_eigenvalue(kernel, torch.cat([known[:_NUM_PROBED], free[::step]]))
    if size is not None:
        check_size(size, len(free))
    return known, free


def check_size(size: int, num_candidates: int) -> None:
    """Raise :class:`BudgetError` unless that many candidates can be chosen."""
    if not 1 <= whole_number("size", size) <= num_candidates:
        raise BudgetError(
            f"{size} items are asked for, and there are {num_candidates} candidates."
        )


def least_eigenvalue(kernel: Kernel, items: Tensor) -> float:
    """Return the smallest eigenvalue of a Gram matrix; a negative one is refused."""
    gram = kernel.block(items, items)
    num_wrong = int((~torch.isfinite(gram)).sum())
    if num_wrong:
        raise NotFiniteError(
            f"The kernel is NaN or infinite for {num_wrong} of {gram.numel()} pairs."
        )
    spectrum = torch.linalg.eigvalsh((gram + gram.mT) / 2)
    low, high = float(spectrum[0]), float(spectrum.abs().max())
    if low < -_NEGATIVE * high:
        raise UsageError(
            f"The kernel is not positive semi-definite: {len(items)} items have the "
            f"eigenvalue {low:.3g}."
        )
    return low


def indices(name: str, positions: ArrayLike, num_items: int) -> Tensor:
    """Return positions, or where a mask is true, as distinct indices, shape (n,)."""
    given = as_array(name, positions)
    if given.size == 0:
        return torch.empty(0, dtype=torch.int64)
    if given.ndim == 1 and given.dtype.kind == "b":
        if len(given) != num_items:
            raise UsageError(f"{name} masks {len(given)} items; give all {num_items}.")
        return torch.from_numpy(np.flatnonzero(given))
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise UsageError(
            f"{name} is {given.dtype} {given.shape}; give positions (n,), or a mask."
        )
    places = torch.from_numpy(given.astype(np.int64))
    check_indices(places, num_items, name)
    return places


def as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return ``values``, of any library, as a NumPy array; raise if some are masked.

    Missing values of a nullable column become NaN.
    """
    if isinstance(values, Tensor):
        return to_numpy(values)
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise ShapeError(
            f"{values.mask.sum()} of {values.size} {name} are masked; fill them."
        )
    from scipy.sparse import issparse

    try:
        if issparse(values):
            return np.asarray(values.toarray())  # type: ignore[union-attr]  # it is
        given = np.asarray(values)
        return _without_objects(values, given) if given.dtype == object else given
    except MemoryError as error:
        raise ShapeError(
            f"{name} of shape {np.shape(values)} does not fit into memory; reduce it."
        ) from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"{name} cannot be read as an array ({error}); give rows of equal length."
        ) from error


def _without_objects(values: Any, objects: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that came as Python objects, as nullable columns' do."""
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            return objects
    return np.asarray(objects.tolist())


class Draws(Protocol):
    """Sets by number."""

    @property
    def items(self) -> Tensor:
        """Indices that any set may hold, ascending."""
        ...

    def subsets(self, numbers: range) -> Tensor:
        """Return the sets of these numbers, shape (M, Q), distinct in each row."""
        ...


@dataclass(frozen=True, eq=False)
class GivenDraws:
    """Sets that were given."""

    given: Tensor
    """Indices, shape (M, Q)."""

    @cached_property
    def items(self) -> Tensor:
        """Indices that appear in any set."""
        items: Tensor = torch.unique(self.given)
        return items

    def subsets(self, numbers: range) -> Tensor:
        """Return the rows of these numbers."""
        return self.given[numbers.start : numbers.stop]


@dataclass(frozen=True, eq=False)
class UniformDraws:
    """Every set of candidates is equally likely (NPC paper, Algorithm 1)."""

    items: Tensor
    size: int
    key: int

    def subsets(self, numbers: range) -> Tensor:
        """Return the sets of these numbers, by :func:`uniform_subsets`."""
        return uniform_subsets(self.items, self.size, self.key, numbers)


@dataclass(frozen=True, eq=False)
class ClusterDraws:
    """One uniformly drawn member of each of Q clusters."""

    clusters: tuple[Tensor, ...]
    """Indices of each cluster's members; none is empty, none overlap."""
    key: int

    @cached_property
    def items(self) -> Tensor:
        """Members of all clusters."""
        return torch.cat(self.clusters).sort().values

    def subsets(self, numbers: range) -> Tensor:
        """Return one member of each cluster for each number."""
        uniforms = _uniforms(self.key, numbers, len(self.clusters))
        columns = [
            members[torch.from_numpy((uniforms[:, j] * len(members)).astype(np.int64))]
            for j, members in enumerate(self.clusters)
        ]
        return torch.stack(columns, dim=1)


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Items one after the other by weight, without repetition."""

    items: Tensor
    weights: Tensor
    """Weight of each item, positive, shape (n,)."""
    size: int
    key: int

    def subsets(self, numbers: range) -> Tensor:
        """Return the first Q distinct items of an endless weighted row, per number.

        What repetition leaves open is filled by arrival times (Efraimidis, 2006): those
        of the items not yet chosen, -log(u) / weight, give the same law as going on
        drawing, and end where a few heavy items would be drawn forever.
        """
        weights = self.weights.double().numpy()
        total = self.weights.double().cumsum(0)
        cumulated = (total / total[-1]).numpy()
        chosen = np.full((len(numbers), self.size), -1, dtype=np.int64)
        filled = np.zeros(len(numbers), dtype=np.int64)
        keys = np.asarray(numbers, dtype=np.int64)
        for turn in range(_TURNS):
            rows = np.flatnonzero(filled < self.size)
            uniforms = keyed_uniforms(self.key + turn, keys[rows], 2 * self.size)
            places = np.searchsorted(cumulated, uniforms, side="right")
            for drawn in np.minimum(places, len(self.items) - 1).T:
                is_new = (chosen[rows] != drawn[:, None]).all(axis=1)
                is_new &= filled[rows] < self.size
                chosen[rows[is_new], filled[rows[is_new]]] = drawn[is_new]
                filled[rows[is_new]] += 1
        open_rows = np.flatnonzero(filled < self.size)
        for part in chunks(len(open_rows), len(weights), _ARRIVAL_ENTRIES):
            rows = open_rows[part]
            uniforms = keyed_uniforms(self.key + _TURNS, keys[rows], len(weights))
            arrivals = -np.log1p(-uniforms) / weights
            for row, times in zip(rows, arrivals, strict=True):
                times[chosen[row, : filled[row]]] = np.inf
                order = np.argsort(times, kind="stable")
                chosen[row, filled[row] :] = order[: self.size - filled[row]]
        return self.items[torch.from_numpy(chosen)]


def uniform_subsets(
    candidates: ArrayLike, size: int, key: int, numbers: range
) -> Tensor:
    """Return uniformly drawn subsets, one per draw number, shape (M, Q).

    Floyd's algorithm (Bentley and Floyd, 1987) for all draws at once: the j-th item is
    drawn from the first N - Q + j candidates, and a repetition is replaced by the last
    of these, which cannot have been drawn before.

    Args:
        candidates: Indices to draw from, shape (n,).
        size: Members of each subset, Q.
        key: Distinguishes this search from every other;
            from :func:`fewlabels.rng.fork`.
        numbers: The draw numbers.

    Returns:
        Distinct candidates in each row.
    """
    candidates = torch.as_tensor(candidates)
    check_size(size, len(candidates))
    uniforms = _uniforms(key, numbers, size)
    last = np.arange(len(candidates) - size, len(candidates))
    drawn = (uniforms * (last + 1)).astype(np.int64)
    for position in range(1, size):
        earlier = drawn[:, :position] == drawn[:, position, None]
        drawn[earlier.any(axis=1), position] = last[position]
    return candidates[torch.from_numpy(drawn)]


def _uniforms(key: int, numbers: range, width: int) -> NDArray[np.float64]:
    return keyed_uniforms(key, np.arange(numbers.start, numbers.stop), width)


def checked_draws(given: NDArray[np.generic], candidates: Tensor, size: int) -> Tensor:
    """Return sets of ``size`` distinct candidates as a tensor, shape (M, size)."""
    is_whole = given.dtype.kind in "iu"
    if given.ndim != 2 or given.shape[1] != size or not len(given) or not is_whole:
        raise ShapeError(
            f"draws are {given.dtype} {given.shape}; give rows of {size} indices."
        )
    draws = torch.from_numpy(given.astype(np.int64))
    ordered = draws.sort(dim=1).values
    repeats = (ordered[:, 1:] == ordered[:, :-1]).any(dim=1)
    foreign = ~torch.isin(draws, candidates).all(dim=1)
    if bool((repeats | foreign).any()):
        raise UsageError(
            f"{int(repeats.sum())} draws hold an item twice and {int(foreign.sum())} "
            "others than candidates."
        )
    return draws
