"""What adding items to a set does to its smallest eigenvalue, and the best additions.

Shapes: A members of the set so far, N items that may be added, M draws, Q items in
each, S members of the set that is exchanged.

Let K_AA = U diag(λ) Uᵀ and let row i of Y be k_iA U. For t < λ₁, Schur's complement
says that λmin(A ∪ S) > t exactly when

    (K_SS − tI) − Y_S diag(1 / (λ − t)) Y_Sᵀ

is positive definite. For one item it is the number

    m_i(t) = k_ii − t − Σ y_ia² / (λ_a − t),

which falls with t: its root is λmin(A ∪ {i}), the secular equation of Golub (1973).
An item with m_i(t) ≤ 0 therefore refutes, for this and every higher t, all sets that
hold it.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from fewlabels.gram import smallest_eigenvalue
from fewlabels.jobs.sharing import current_executor, each
from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.blocks import chunks, fill_block

_SHARED_ROWS = 2**15  # candidates that another process is asked about at a time
_FIRST_GUESS = 0.999  # the best of many items often comes that close to the limit
_EPSILON = torch.finfo(torch.float64).eps
_ROUNDINGS = 8


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
        if len(self.eigenvalues):
            return float(self.eigenvalues[0])
        return float("inf")

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

    def shifted_schur(
        self, gram_MQQ: Tensor, positions_MQ: Tensor, threshold: float
    ) -> Tensor:
        """Return the matrices whose definiteness decides whether λmin > threshold."""
        weights = 1 / (self.eigenvalues - threshold)
        schur = self._reduced(gram_MQQ, positions_MQ, weights)
        schur.diagonal(dim1=-2, dim2=-1).sub_(threshold)
        return schur

    def schur(self, gram_MQQ: Tensor, positions_MQ: Tensor) -> Tensor:
        """Return K_SS − K_SA K_AA⁺ K_AS for each set, shape (M, Q, Q)."""
        return self._reduced(gram_MQQ, positions_MQ, self._inverse_eigenvalues())

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
        added = self.items[position : position + 1]
        arrow = torch.diag(
            torch.cat([self.eigenvalues, self.diagonal[position : position + 1]])
        )
        arrow[-1, :-1] = arrow[:-1, -1] = self.projections[position]
        eigenvalues, basis = torch.linalg.eigh(arrow)
        projections = arrow.new_empty(len(self.items), len(arrow))
        for rows in chunks(len(self.items), len(arrow)):
            column = kernel.block(self.items[rows], added)
            projections[rows] = torch.addmm(
                column @ basis[-1:], self.projections[rows], basis[:-1]
            )
        return SecularSystem(eigenvalues, self.items, self.diagonal, projections)

    def _reduced(
        self, gram_MQQ: Tensor, positions_MQ: Tensor, weights_A: Tensor
    ) -> Tensor:
        own_MQA = self.projections[positions_MQ]
        return gram_MQQ - (own_MQA * weights_A) @ own_MQA.mT

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
    system = SecularSystem.of(kernel, members, items)
    position = best_addition(system)
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


def exchanged(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, chosen: Tensor, value: float
) -> tuple[Tensor, float]:
    """Swap single items until no swap raises the smallest eigenvalue."""
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
            better = _better(system, members, value)
            if better is not None:
                new = members.clone()
                new[swap] = better
                reached = float(smallest_eigenvalue(kernel.block(new, new)))
                if reached > value + system.rounding:
                    members, value, unchanged = new, reached, 0
                    added = columns_NS[:, swap : swap + 1]
                    fill_block(kernel, candidates, new[swap : swap + 1], added)
            unchanged += 1
            swap = swap + 1 if swap + 1 < len(members) else len(labeled)
            advance(int(unchanged > 1))
    return members[len(labeled) :], value


def _better(system: SecularSystem, members: Tensor, value: float) -> int | None:
    """Return the item that goes best with a set, None where none beats ``value``."""
    threshold = value + system.rounding
    if threshold >= system.limit:
        return None
    is_member = torch.isin(system.items, members).to(system.diagonal.device)
    better = system.restricted(~is_member & (system.margins(threshold) > 0))
    if not len(better.items):
        return None
    return int(better.items[best_addition(better)])
