"""How a tie between sets is decided.

Shapes: L labeled, M draws, Q members of a set.

By the smallest eigenvalue of K_SS − K_SL K_LL⁺ K_LS, then by fewer members that repeat
another or a labeled item, then by the lower draw number. Eigenvalues are compared in
steps, so that rounding decides nothing.
"""

import torch
from torch import Tensor

from fewlabels.protocols import Kernel
from fewlabels.rng import stream
from fewlabels.search.blocks import chunks
from fewlabels.search.refutation import SearchProblem
from fewlabels.search.secular import SecularSystem
from fewlabels.search.survivors import Survivors

_SAME = 1e-9
_NUM_PROBES = 16
_MARKS_PER_UNIT = 1e7
_CHUNK = 16_384


def won_tie(
    problem: SearchProblem, survivors: Survivors | None, num_draws: int
) -> Tensor:
    """Return the set that wins a tie of the survivors; None: of all draws."""
    if survivors is not None:
        return _best(problem, survivors.numbers, survivors.subsets)[1]
    everything = _Referee(problem, problem.draws.items) if problem.fits else None
    numbers, subsets = [], []
    for start in range(0, num_draws, _CHUNK):
        part = range(start, min(start + _CHUNK, num_draws))
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
        size = self._problem.size
        values = torch.zeros(len(subsets_MQ), dtype=torch.float64)
        if not self._has_rank_left():
            return values
        kernel, width = self._problem.kernel, len(self._system.eigenvalues)
        for rows in chunks(len(subsets_MQ), size * (size + width)):
            part = subsets_MQ[rows]
            gram = kernel.block(part, part)
            positions = self._positions[part].to(gram.device)
            schur = self._system.schur(gram, positions)
            values[rows] = torch.linalg.eigvalsh((schur + schur.mT) / 2)[:, 0].cpu()
        return values

    def _has_rank_left(self) -> bool:
        """Tell whether the kernel's rank allows any set to be independent of labels."""
        bound = self._problem.kernel.rank_bound
        rank = int((self._system.eigenvalues > self._problem.zero).sum())
        return bound is None or bound - rank >= self._problem.size


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
