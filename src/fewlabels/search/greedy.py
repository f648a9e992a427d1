"""One item after the other: the best addition over the whole pool, then exchanges.

Shapes: A members of the set so far, N items that may be added, S members of the
set that is exchanged.
"""

from functools import partial

import torch
from torch import Tensor

from fewlabels.gram import smallest_eigenvalue
from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.blocks import fill_block
from fewlabels.search.secular import SecularSystem
from fewlabels.sharing import each, helper

_SHARED_ROWS = 2**15  # candidates that another process is asked about at a time
_FIRST_GUESS = 0.999  # the best of many items often comes that close to the limit


def greedy_additions(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int
) -> Tensor:
    """Add ``size`` candidates one by one, each the best for the smallest eigenvalue.

    Where others help, each looks at a part of the candidates and names its best one.

    Returns:
        Indices in the order of choice, shape (size,).
    """
    if helper() is not None and len(candidates) > _SHARED_ROWS:
        return _by_parts(kernel, labeled, candidates, size)
    system = SecularSystem.of(kernel, labeled, candidates)
    is_free = torch.ones(
        len(candidates), dtype=torch.bool, device=system.diagonal.device
    )
    chosen: list[int] = []
    with track("Adding", size) as advance:
        for _ in range(size):
            position = best_addition(system, is_free)
            is_free[position] = False
            chosen.append(position)
            if len(chosen) < size:
                system = system.with_member(kernel, position)
            advance()
    return candidates[torch.tensor(chosen)]


def _by_parts(kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int) -> Tensor:
    """Add the best of the parts' best candidates, ``size`` times."""
    members, free = labeled, candidates
    with track("Adding", size) as advance:
        for _ in range(size):
            best = partial(_best_of, kernel, members)
            named = torch.cat(list(each(best, torch.split(free, _SHARED_ROWS))))
            added = best(named)
            members, free = torch.cat([members, added]), free[free != added]
            advance()
    return members[len(labeled) :]


def _best_of(kernel: Kernel, members: Tensor, items: Tensor) -> Tensor:
    """Return the item that leaves the largest smallest eigenvalue, shape (1,)."""
    system = SecularSystem.of(kernel, members, items)
    every = torch.ones_like(system.diagonal, dtype=torch.bool)
    position = best_addition(system, every)
    return items[position : position + 1]


def best_addition(system: SecularSystem, is_free_N: Tensor) -> int:
    """Return the position of the item that leaves the largest smallest eigenvalue.

    All items are bisected at once: a threshold t is feasible while some item has
    m_i(t) > 0, and items without it can be forgotten. Of items whose values agree to
    rounding (several may reach the set's own smallest eigenvalue, which none exceeds)
    the one that the set explains least is taken.
    """
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
                keep = torch.ones(len(places), dtype=torch.bool, device=places.device)
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
            system = _without(kernel, members, swap, candidates, diagonal, columns_NS)
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


def _without(
    kernel: Kernel,
    members: Tensor,
    left_out: int,
    candidates: Tensor,
    diagonal_N: Tensor,
    columns_NS: Tensor,
) -> SecularSystem:
    """Return the system of all members but one, from kernel values that are known."""
    others = torch.cat([members[:left_out], members[left_out + 1 :]])
    eigenvalues, basis = torch.linalg.eigh(kernel.block(others, others))
    none = basis.new_zeros(1, basis.shape[1])
    basis_SA = torch.cat([basis[:left_out], none, basis[left_out:]])
    return SecularSystem(eigenvalues, candidates, diagonal_N, columns_NS @ basis_SA)


def _better(system: SecularSystem, members: Tensor, value: float) -> int | None:
    """Return the item that goes best with a set, None where none beats ``value``."""
    threshold = value + system.rounding
    if threshold >= system.limit:
        return None
    is_member = torch.isin(system.items, members).to(system.diagonal.device)
    better = system.restricted(~is_member & (system.margins(threshold) > 0))
    if not len(better.items):
        return None
    every = torch.ones_like(better.diagonal, dtype=torch.bool)
    return int(better.items[best_addition(better, every)])
