"""Random search that is exact over its draws and computes few eigenvalues.

Shapes: L labeled, N items, M draws, Q members of a set, S = L + Q.

λmin(K) > t exactly when K − tI is positive definite. With t the best value so far, a
draw is refuted by an item that is inadmissible on its own, or by a Cholesky
factorization that breaks down: compiled and row by row where the kernel has a form for
that and draws are many, by the library otherwise. Only what survives gets a dense
eigenvalue, and only dense values become the new t.

A tie between sets is decided by the smallest eigenvalue of K_SS − K_SL K_LL⁺ K_LS, then
by fewer members that repeat another or a labeled item, then by the lower draw number.
Eigenvalues are compared in steps, so that rounding decides nothing.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fewlabels.gram import lobpcg_smallest_eigenvalue, smallest_eigenvalue
from fewlabels.pool import MappedRows
from fewlabels.progress import track
from fewlabels.protocols import Factored, InnerProduct, Kernel
from fewlabels.rng import stream
from fewlabels.search.blocks import chunks
from fewlabels.search.compiled import factorize
from fewlabels.search.draws import Draws
from fewlabels.search.secular import SecularSystem
from fewlabels.search.workers import Workers

_FIRST_GENERATION, _LARGEST_CHUNK = 64, 8_192
_WORTH_RESTRICTING = 0.7
_WORTH_COMPILING = 2_000
_MOST_NUMBERS = 2**26  # that are kept about all items; of more, about a chunk's
_ROUNDINGS = 8
_LIMIT_SLACK = 1e-8
_SAME = 1e-9
_NUM_PROBES = 16
_MARKS_PER_UNIT = 1e7
_TIED_CHUNK = 16_384

Solver = Literal["refutation", "dense", "lobpcg"]


def zero_below(scale: float, num_members: int) -> float:
    """Return what counts as zero among eigenvalues of this size and number."""
    return _ROUNDINGS * num_members * torch.finfo(torch.float64).eps * scale


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchProblem:
    """What is searched: a kernel, labeled items and draws."""

    kernel: Kernel
    labeled: Tensor
    draws: Draws
    size: int
    """Members of each draw, Q."""
    solver: Solver
    """How eigenvalues are found."""
    scale: float
    """Trace of the labeled and typical items: what rounding is measured by."""
    window: float
    """Values at least this large count as equal; infinity: only the best counts."""

    @property
    def zero(self) -> float:
        """Values up to this are rounding."""
        return zero_below(self.scale, len(self.labeled) + self.size)

    @property
    def fits(self) -> bool:
        """Whether what is known of all items can be kept."""
        return len(self.draws.items) * max(1, len(self.labeled)) <= _MOST_NUMBERS

    def threshold(self, best: float) -> float:
        """Return what a draw has to beat."""
        equal = max(best, 0.0) - self.zero
        return max(min(equal, self.window), self.zero)


@dataclass(frozen=True, eq=False)
class Race:
    """Draws better than zero that no other one beats, in the order of their numbers."""

    numbers: Tensor
    """Draw numbers, shape (M,)."""
    subsets: Tensor
    """Their sets, shape (M, Q)."""
    values: Tensor
    """Smallest eigenvalue of each with the labeled items, shape (M,)."""
    num_refuted: int
    """Draws that needed no eigenvalue."""

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.numbers)

    @property
    def best(self) -> float:
        """Largest value; minus infinity where there are none."""
        return float(self.values.max()) if len(self) else float("-inf")

    def joined(self, problem: SearchProblem, other: "Race") -> "Race":
        """Return the outcome of both races together."""
        values = torch.cat([self.values, other.values])
        keep = values >= problem.threshold(max(self.best, other.best))
        return Race(
            torch.cat([self.numbers, other.numbers])[keep],
            torch.cat([self.subsets, other.subsets])[keep],
            values[keep],
            self.num_refuted + other.num_refuted,
        )


def race(problem: SearchProblem, num_draws: int, workers: Workers) -> Race:
    """Return the draws that no other one beats, or all that are inside the window.

    Draws are tried in generations, each as large as all before it together, against the
    best value of those before. Inside of one, draws have nothing to do with each other:
    threads or processes may share it, and nothing depends on how they do.
    """
    heat = _Heat(problem, float("-inf"))
    numbers, values = torch.empty(0, dtype=torch.int64), torch.empty(0).double()
    state = Race(numbers, numbers.new_empty(0, problem.size), values, 0)
    work = problem.size * (problem.size + len(problem.labeled))
    with track("Searching", num_draws) as advance:
        for generation in _generations(num_draws):
            heat.raise_to(problem.threshold(state.best))
            parts = _cut(generation, _LARGEST_CHUNK)
            for part, found in workers.each(heat, parts, work * len(generation)):
                state = state.joined(problem, found)
                advance(len(part))
    return state


def _generations(num_draws: int) -> Iterator[range]:
    """Cut numbers into ranges that double: the first find a value to refute with."""
    start, stop = 0, _FIRST_GENERATION
    while start < num_draws:
        yield range(start, min(stop, num_draws))
        start, stop = stop, 2 * stop


def _cut(numbers: range, length: int) -> list[range]:
    return [numbers[start : start + length] for start in range(0, len(numbers), length)]


class _Heat:
    """Tries draws against a threshold that rises from one generation to the next.

    Another process gets problem and threshold, works out the rest for itself, and
    remembers it for the next generation.
    """

    def __init__(
        self, problem: SearchProblem, threshold: float, name: str | None = None
    ) -> None:
        self._problem = problem
        self._threshold = threshold
        self._name = name or uuid.uuid4().hex

    def __reduce__(self) -> tuple[Any, ...]:
        return _remembered, (self._problem, self._threshold, self._name)

    def raise_to(self, threshold: float) -> None:
        """Refute everything whose value is at most ``threshold`` from now on."""
        self._threshold = threshold
        if self._shared is not None:
            self._shared.raise_to(threshold)

    def __call__(self, numbers: range) -> Race:
        """Return how the draws of these numbers come out."""
        races = [self._tried(part) for part in _cut(numbers, _LARGEST_CHUNK)]
        return reduce(lambda one, other: one.joined(self._problem, other), races)

    def _tried(self, part: range) -> Race:
        problem = self._problem
        subsets, rows = problem.draws.subsets(part), torch.arange(len(part))
        if problem.solver == "refutation":
            screen = self._shared or self._screen(torch.unique(subsets))
            subsets, rows = screen.survivors(subsets)
        values = _values(problem, subsets)
        return Race(rows + part.start, subsets, values, len(part) - len(rows))

    @cached_property
    def _shared(self) -> "_Screen | None":
        """What is known of all items, where that can be kept."""
        problem = self._problem
        if problem.solver != "refutation" or not problem.fits:
            return None
        return self._screen(problem.draws.items)

    @cached_property
    def _form(self) -> InnerProduct | None:
        kernel = self._problem.kernel
        return kernel.inner_product() if isinstance(kernel, Factored) else None

    def _screen(self, items: Tensor) -> "_Screen":
        screen = _Screen(self._problem, items, self._form)
        screen.raise_to(self._threshold)
        return screen


_last: dict[str, _Heat] = {}  # that came from another process


def _remembered(problem: SearchProblem, threshold: float, name: str) -> _Heat:
    """Return the heat of another process, as it was left here if it was."""
    if name not in _last:
        _last.clear()
        _last[name] = _Heat(problem, threshold, name)
    _last[name].raise_to(threshold)
    return _last[name]


class _Screen:
    """Refutes draws of some items against a threshold that only rises."""

    def __init__(
        self, problem: SearchProblem, items: Tensor, form: InnerProduct | None
    ) -> None:
        self._kernel = problem.kernel
        self._scale = problem.scale
        self._system = SecularSystem.of(problem.kernel, problem.labeled, items)
        self._positions = torch.full((problem.kernel.num_items,), -1)
        self._positions[items] = torch.arange(len(items))
        self._form = form
        self._threshold = float("-inf")
        self._margins = self._system.diagonal

    def raise_to(self, threshold: float) -> None:
        """Refute everything whose value is at most ``threshold`` from now on."""
        # Next to the limit the system is ill-conditioned; survivors are checked anyway.
        threshold = min(threshold, self._system.limit - _LIMIT_SLACK * self._scale)
        if threshold <= self._threshold:
            return
        self._threshold = threshold
        self._margins = self._system.margins(threshold)
        is_admissible = self._margins > 0
        self._positions[self._system.items[~is_admissible.cpu()]] = -1
        if int(is_admissible.sum()) < _WORTH_RESTRICTING * len(is_admissible):
            self._system = self._system.restricted(is_admissible)
            self._margins = self._margins[is_admissible]
            kept = self._system.items
            self._positions[kept] = torch.arange(len(kept))

    def survivors(self, subsets_MQ: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sets that are not refuted, and their rows."""
        positions = self._positions[subsets_MQ]
        rows = torch.nonzero((positions >= 0).all(dim=1)).flatten()
        is_definite = (
            self._definite_by_library(subsets_MQ[rows])
            if self._form is None or len(rows) < _WORTH_COMPILING
            else self._definite_by_pivots(self._form, subsets_MQ[rows])
        )
        rows = rows[is_definite]
        return subsets_MQ[rows], rows

    def _definite_by_pivots(self, form: InnerProduct, subsets_MQ: Tensor) -> Tensor:
        weights = 1 / (self._system.eigenvalues - self._threshold)
        members_MQ = subsets_MQ
        if isinstance(form.features, MappedRows):  # compiled code reads no files
            items, members_MQ = torch.unique(subsets_MQ, return_inverse=True)
            form = form.of(items)
        kept = np.empty(len(subsets_MQ), dtype=np.bool_)
        factorize(
            form.features,
            form.scales,
            form.offset,
            self._system.projections.numpy(),
            weights.numpy(),
            self._margins.numpy(),
            members_MQ.numpy(),
            self._positions[subsets_MQ].numpy(),
            kept,
        )
        return torch.from_numpy(kept)

    def _definite_by_library(self, subsets_MQ: Tensor) -> Tensor:
        size = subsets_MQ.shape[1]
        is_definite = torch.ones(len(subsets_MQ), dtype=torch.bool)
        width = size * (size + len(self._system.eigenvalues))
        for rows in chunks(len(subsets_MQ), width):
            part = subsets_MQ[rows]
            gram = self._kernel.block(part, part)
            positions = self._positions[part].to(gram.device)
            schur = self._system.shifted_schur(gram, positions, self._threshold)
            is_definite[rows] = (torch.linalg.cholesky_ex(schur).info == 0).cpu()
        return is_definite


def _values(problem: SearchProblem, subsets_MQ: Tensor) -> Tensor:
    """Return the smallest eigenvalue of labeled and drawn items together, (M,)."""
    labeled, kernel = problem.labeled, problem.kernel
    gram_LL = kernel.block(labeled, labeled)
    values = torch.empty(len(subsets_MQ), dtype=torch.float64)
    for rows in chunks(len(subsets_MQ), (len(labeled) + problem.size) ** 2):
        part = subsets_MQ[rows]
        gram_MLQ = kernel.block(labeled.expand(len(part), -1), part)
        upper = torch.cat([gram_LL.expand(len(part), -1, -1), gram_MLQ], dim=-1)
        lower = torch.cat([gram_MLQ.mT, kernel.block(part, part)], dim=-1)
        grams_MSS = torch.cat([upper, lower], dim=-2)
        if problem.solver == "lobpcg":
            solved = [
                lobpcg_smallest_eigenvalue(gram, stream(0, "lobpcg"))[0]
                for gram in grams_MSS
            ]
            values[rows] = torch.tensor(solved).double()
        else:
            values[rows] = smallest_eigenvalue(grams_MSS).cpu()
    return values


def won_tie(problem: SearchProblem, tied: Race | None, num_draws: int) -> Tensor:
    """Return the set that wins a tie of some draws; None: of all."""
    if tied is not None:
        return _best(problem, tied.numbers, tied.subsets)[1]
    everything = _Referee(problem, problem.draws.items) if problem.fits else None
    numbers, subsets = [], []
    for part in _cut(range(num_draws), _TIED_CHUNK):
        drawn = problem.draws.subsets(part)
        number, subset = _best(problem, torch.tensor(part), drawn, everything)
        numbers.append(number)
        subsets.append(subset)
    return _best(problem, torch.tensor(numbers), torch.stack(subsets), everything)[1]


def _best(
    problem: SearchProblem,
    numbers: Tensor,
    subsets_MQ: Tensor,
    referee: "_Referee | None" = None,
) -> tuple[int, Tensor]:
    """Return number and set of the one that wins, by a referee of their own if none."""
    referee = referee or _Referee(problem, torch.unique(subsets_MQ))
    return referee.best(numbers, subsets_MQ)


class _Referee:
    """Ranks tied sets of some items."""

    def __init__(self, problem: SearchProblem, items: Tensor) -> None:
        self._problem = problem
        self._system = SecularSystem.of(problem.kernel, problem.labeled, items)
        self._positions = torch.full((problem.kernel.num_items,), -1)
        self._positions[items] = torch.arange(len(items))
        everything = torch.unique(torch.cat([problem.labeled, items]))
        self._groups = torch.full((problem.kernel.num_items,), -1)
        self._groups[everything] = duplicate_groups(problem.kernel, everything)

    def best(self, numbers: Tensor, subsets_MQ: Tensor) -> tuple[int, Tensor]:
        """Return number and set of the one that wins."""
        unit = _SAME * self._problem.scale or 1.0
        ranks = (self._secondary(subsets_MQ) / unit).round()
        is_open = ranks == ranks.max()
        repeats = num_duplicates(subsets_MQ, self._problem.labeled, self._groups)
        is_open &= repeats == repeats[is_open].min()
        left = torch.nonzero(is_open).flatten()
        winner = int(left[numbers[left].argmin()])
        return int(numbers[winner]), subsets_MQ[winner]

    def _secondary(self, subsets_MQ: Tensor) -> Tensor:
        """Smallest eigenvalue of K_SS − K_SL K_LL⁺ K_LS for each set, shape (M,)."""
        size, kernel = self._problem.size, self._problem.kernel
        values = torch.zeros(len(subsets_MQ), dtype=torch.float64)
        rank = int((self._system.eigenvalues > self._problem.zero).sum())
        if kernel.rank_bound is not None and kernel.rank_bound - rank < size:
            return values  # no set can be independent of the labels
        width = len(self._system.eigenvalues)
        for rows in chunks(len(subsets_MQ), size * (size + width)):
            part = subsets_MQ[rows]
            gram = kernel.block(part, part)
            positions = self._positions[part].to(gram.device)
            schur = self._system.schur(gram, positions)
            values[rows] = torch.linalg.eigvalsh((schur + schur.mT) / 2)[:, 0].cpu()
        return values


def duplicate_groups(kernel: Kernel, items: Tensor) -> Tensor:
    """Return group numbers (n,) that are equal where kernel rows are.

    Equal items have the same angle to every other one. Items whose length and angles to
    a few probes have the same hash are compared in pairs: they are equal if their
    feature distance k_ii + k_jj - 2 k_ij is zero up to rounding.
    """
    diagonal = kernel.diagonal(items).cpu()
    marks = _marks(kernel, items, diagonal)
    groups: Tensor = torch.unique(marks, return_inverse=True)[1]
    counts = torch.bincount(groups)
    free = len(counts)
    order = groups.argsort(stable=True)
    for run in torch.split(order, counts.tolist()):
        while len(run) > 1:
            products = kernel.block(items[run], items[run[:1]])[:, 0].cpu()
            own, first = diagonal[run], diagonal[run[0]]
            is_same = own + first - 2 * products <= _SAME * (own + first)
            is_same[0] = True
            groups[run[is_same]] = free
            run, free = run[~is_same], free + 1  # noqa: PLW2901 - what is left of it
    return groups


def _marks(kernel: Kernel, items: Tensor, diagonal: Tensor) -> Tensor:
    """Return a hash of each item's rounded length and cosines to a few probes, (n,)."""
    probes = items[:: max(1, len(items) // _NUM_PROBES)][:_NUM_PROBES]
    tiny = torch.finfo(diagonal.dtype).tiny
    lengths = diagonal.clamp_min(tiny).sqrt()
    to_probes = kernel.diagonal(probes).cpu().clamp_min(tiny).sqrt()
    marks = _rounded(lengths.log())
    factors = torch.randint(2**62, (len(probes),), generator=stream(0, "marks"))
    for rows in chunks(len(items), _NUM_PROBES * 8):
        products = kernel.block(items[rows], probes).cpu()
        cosines = products / lengths[rows, None] / to_probes
        marks[rows] += (_rounded(cosines) * factors).sum(dim=1)  # may wrap around
    return marks


def _rounded(numbers: Tensor) -> Tensor:
    return (numbers * _MARKS_PER_UNIT).round().to(torch.int64)


def num_duplicates(subsets_MQ: Tensor, labeled: Tensor, groups_N: Tensor) -> Tensor:
    """Count the members of each set that repeat another or a labeled item, (M,)."""
    ordered = groups_N[subsets_MQ].sort(dim=1).values
    repeats = ordered[:, 1:] == ordered[:, :-1]
    is_labeled = torch.isin(ordered, groups_N[labeled])
    first = torch.cat([is_labeled[:, :1], is_labeled[:, 1:] | repeats], dim=1)
    return first.sum(dim=1)
