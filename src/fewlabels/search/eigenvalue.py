"""The set that conditions the labeled data best: one door to all searches for it."""

import time
from dataclasses import dataclass
from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.errors import BudgetError, UsageError
from fewlabels.gram import smallest_eigenvalue
from fewlabels.gram.spectra import ceiling_below
from fewlabels.integers import whole_number
from fewlabels.naming import check_known
from fewlabels.protocols import Kernel
from fewlabels.rng import fork
from fewlabels.search.draws import Draws, GivenDraws, UniformDraws, checked_draws
from fewlabels.search.greedy import exchanged, greedy_additions
from fewlabels.search.inputs import array, known_sets, least_eigenvalue
from fewlabels.search.refutation import SearchProblem, Solver, race, zero_below
from fewlabels.search.result import SearchResult
from fewlabels.search.scores import check_size
from fewlabels.search.ties import won_tie
from fewlabels.search.workers import Workers
from fewlabels.sharing import Mapper

Method = Literal["random", "greedy", "exchange"]

_MOST_DRAWS = 10**12


def maximize_smallest_eigenvalue(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    method: Method = "random",
    draws: int | ArrayLike | None = None,
    proposal: Draws | None = None,
    solver: Solver = "refutation",
    tie_tolerance: float = 0.0,
    executor: Mapper | None = None,
    generator: Generator,
) -> SearchResult:
    """Find the set whose Gram matrix with the labeled items is best conditioned.

    Maximizes λmin(L ∪ S) over sets S of ``size`` candidates (NPC paper, Eq. (3)).

    Args:
        kernel: Kernel over the whole pool.
        labeled: Indices labeled already, shape (L,), or a mask of the pool; may be
            empty.
        candidates: Indices to choose from, shape (n,), or a mask of the pool.
        size: How many to choose, Q.
        method: ``"random"`` is the paper's Algorithm 1, exact over its draws.
            ``"greedy"`` adds the best item Q times; ``"exchange"`` then swaps items
            until no swap helps.
        draws: For ``"random"``: number of draws, explicit subsets (M, Q), or None for
            as many draws as there are candidates.
        proposal: For ``"random"``: where draws come from; uniform by default.
        solver: For ``"random"``: ``"refutation"`` computes eigenvalues only of draws
            that may win; ``"dense"`` of all; ``"lobpcg"`` of all, as the paper does.
        tie_tolerance: Sets within this share of the ceiling count as equally good, and
            the tie rule decides between them. At 0 only equal values are a tie.
        executor: For ``"random"``: who tries the draws, such as a
            ``concurrent.futures.ProcessPoolExecutor``; the result is the same. None:
            this process, with as many threads as torch has where that helps.
        generator: Source of the draws.

    Returns:
        The best set with its value and the ceiling no set exceeds. Ties are decided by
        the smallest eigenvalue of K_SS − K_SL K_LL⁺ K_LS, then by fewer duplicates,
        then by the lower draw number.
    """
    check_known("search method", method, Method)
    check_known("solver", solver, Solver)
    check_random_only(method, draws=draws, proposal=proposal)
    labeled, candidates = known_sets(kernel, labeled, candidates)
    check_size(size, len(candidates))
    check_tie_tolerance(tie_tolerance)
    begin = time.perf_counter()
    num_members = len(labeled) + size
    work = 0 if method == "random" else len(candidates) * num_members**2
    with Workers(executor, work) as workers:
        diagonal = kernel.diagonal(candidates)
        ceiling = ceiling_below(kernel, labeled, diagonal.topk(size).values)
        scale = _scale(kernel.diagonal(labeled), diagonal, size)
        if method == "random":
            source, num_draws = _source(draws, proposal, candidates, size, generator)
            problem = SearchProblem(
                kernel=kernel,
                labeled=labeled,
                draws=source,
                size=size,
                solver=solver,
                scale=scale,
                window=(1 - tie_tolerance) * ceiling if tie_tolerance else torch.inf,
            )
            outcome = _best_draw(problem, num_draws, workers)
        else:
            outcome = _built_up(kernel, labeled, candidates, size, method, scale)
        value = least_eigenvalue(kernel, torch.cat([labeled, outcome.indices]))
    return SearchResult(
        indices=outcome.indices,
        value=min(value, ceiling),  # only rounding can lift it above
        ceiling=ceiling,
        is_tie=outcome.is_tie,
        num_draws=outcome.num_draws,
        num_refuted=outcome.num_refuted,
        num_fallbacks=outcome.num_fallbacks,
        seconds=time.perf_counter() - begin,
    )


def check_random_only(method: Method, **options: object) -> None:
    """Raise where options of the random search are set for another one."""
    given = [name for name, value in options.items() if value is not None]
    if method != "random" and given:
        raise UsageError(
            f"{' and '.join(given)} would do nothing: method '{method}' builds one set "
            "up and draws none. Leave it out, or use method='random'."
        )


def check_tie_tolerance(tie_tolerance: float) -> None:
    """Raise unless ``tie_tolerance`` is a share of the ceiling."""
    if not 0 <= tie_tolerance < 1:
        raise UsageError(
            f"tie_tolerance is {tie_tolerance}; it is a share, from 0 to below 1."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Outcome:
    indices: Tensor
    is_tie: bool
    num_draws: int = 0
    num_refuted: int = 0
    num_fallbacks: int = 0


def _best_draw(problem: SearchProblem, num_draws: int, workers: Workers) -> _Outcome:
    """Search the draws; where none is better than zero, let the tie rule choose."""
    raced = race(problem, num_draws, workers)
    is_tie = not len(raced.survivors)
    survivors = raced.survivors
    winner = (
        survivors.subsets[0]
        if len(survivors) == 1
        else won_tie(problem, survivors if not is_tie else None, num_draws)
    )
    return _Outcome(
        indices=winner,
        is_tie=is_tie,
        num_draws=num_draws,
        num_refuted=raced.num_refuted,
        num_fallbacks=raced.num_fallbacks,
    )


def _built_up(
    kernel: Kernel,
    labeled: Tensor,
    candidates: Tensor,
    size: int,
    method: Method,
    scale: float,
) -> _Outcome:
    """Add items one by one, and exchange them if that is asked for."""
    chosen = greedy_additions(kernel, labeled, candidates, size)
    members = torch.cat([labeled, chosen])
    value = float(smallest_eigenvalue(kernel.block(members, members)))
    if method == "exchange":
        chosen, value = exchanged(kernel, labeled, candidates, chosen, value)
    return _Outcome(indices=chosen, is_tie=value <= zero_below(scale, len(members)))


def _source(
    draws: int | ArrayLike | None,
    proposal: Draws | None,
    candidates: Tensor,
    size: int,
    generator: Generator,
) -> tuple[Draws, int]:
    """Return where draws come from, and how many there are."""
    given = array("draws", () if draws is None else draws)
    if draws is not None and given.ndim:
        subsets = checked_draws(given, candidates, size)
        return GivenDraws(subsets), len(subsets)
    num_draws = len(candidates) if draws is None else whole_number("draws", draws)
    if not 1 <= num_draws <= _MOST_DRAWS:
        raise BudgetError(
            f"draws is {num_draws}; give the number of sets to try, from 1 to "
            f"{_MOST_DRAWS:,}."
        )
    if proposal is not None:
        return proposal, num_draws
    return UniformDraws(candidates, size, fork(generator)), num_draws


def _scale(of_labeled: Tensor, of_candidates: Tensor, size: int) -> float:
    """Trace of the labeled items and as many typical ones; outliers decide nothing."""
    typical = float(of_candidates.median()) or float(of_candidates.max())
    return float(of_labeled.sum()) + size * typical
