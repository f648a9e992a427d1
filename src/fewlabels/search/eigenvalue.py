"""The set that conditions the labeled data best, by one of three searches."""

from typing import Literal, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.errors import BudgetError, UsageError, check_range, whole_number
from fewlabels.gram import smallest_eigenvalue
from fewlabels.gram.spectra import ceiling_below
from fewlabels.names import check_known
from fewlabels.progress import Mapper, current_executor, shared
from fewlabels.protocols import Kernel
from fewlabels.rng import fork
from fewlabels.search import inputs, refutation
from fewlabels.search.blocks import threads_for

Method = Literal["random", "greedy", "exchange"]

_MOST_DRAWS = 10**12


class SearchResult(NamedTuple):
    """The best set of a search, and how good it can be called."""

    indices: Tensor
    """The chosen items, shape (Q,)."""
    value: float
    """Smallest eigenvalue of the Gram matrix of labeled and chosen items."""
    ceiling: float
    """What no set can exceed."""
    is_tie: bool
    """Whether no set tried is better than zero, so that the value chose nothing."""
    num_draws: int
    """How many random sets were tried."""
    num_refuted: int
    """How many of them were ruled out without computing an eigenvalue."""


def maximize_smallest_eigenvalue(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    method: Method = "random",
    draws: int | ArrayLike | None = None,
    proposal: inputs.Draws | None = None,
    solver: refutation.Solver = "refutation",
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
    check_known("solver", solver, refutation.Solver)
    check_random_only(method, draws=draws, proposal=proposal)
    labeled, candidates = inputs.known_sets(kernel, labeled, candidates, size)
    check_range("tie_tolerance", tie_tolerance, at_least=0, below=1)
    if executor is not None and not callable(getattr(executor, "map", None)):
        raise UsageError(f"executor is {type(executor).__name__}; give one with map.")
    num_members = len(labeled) + size
    work = 0 if method == "random" else len(candidates) * num_members**2
    with threads_for(work) as num_threads:
        diagonal = kernel.diagonal(candidates)
        ceiling = ceiling_below(kernel, labeled, diagonal.topk(size).values)
        # The trace of labeled and as many typical items; outliers decide nothing.
        typical = float(diagonal.median()) or float(diagonal.max())
        scale = float(kernel.diagonal(labeled).sum()) + size * typical
        num_draws = num_refuted = 0
        if method == "random":
            source, num_draws = _source(draws, proposal, candidates, size, generator)
            search = refutation.RefutationSearch(
                kernel=kernel,
                labeled=labeled,
                draws=source,
                size=size,
                solver=solver,
                scale=scale,
                window=(1 - tie_tolerance) * ceiling if tie_tolerance else torch.inf,
            )
            with shared(executor or current_executor()):
                best = search.run(num_draws, num_threads)
            is_tie, num_refuted = not len(best.numbers), best.num_refuted
            if len(best.numbers) == 1:
                chosen = best.subsets[0]
            else:
                chosen = search.break_tie(best, num_draws)
        else:
            chosen = refutation.greedy_additions(kernel, labeled, candidates, size)
            members = torch.cat([labeled, chosen])
            value = float(smallest_eigenvalue(kernel.block(members, members)))
            if method == "exchange":
                chosen, value = refutation.swap_items(
                    kernel, labeled, candidates, chosen, value
                )
            is_tie = value <= refutation.zero_below(scale, num_members)
        value = inputs.least_eigenvalue(kernel, torch.cat([labeled, chosen]))
    return SearchResult(
        indices=chosen,
        value=min(value, ceiling),  # only rounding can lift it above
        ceiling=ceiling,
        is_tie=is_tie,
        num_draws=num_draws,
        num_refuted=num_refuted,
    )


def check_random_only(method: Method, **options: object) -> None:
    """Raise where options of the random search are set for another one."""
    given = [name for name, value in options.items() if value is not None]
    if method != "random" and given:
        raise UsageError(
            f"{' and '.join(given)} would do nothing with method '{method}'; omit it."
        )


def _source(
    draws: int | ArrayLike | None,
    proposal: inputs.Draws | None,
    candidates: Tensor,
    size: int,
    generator: Generator,
) -> tuple[inputs.Draws, int]:
    """Return where draws come from, and how many there are."""
    given = inputs.as_array("draws", () if draws is None else draws)
    if draws is not None and given.ndim:
        subsets = inputs.checked_draws(given, candidates, size)
        return inputs.GivenDraws(subsets), len(subsets)
    num_draws = len(candidates) if draws is None else whole_number("draws", draws)
    if not 1 <= num_draws <= _MOST_DRAWS:
        raise BudgetError(f"draws is {num_draws}; give 1 to {_MOST_DRAWS:,} sets.")
    if proposal is not None:
        return proposal, num_draws
    return inputs.UniformDraws(candidates, size, fork(generator)), num_draws
