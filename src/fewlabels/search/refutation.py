"""Sets with a large smallest eigenvalue: random search by refutation, and additions.

Shapes: L labeled, A members of a set so far, N items, M draws, Q members of a set,
S = L + Q; S members of the set that is exchanged.

Let K_AA = U diag(λ) Uᵀ and let row i of Y be k_iA U. For t < λ₁, Schur's complement
says that λmin(A ∪ S) > t exactly when

    (K_SS − tI) − Y_S diag(1 / (λ − t)) Y_Sᵀ

is positive definite. For one item it is the number

    m_i(t) = k_ii − t − Σ y_ia² / (λ_a − t),

which falls with t: its root is λmin(A ∪ {i}), the secular equation of Golub (1973).
An item with m_i(t) ≤ 0 therefore refutes, for this and every higher t, all sets that
hold it.

Random search is exact over its draws and computes few eigenvalues.
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
from functools import cached_property, partial, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fewlabels.gram import lobpcg_smallest_eigenvalue, smallest_eigenvalue
from fewlabels.pool import MappedRows
from fewlabels.progress import current_executor, each, track
from fewlabels.protocols import Factored, InnerProduct, Kernel
from fewlabels.rng import stream
from fewlabels.search.blocks import chunks, fill_block, map_ranges
from fewlabels.search.inputs import Draws

_SHARED_ROWS = 2**15  # candidates that another process is asked about at a time
_FIRST_GUESS = 0.999  # the best of many items often comes that close to the limit
_EPSILON = torch.finfo(torch.float64).eps
_FIRST_GENERATION, _LARGEST_CHUNK = 64, 8_192
_WORTH_RESTRICTING = 0.7
_WORTH_COMPILING = 2_000
_MOST_NUMBERS = 2**26  # that are kept about all items; of more, about a chunk's
_ROUNDINGS = 8
_LIMIT_SLACK = 1e-8
_SAME = 1e-9
_NUM_PROBES = 16
_STEPS_PER_UNIT = 1e7
_TIED_CHUNK = 16_384

Solver = Literal["refutation", "dense", "lobpcg"]


@dataclass(frozen=True, eq=False)
class SecularSystem:
    """A set in its own eigenbasis, and how the other items stand to it."""

    eigenvalues: Tensor
    """Eigenvalues of the set's Gram matrix, ascending, shape (A,)."""
    items: Tensor
    """Indices of the items that may be added, shape (N,)."""
    diagonal: Tensor
    """k(i, i) of these items, shape (N,)."""
    projections: Tensor
    """Their kernel values with the set, in its eigenbasis: Y, shape (N, A)."""

    @classmethod
    def of(cls, kernel: Kernel, members: Tensor, items: Tensor) -> "SecularSystem":
        """Build the system of a set; memory is A x N plus a chunk."""
        eigenvalues, basis = torch.linalg.eigh(kernel.block(members, members))
        projections = eigenvalues.new_empty(len(items), len(members))
        diagonal = eigenvalues.new_empty(len(items))
        for rows in chunks(len(items), len(members) + 1):
            projections[rows] = kernel.block(items[rows], members) @ basis
            diagonal[rows] = kernel.diagonal(items[rows])
        return cls(eigenvalues, items, diagonal, projections)

    @property
    def limit(self) -> float:
        """Smallest eigenvalue of the set alone, which no larger set exceeds."""
        return float(self.eigenvalues[0]) if len(self.eigenvalues) else float("inf")

    @property
    def rounding(self) -> float:
        """How far rounding can move the smallest eigenvalue of the set and an item."""
        largest = float(self.eigenvalues[-1]) if len(self.eigenvalues) else 0.0
        typical = float(self.diagonal.median()) if len(self.diagonal) else 0.0
        return _ROUNDINGS * _EPSILON * max(largest, typical)

    def margins(self, threshold: float) -> Tensor:
        """Return m_i(threshold) for every item, shape (N,)."""
        weights = 1 / (self.eigenvalues - threshold)
        return self.diagonal - threshold - self._weighted_squares(weights)

    def residuals(self) -> Tensor:
        """Return k_ii − k_iA K_AA⁺ k_Ai, what the set does not explain, shape (N,)."""
        squares = self._weighted_squares(self._inverse_eigenvalues())
        return (self.diagonal - squares).clamp_min(0)

    def complements(
        self,
        kernel: Kernel,
        subsets_MQ: Tensor,
        positions_N: Tensor,
        threshold: float | None = None,
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield K_SS − K_SA K_AA⁺ K_AS of some sets at a time, shape (m, Q, Q).

        With a threshold, K less its multiple of the identity takes the place of K: the
        result is positive definite exactly where λmin exceeds the threshold.
        """
        weights_A, size = self._inverse_eigenvalues(), subsets_MQ.shape[1]
        if threshold is not None:
            weights_A = 1 / (self.eigenvalues - threshold)
        for rows in chunks(len(subsets_MQ), size * (size + len(weights_A))):
            part = subsets_MQ[rows]
            gram = kernel.block(part, part)
            own_mQA = self.projections[positions_N[part].to(gram.device)]
            schur = gram - (own_mQA * weights_A) @ own_mQA.mT
            if threshold is not None:
                schur.diagonal(dim1=-2, dim2=-1).sub_(threshold)
            yield rows, schur

    def restricted(self, keep_N: Tensor) -> "SecularSystem":
        """Return the system of the same set with fewer items to add."""
        return SecularSystem(
            self.eigenvalues,
            self.items[keep_N.to(self.items.device)],
            self.diagonal[keep_N],
            self.projections[keep_N],
        )

    def with_member(self, kernel: Kernel, position: int) -> "SecularSystem":
        """Return the system of the set with one item more; the item stays listed.

        In the old eigenbasis the new Gram matrix is an arrow: diagonal, with one row
        and column. Its eigenvectors rotate the projections.
        """
        own = slice(position, position + 1)
        arrow = torch.diag(torch.cat([self.eigenvalues, self.diagonal[own]]))
        arrow[-1, :-1] = arrow[:-1, -1] = self.projections[position]
        eigenvalues, basis = torch.linalg.eigh(arrow)
        projections = arrow.new_empty(len(self.items), len(arrow))
        for rows in chunks(len(self.items), len(arrow)):
            column = kernel.block(self.items[rows], self.items[own])
            projections[rows] = torch.addmm(
                column @ basis[-1:], self.projections[rows], basis[:-1]
            )
        return SecularSystem(eigenvalues, self.items, self.diagonal, projections)

    def _weighted_squares(self, weights_A: Tensor) -> Tensor:
        """Return Σ_a w_a y_ia² for every item, chunk by chunk."""
        squares = self.diagonal.new_zeros(len(self.items))
        if len(weights_A):
            for rows in chunks(len(self.items), len(weights_A)):
                squares[rows] = self.projections[rows].square() @ weights_A
        return squares

    def _inverse_eigenvalues(self) -> Tensor:
        """Eigenvalues of the pseudo-inverse: zero where there is only rounding."""
        values = self.eigenvalues
        if not len(values):
            return values
        floor = len(values) * _EPSILON * float(values[-1].clamp_min(0))
        return torch.where(values > floor, 1 / values.clamp_min(floor or 1.0), 0.0)


def greedy_additions(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int
) -> Tensor:
    """Add ``size`` candidates one by one, each the best for the smallest eigenvalue.

    Where others help, each looks at a part of the candidates and names its best one.

    Returns:
        Indices in the order of choice, shape (size,).
    """
    chosen: list[int] = []
    with track("Adding", size) as advance:
        if current_executor() is not None and len(candidates) > _SHARED_ROWS:
            members, free = labeled, candidates
            for _ in range(size):
                best = partial(_best_of, kernel, members)
                named = torch.cat(list(each(best, torch.split(free, _SHARED_ROWS))))
                added = best(named)
                members, free = torch.cat([members, added]), free[free != added]
                advance()
            return members[len(labeled) :]
        system = SecularSystem.of(kernel, labeled, candidates)
        is_free = torch.ones_like(system.diagonal, dtype=torch.bool)
        while len(chosen) < size:
            position = best_addition(system, is_free)
            is_free[position] = False
            chosen.append(position)
            if len(chosen) < size:
                system = system.with_member(kernel, position)
            advance()
    return candidates[torch.tensor(chosen)]


def _best_of(kernel: Kernel, members: Tensor, items: Tensor) -> Tensor:
    """Return the item that leaves the largest smallest eigenvalue, shape (1,)."""
    position = best_addition(SecularSystem.of(kernel, members, items))
    return items[position : position + 1]


def best_addition(system: SecularSystem, is_free_N: Tensor | None = None) -> int:
    """Return the position of the item that leaves the largest smallest eigenvalue.

    All items are bisected at once: a threshold t is feasible while some item has
    m_i(t) > 0, and items without it can be forgotten. Of items whose values agree to
    rounding (several may reach the set's own smallest eigenvalue, which none exceeds)
    the one that the set explains least is taken.
    """
    if is_free_N is None:
        is_free_N = torch.ones_like(system.diagonal, dtype=torch.bool)
    residuals = torch.where(is_free_N, system.residuals(), -torch.inf)
    narrowed, keep = system, is_free_N
    places = torch.arange(len(keep), device=keep.device)
    low, high = 0.0, min(system.limit, float(residuals.max()))
    precision = system.rounding
    threshold = _FIRST_GUESS * high
    while len(places) > 1 and high - low > 2 * precision:
        feasible = keep & (narrowed.margins(threshold) > 0)
        if bool(feasible.any()):
            low, keep = threshold, feasible
            if int(keep.sum()) * 2 <= len(keep):
                narrowed, places = narrowed.restricted(keep), places[keep]
                keep = torch.ones_like(places, dtype=torch.bool)
        else:
            high = threshold
        threshold = (low + high) / 2
    best = places[keep]
    return int(best[residuals[best].argmax()])


def swap_items(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, chosen: Tensor, value: float
) -> tuple[Tensor, float]:
    """Swap single items until no swap raises the smallest eigenvalue.

    Args:
        kernel: The kernel.
        labeled: Items that stay.
        candidates: Items to swap in.
        chosen: Items to swap out.
        value: The smallest eigenvalue of both labeled and chosen items.

    Returns:
        The items chosen in the end, and their smallest eigenvalue.
    """
    members = torch.cat([labeled, chosen])
    diagonal = kernel.diagonal(candidates)
    columns_NS = diagonal.new_empty(len(candidates), len(members))
    fill_block(kernel, candidates, members, columns_NS)
    swap, unchanged = len(labeled), 0
    with track("Exchanging", len(chosen)) as advance:
        while unchanged < len(chosen):
            others = torch.cat([members[:swap], members[swap + 1 :]])
            eigenvalues, basis = torch.linalg.eigh(kernel.block(others, others))
            none = basis.new_zeros(1, basis.shape[1])
            basis_SA = torch.cat([basis[:swap], none, basis[swap:]])
            projections = columns_NS @ basis_SA
            system = SecularSystem(eigenvalues, candidates, diagonal, projections)
            threshold = value + system.rounding
            if threshold < system.limit:
                is_member = torch.isin(candidates, members).to(diagonal.device)
                is_better = ~is_member & (system.margins(threshold) > 0)
                system = system.restricted(is_better)
            if threshold < system.limit and len(system.items):
                new = members.clone()
                new[swap] = system.items[best_addition(system)]
                reached = float(smallest_eigenvalue(kernel.block(new, new)))
                if reached > threshold:
                    members, value, unchanged = new, reached, 0
                    added = columns_NS[:, swap : swap + 1]
                    fill_block(kernel, candidates, new[swap : swap + 1], added)
            unchanged += 1
            swap = swap + 1 if swap + 1 < len(members) else len(labeled)
            advance(int(unchanged > 1))
    return members[len(labeled) :], value


def zero_below(scale: float, num_members: int) -> float:
    """Return what counts as zero among eigenvalues of this size and number."""
    return _ROUNDINGS * num_members * _EPSILON * scale


class Incumbents(NamedTuple):
    """Draws better than zero that no other one beats, in the order of their numbers."""

    numbers: Tensor
    """Draw numbers, shape (M,)."""
    subsets: Tensor
    """Their sets, shape (M, Q)."""
    values: Tensor
    """Smallest eigenvalue of each with the labeled items, shape (M,)."""
    num_refuted: int
    """Draws that needed no eigenvalue."""

    @property
    def best(self) -> float:
        """Largest value; minus infinity where there are none."""
        return float(self.values.max()) if len(self.values) else float("-inf")


@dataclass(frozen=True, eq=False, kw_only=True)
class RefutationSearch:
    """The search for the best of numbered draws."""

    kernel: Kernel
    labeled: Tensor
    draws: Draws
    size: int
    """Members of each draw, Q."""
    solver: Solver
    """How eigenvalues are computed."""
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

    def run(self, num_draws: int, num_threads: int) -> Incumbents:
        """Return the draws that no other one beats, or all that are in the window.

        Draws are tried in generations, each as large as all before it together, against
        the best value of those before. The draws of a generation are independent, so
        the result is the same however threads or processes share them.
        """
        trial = _Trial(self, float("-inf"), uuid.uuid4().hex)
        numbers, values = torch.empty(0, dtype=torch.int64), torch.empty(0).double()
        best = Incumbents(numbers, numbers.new_empty(0, self.size), values, 0)
        work = self.size * (self.size + len(self.labeled))
        start, stop = 0, _FIRST_GENERATION
        with track("Searching", num_draws) as advance:
            while start < num_draws:
                generation = range(start, min(stop, num_draws))
                trial.raise_to(self.threshold(best.best))
                parts = _split(generation, _LARGEST_CHUNK)
                total = work * len(generation)
                for part, result in map_ranges(trial, parts, total, num_threads):
                    best = self.merged(best, result)
                    advance(len(part))
                start, stop = stop, 2 * stop
        return best

    def merged(self, first: Incumbents, second: Incumbents) -> Incumbents:
        """Return the draws of both that none of the others beats."""
        values = torch.cat([first.values, second.values])
        keep = values >= self.threshold(max(first.best, second.best))
        return Incumbents(
            torch.cat([first.numbers, second.numbers])[keep],
            torch.cat([first.subsets, second.subsets])[keep],
            values[keep],
            first.num_refuted + second.num_refuted,
        )

    def values(self, subsets_MQ: Tensor) -> Tensor:
        """Return the smallest eigenvalue of labeled and drawn items together, (M,)."""
        labeled, kernel = self.labeled, self.kernel
        gram_LL = kernel.block(labeled, labeled)
        values = torch.empty(len(subsets_MQ), dtype=torch.float64)
        for rows in chunks(len(subsets_MQ), (len(labeled) + self.size) ** 2):
            part = subsets_MQ[rows]
            gram_MLQ = kernel.block(labeled.expand(len(part), -1), part)
            upper = torch.cat([gram_LL.expand(len(part), -1, -1), gram_MLQ], dim=-1)
            lower = torch.cat([gram_MLQ.mT, kernel.block(part, part)], dim=-1)
            grams_MSS = torch.cat([upper, lower], dim=-2)
            if self.solver == "lobpcg":
                solved = [
                    lobpcg_smallest_eigenvalue(gram, stream(0, "lobpcg"))[0]
                    for gram in grams_MSS
                ]
                values[rows] = torch.tensor(solved).double()
            else:
                values[rows] = smallest_eigenvalue(grams_MSS).cpu()
        return values

    def break_tie(self, tied: Incumbents, num_draws: int) -> Tensor:
        """Return the set that wins a tie of some draws; of all, if there are none."""
        if len(tied.numbers):
            ranking = _TieRanking(self, torch.unique(tied.subsets))
            return ranking.best(tied.numbers, tied.subsets)[1]
        everything = _TieRanking(self, self.draws.items) if self.fits else None

        def best(numbers: Tensor, drawn: Tensor) -> tuple[int, Tensor]:
            ranking = everything or _TieRanking(self, torch.unique(drawn))
            return ranking.best(numbers, drawn)

        parts = _split(range(num_draws), _TIED_CHUNK)
        winners = [best(torch.tensor(part), self.draws.subsets(part)) for part in parts]
        numbers, subsets = zip(*winners, strict=True)
        return best(torch.tensor(numbers), torch.stack(subsets))[1]


def _split(numbers: range, length: int) -> list[range]:
    return [numbers[start : start + length] for start in range(0, len(numbers), length)]


class _Trial:
    """Tries draws against a threshold that rises from one generation to the next.

    Another process gets search and threshold, works out the rest for itself, and
    remembers it for the next generation.
    """

    def __init__(self, search: RefutationSearch, threshold: float, name: str) -> None:
        self._search, self._threshold, self._name = search, threshold, name

    def __reduce__(self) -> tuple[Any, ...]:
        return _remembered, (self._search, self._threshold, self._name)

    def raise_to(self, threshold: float) -> None:
        """Refute everything whose value is at most ``threshold`` from now on."""
        self._threshold = threshold
        if self._shared is not None:
            self._shared.raise_to(threshold)

    def __call__(self, numbers: range) -> Incumbents:
        """Return the best of the draws of these numbers."""
        search, best = self._search, []
        for part in _split(numbers, _LARGEST_CHUNK):
            subsets, rows = search.draws.subsets(part), torch.arange(len(part))
            if search.solver == "refutation":
                screen = self._shared or self._screen(torch.unique(subsets))
                subsets, rows = screen.survivors(subsets)
            values, num_refuted = search.values(subsets), len(part) - len(rows)
            best.append(Incumbents(rows + part.start, subsets, values, num_refuted))
        return reduce(search.merged, best)

    @cached_property
    def _shared(self) -> "_Screen | None":
        """What is known of all items, where that can be kept."""
        if self._search.solver != "refutation" or not self._search.fits:
            return None
        return self._screen(self._search.draws.items)

    @cached_property
    def _form(self) -> InnerProduct | None:
        kernel = self._search.kernel
        return kernel.inner_product() if isinstance(kernel, Factored) else None

    def _screen(self, items: Tensor) -> "_Screen":
        screen = _Screen(self._search, items, self._form)
        screen.raise_to(self._threshold)
        return screen


_last: dict[str, _Trial] = {}  # that came from another process


def _remembered(search: RefutationSearch, threshold: float, name: str) -> _Trial:
    """Return the trial of another process, as it was left here if it was."""
    if name not in _last:
        _last.clear()
        _last[name] = _Trial(search, threshold, name)
    _last[name].raise_to(threshold)
    return _last[name]


def _positions(search: RefutationSearch, items: Tensor) -> Tensor:
    """Return the position of each item of the pool among ``items``, -1 elsewhere."""
    positions = torch.full((search.kernel.num_items,), -1)
    positions[items] = torch.arange(len(items))
    return positions


class _Screen:
    """Refutes draws of some items against a threshold that only rises."""

    def __init__(
        self, search: RefutationSearch, items: Tensor, form: InnerProduct | None
    ) -> None:
        self._kernel, self._scale, self._form = search.kernel, search.scale, form
        self._system = SecularSystem.of(search.kernel, search.labeled, items)
        self._positions = _positions(search, items)
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
        if self._form is None or len(rows) < _WORTH_COMPILING:
            rows = rows[self._definite_by_library(subsets_MQ[rows])]
        else:
            rows = rows[self._definite_by_pivots(self._form, subsets_MQ[rows])]
        return subsets_MQ[rows], rows

    def _definite_by_pivots(self, form: InnerProduct, subsets_MQ: Tensor) -> Tensor:
        from fewlabels.search.compiled import factorize  # Numba is slow to import

        system, places_MQ = self._system, self._positions[subsets_MQ]
        weights, members_MQ = 1 / (system.eigenvalues - self._threshold), subsets_MQ
        if isinstance(form.features, MappedRows):  # compiled code reads no files
            items, members_MQ = torch.unique(subsets_MQ, return_inverse=True)
            form = form.of(items)
        kept = np.empty(len(subsets_MQ), dtype=np.bool_)
        known = system.projections, weights, self._margins, members_MQ, places_MQ
        arrays = [tensor.numpy() for tensor in known]
        factorize(form.features, form.scales, form.offset, *arrays, kept)
        return torch.from_numpy(kept)

    def _definite_by_library(self, subsets_MQ: Tensor) -> Tensor:
        is_definite = torch.ones(len(subsets_MQ), dtype=torch.bool)
        for rows, schur in self._system.complements(
            self._kernel, subsets_MQ, self._positions, self._threshold
        ):
            is_definite[rows] = (torch.linalg.cholesky_ex(schur).info == 0).cpu()
        return is_definite


class _TieRanking:
    """Ranks tied sets of some items."""

    def __init__(self, search: RefutationSearch, items: Tensor) -> None:
        self._search = search
        self._system = SecularSystem.of(search.kernel, search.labeled, items)
        self._positions = _positions(search, items)
        everything = torch.unique(torch.cat([search.labeled, items]))
        self._groups = torch.full((search.kernel.num_items,), -1)
        self._groups[everything] = duplicate_groups(search.kernel, everything)

    def best(self, numbers: Tensor, subsets_MQ: Tensor) -> tuple[int, Tensor]:
        """Return number and set of the one that wins."""
        unit = _SAME * self._search.scale or 1.0
        ranks = (self._secondary(subsets_MQ) / unit).round()
        is_open = ranks == ranks.max()
        repeats = num_duplicates(subsets_MQ, self._search.labeled, self._groups)
        is_open &= repeats == repeats[is_open].min()
        left = torch.nonzero(is_open).flatten()
        winner = int(left[numbers[left].argmin()])
        return int(numbers[winner]), subsets_MQ[winner]

    def _secondary(self, subsets_MQ: Tensor) -> Tensor:
        """Smallest eigenvalue of K_SS − K_SL K_LL⁺ K_LS for each set, shape (M,)."""
        size, kernel = self._search.size, self._search.kernel
        values = torch.zeros(len(subsets_MQ), dtype=torch.float64)
        rank = int((self._system.eigenvalues > self._search.zero).sum())
        if kernel.rank_bound is not None and kernel.rank_bound - rank < size:
            return values  # no set can be independent of the labels
        complements = self._system.complements(kernel, subsets_MQ, self._positions)
        for rows, schur in complements:
            values[rows] = torch.linalg.eigvalsh((schur + schur.mT) / 2)[:, 0].cpu()
        return values


def duplicate_groups(kernel: Kernel, items: Tensor) -> Tensor:
    """Return group numbers (n,) that are equal where kernel rows are.

    Equal items have the same angle to every other one. Items whose length and angles to
    a few probes have the same hash are compared in pairs: they are equal if their
    feature distance k_ii + k_jj - 2 k_ij is zero up to rounding.
    """
    diagonal = kernel.diagonal(items).cpu()
    probes = items[:: max(1, len(items) // _NUM_PROBES)][:_NUM_PROBES]
    tiny = torch.finfo(diagonal.dtype).tiny
    lengths = diagonal.clamp_min(tiny).sqrt()
    to_probes = kernel.diagonal(probes).cpu().clamp_min(tiny).sqrt()
    hashes = _rounded(lengths.log())
    factors = torch.randint(2**62, (len(probes),), generator=stream(0, "marks"))
    for rows in chunks(len(items), _NUM_PROBES * 8):
        products = kernel.block(items[rows], probes).cpu()
        cosines = products / lengths[rows, None] / to_probes
        hashes[rows] += (_rounded(cosines) * factors).sum(dim=1)  # may wrap around
    groups: Tensor = torch.unique(hashes, return_inverse=True)[1]
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


def _rounded(numbers: Tensor) -> Tensor:
    return (numbers * _STEPS_PER_UNIT).round().to(torch.int64)


def num_duplicates(subsets_MQ: Tensor, labeled: Tensor, groups_N: Tensor) -> Tensor:
    """Count the members of each set that repeat another or a labeled item, (M,)."""
    ordered = groups_N[subsets_MQ].sort(dim=1).values
    repeats = ordered[:, 1:] == ordered[:, :-1]
    is_labeled = torch.isin(ordered, groups_N[labeled])
    first = torch.cat([is_labeled[:, :1], is_labeled[:, 1:] | repeats], dim=1)
    return first.sum(dim=1)
