"""Random search that is exact over its draws and computes few eigenvalues.

Shapes: L labeled, M draws, Q members of a set, S = L + Q.

λmin(K) > t exactly when K − tI is positive definite. With t the best value so far, a
draw is refuted by an item that is inadmissible on its own, or by a Cholesky
factorization that breaks down: compiled and row by row where the kernel has a form for
that and draws are many, by the library otherwise. Only what survives gets a dense
eigenvalue, and only dense values become the new t.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Literal

import torch
from torch import Tensor

from fewlabels.gram import lobpcg_smallest_eigenvalue, smallest_eigenvalue
from fewlabels.matrices import MappedRows
from fewlabels.progress import track
from fewlabels.protocols import Factored, InnerProduct, Kernel
from fewlabels.rng import stream
from fewlabels.search.blocks import chunks
from fewlabels.search.draws import Draws
from fewlabels.search.pivots import definite
from fewlabels.search.secular import SecularSystem
from fewlabels.search.survivors import Survivors
from fewlabels.search.workers import Workers

_FIRST_GENERATION, _LARGEST_CHUNK = 64, 8_192
_WORTH_RESTRICTING = 0.7
_WORTH_COMPILING = 2_000
_MOST_NUMBERS = 2**26  # that are kept about all items; of more, about a chunk's
_ROUNDINGS = 8
_LIMIT_SLACK = 1e-8

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


@dataclass(frozen=True, eq=False)
class Race:
    """How a search over draws came out."""

    survivors: Survivors
    """Draws better than zero that no other one beats."""
    num_refuted: int
    """Draws that needed no eigenvalue."""
    num_fallbacks: int
    """Eigenvalues that a named solver left to the dense one."""

    def joined(self, problem: SearchProblem, other: "Race") -> "Race":
        """Return the outcome of both races together."""
        both = self.survivors.joined(other.survivors)
        return Race(
            both.at_least(_threshold(problem, both.best)),
            self.num_refuted + other.num_refuted,
            self.num_fallbacks + other.num_fallbacks,
        )


def race(problem: SearchProblem, num_draws: int, workers: Workers) -> Race:
    """Return the draws that no other one beats, or all that are inside the window.

    Draws are tried in generations, each as large as all before it together, against the
    best value of those before. Inside of one, draws have nothing to do with each other:
    threads or processes may share it, and nothing depends on how they do.
    """
    heat = _Heat(problem, float("-inf"))
    state = Race(Survivors.none(problem.size), 0, 0)
    work = problem.size * (problem.size + len(problem.labeled))
    with track("Searching", num_draws) as advance:
        for generation in _generations(num_draws):
            heat.raise_to(_threshold(problem, state.survivors.best))
            parts = _cut(generation, _LARGEST_CHUNK)
            for part, found in workers.each(heat, parts, work * len(generation)):
                state = state.joined(problem, found)
                advance(len(part))
    return state


def _threshold(problem: SearchProblem, best: float) -> float:
    """Return what a draw has to beat."""
    equal = max(best, 0.0) - problem.zero
    return max(min(equal, problem.window), problem.zero)


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
        values, num_fallbacks = _values(problem, subsets)
        entered = Survivors(rows + part.start, subsets, values)
        return Race(entered, len(part) - len(rows), num_fallbacks)

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
        return torch.from_numpy(
            definite(
                form,
                self._system.projections.numpy(),
                weights.numpy(),
                self._margins.numpy(),
                members_MQ.numpy(),
                self._positions[subsets_MQ].numpy(),
            )
        )

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


def _values(problem: SearchProblem, subsets_MQ: Tensor) -> tuple[Tensor, int]:
    """Smallest eigenvalue of labeled and drawn items together, and fallbacks."""
    labeled, kernel = problem.labeled, problem.kernel
    num_members = len(labeled) + problem.size
    gram_LL = kernel.block(labeled, labeled)
    values = torch.empty(len(subsets_MQ), dtype=torch.float64)
    num_fallbacks = 0
    for rows in chunks(len(subsets_MQ), num_members**2):
        grams = _joined(kernel, gram_LL, labeled, subsets_MQ[rows])
        if problem.solver == "lobpcg":
            solved = [
                lobpcg_smallest_eigenvalue(gram, stream(0, "lobpcg")) for gram in grams
            ]
            values[rows] = torch.tensor([value for value, _ in solved]).double()
            num_fallbacks += sum(not has_converged for _, has_converged in solved)
        else:
            values[rows] = smallest_eigenvalue(grams).cpu()
    return values, num_fallbacks


def _joined(
    kernel: Kernel, gram_LL: Tensor, labeled: Tensor, subsets_MQ: Tensor
) -> Tensor:
    """Gram matrices of labeled and drawn items, shape (M, S, S)."""
    num_draws = len(subsets_MQ)
    gram_MQQ = kernel.block(subsets_MQ, subsets_MQ)
    gram_MLQ = kernel.block(labeled.expand(num_draws, -1), subsets_MQ)
    upper = torch.cat([gram_LL.expand(num_draws, -1, -1), gram_MLQ], dim=-1)
    lower = torch.cat([gram_MLQ.mT, gram_MQQ], dim=-1)
    return torch.cat([upper, lower], dim=-2)
