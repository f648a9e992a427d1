"""One item after the other: the best addition over the whole pool, then exchanges.

Shapes: A members of the set so far, N items that may be added.
"""

import torch
from torch import Tensor

from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.secular import SecularSystem

_NEAR_LIMIT = 1e-3
_PRECISION = 1e-10
_IMPROVEMENT = 1e-9


def greedy_additions(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int
) -> Tensor:
    """Add ``size`` candidates one by one, each the best for the smallest eigenvalue.

    Args:
        kernel: The kernel.
        labeled: Indices of the set to begin with; may be empty.
        candidates: Indices to choose from.
        size: How many to add.

    Returns:
        The added indices, in order, shape (size,).
    """
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


def best_addition(system: SecularSystem, is_free_N: Tensor) -> int:
    """Return the position of the item that leaves the largest smallest eigenvalue.

    All items are bisected at once: a threshold t is feasible while some item has
    m_i(t) > 0, and items without it can be forgotten. Near the set's own smallest
    eigenvalue, which nothing exceeds, items cannot be told apart; there the one that
    the set explains least is taken.

    Args:
        system: The set and the items.
        is_free_N: Which items may be added, shape (N,).

    Returns:
        A position in ``system.items``.
    """
    residuals = torch.where(is_free_N, system.residuals(), -torch.inf)
    low, high = 0.0, min(system.limit, float(residuals.max()))
    near = (1 - _NEAR_LIMIT) * system.limit
    if high > 0 and near < high:
        within = is_free_N & (system.margins(near) > 0)
        if bool(within.any()):
            return int(torch.where(within, residuals, -torch.inf).argmax())
        high = near
    narrowed, places = system, torch.arange(len(is_free_N), device=is_free_N.device)
    keep = is_free_N
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        feasible = keep & (narrowed.margins(middle) > 0)
        if not bool(feasible.any()):
            high = middle
            continue
        low, keep = middle, feasible
        if int(keep.sum()) * 2 < len(keep):
            narrowed, places = narrowed.restricted(keep), places[keep]
            keep = torch.ones(len(places), dtype=torch.bool, device=places.device)
        if len(places) == 1:
            break
    best = places[keep]
    return int(best[residuals[best].argmax()])


def exchanged(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, chosen: Tensor, value: float
) -> tuple[Tensor, float]:
    """Swap single items as long as that raises the smallest eigenvalue.

    Args:
        kernel: The kernel.
        labeled: Indices that stay.
        candidates: Indices to choose from.
        chosen: The set to begin with, shape (Q,).
        value: Its value.

    Returns:
        The last set and its value, which is never below the first.
    """
    chosen = chosen.clone()
    position, unchanged = 0, 0
    with track("Exchanging", len(chosen)) as advance:
        while unchanged < len(chosen):
            others = torch.cat([chosen[:position], chosen[position + 1 :]])
            added, reached = _best_replacement(kernel, labeled, candidates, others)
            if reached > value + _IMPROVEMENT * abs(value):
                chosen[position], value, unchanged = added, reached, 0
            unchanged += 1
            position = (position + 1) % len(chosen)
            advance(int(unchanged > 1))
    return chosen, value


def _best_replacement(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, others: Tensor
) -> tuple[int, float]:
    """Return the best item to go with labeled and others, and the value reached."""
    members = torch.cat([labeled, others])
    system = SecularSystem.of(kernel, members, candidates)
    is_free = ~torch.isin(candidates, others).to(system.diagonal.device)
    position = best_addition(system, is_free)
    added = candidates[position : position + 1]
    everything = torch.cat([members, added])
    gram = kernel.block(everything, everything)
    return int(added), float(torch.linalg.eigvalsh(gram)[0])
