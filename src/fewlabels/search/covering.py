"""Sets that cover a pool: farthest-first, k-means++ that draws, k-center programs.

Distances are those of a kernel's features, d(i, j)² = k(i, i) + k(j, j) - 2 k(i, j),
streamed over chunks of rows: no matrix has N rows and more than a few columns.

The k-center problem is solved exactly, a few items left out, for small pools only: the
distances of all pairs are held, and the mixed-integer programs are hard.

Shapes: N items, n items of a chunk or candidates of a program, u of them not covered by
labeled items, K centers.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from fewlabels.progress import current_executor, each, track
from fewlabels.protocols import Divisible, Kernel
from fewlabels.search.blocks import gathered
from fewlabels.search.inputs import known_sets
from fewlabels.search.scores import greedy, largest

FirstCenter = Literal["uniform", "largest"]
"""Where k-means++ begins: anywhere, or at the item of the largest k(i, i)."""

_CHUNK_ROWS = 2**13
_CHUNK_COLUMNS = 2**9
_SHARED_ROWS = 2**15  # that another process is asked about at a time
_NOTHING = 1e-13  # of both squared lengths: what rounding leaves of a distance
_INFEASIBLE = 2  # scipy's status for a program that is proven to have no solution
_SLACK = 1 - 1e-9  # for half of a rounded radius
_NODE_LIMIT = 200  # branches after which the solver gives up on a radius


def farthest_first(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    generator: Generator,
) -> tuple[Tensor, float]:
    """Add the candidate farthest from labeled and chosen items, ``size`` times.

    The radius is at most twice the least that any set of this size has (Gonzalez,
    1985). With nothing labeled, the first item is the one of the smallest k(i, i): the
    one nearest the mean, where the kernel is that of centered rows.

    Args:
        kernel: The kernel.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from.
        size: How many to choose.
        generator: Decides between equal distances.

    Returns:
        The chosen indices in the order of choice, and the radius: the largest distance
        of a candidate from the nearest labeled or chosen item.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates, size)
    lengths = kernel_diagonal(kernel, candidates)
    nearest = torch.full_like(lengths, torch.inf)
    if len(labeled):
        nearest = nearest_squares(kernel, candidates, labeled, lengths=lengths)

    def gains() -> Tensor:  # where nothing is chosen yet, all distances are infinite
        return nearest.where(nearest < torch.inf, -lengths)

    def add(place: int) -> None:
        nonlocal nearest
        center = candidates[place : place + 1]
        squares = nearest_squares(kernel, candidates, center, lengths=lengths)
        nearest = torch.minimum(nearest, squares)

    chosen = greedy(gains, add, size, generator, task="Covering")
    return candidates[torch.tensor(chosen)], float(nearest.max().sqrt())


def k_means_plus_plus(
    kernel: Kernel,
    *,
    candidates: ArrayLike,
    size: int,
    generator: Generator,
    first: FirstCenter = "uniform",
) -> Tensor:
    """Draw distinct candidates, each with a chance by its distance from those before.

    The chance is proportional to the squared distance to the nearest chosen item
    (Arthur and Vassilvitskii, 2007), zero for an item chosen before. Where all others
    are copies of chosen items, the rest is drawn uniformly.

    Args:
        kernel: The kernel.
        candidates: Indices to choose from.
        size: How many to choose.
        generator: The only source of randomness.
        first: How the first is chosen.

    Returns:
        The chosen indices in the order of choice.
    """
    _, candidates = known_sets(kernel, (), candidates, size)
    lengths = kernel_diagonal(kernel, candidates)
    if first == "largest":
        chosen = [largest(lengths, generator)]
    else:
        chosen = [int(torch.randint(len(candidates), (1,), generator=generator))]
    nearest = torch.full_like(lengths, torch.inf)
    with track("Drawing", size) as advance:
        advance()
        while len(chosen) < size:
            center = candidates[chosen[-1] : chosen[-1] + 1]
            distances = nearest_squares(kernel, candidates, center, lengths=lengths)
            nearest = torch.minimum(nearest, distances)
            nearest[chosen] = 0
            chosen.append(_draw_by_weight(nearest, chosen, generator))
            advance()
    return candidates[torch.tensor(chosen)]


def kernel_diagonal(kernel: Kernel, items: Tensor) -> Tensor:
    """Return k(i, i) of many items, shape (N,)."""
    parts = [_with_kernel_of(kernel, part) for part in torch.split(items, _SHARED_ROWS)]
    return gathered(each(_diagonal, parts), len(items))


def nearest_squares(
    kernel: Kernel, items: Tensor, centers: Tensor, *, lengths: Tensor | None = None
) -> Tensor:
    """Return the squared distance of each item to the nearest center, streamed."""
    if lengths is None:
        lengths = kernel_diagonal(kernel, items)
    split = (torch.split(every, _SHARED_ROWS) for every in (items, lengths))
    pairs = zip(*split, strict=True)
    parts = [(*_with_kernel_of(kernel, some, centers), own) for some, own in pairs]
    measure = partial(_nearest_squares, center_lengths=kernel.diagonal(centers))
    return gathered(each(measure, parts), len(items))


def _with_kernel_of(kernel: Kernel, *items: Tensor) -> tuple[Any, ...]:
    """Return a kernel and some items, for another process: of these items alone."""
    if current_executor() is None or not isinstance(kernel, Divisible):
        return kernel, *items
    everything = torch.cat(items)
    places = torch.split(torch.arange(len(everything)), [len(part) for part in items])
    return kernel.part(everything), *places


def _diagonal(part: tuple[Kernel, Tensor]) -> Tensor:
    kernel, items = part
    return kernel.diagonal(items)


def _nearest_squares(
    part: tuple[Kernel, Tensor, Tensor, Tensor], center_lengths: Tensor
) -> Tensor:
    kernel, items, centers, lengths = part
    nearest = torch.full_like(lengths, torch.inf)
    for start in range(0, len(items), _CHUNK_ROWS):
        some = slice(start, start + _CHUNK_ROWS)
        for begin in range(0, len(centers), _CHUNK_COLUMNS):
            few = slice(begin, begin + _CHUNK_COLUMNS)
            squares = squares_of(
                kernel, items[some], centers[few], lengths[some], center_lengths[few]
            )
            nearest[some] = torch.minimum(nearest[some], squares.amin(dim=1))
    return nearest


def smallest_distance(kernel: Kernel, items: ArrayLike) -> float | None:
    """Return the smallest distance between two items that are not copies.

    Args:
        kernel: The kernel.
        items: Indices, shape (N,).

    Returns:
        The distance; None where there are no two such items.
    """
    _, items = known_sets(kernel, (), items)
    if len(items) < 2:
        return None
    smallest = torch.inf
    for rows in torch.split(items, _CHUNK_COLUMNS):
        for columns in torch.split(items, _CHUNK_ROWS):
            squares = squared_distances(kernel, rows, columns)
            squares[squares == 0] = torch.inf
            smallest = min(smallest, float(squares.min()))
    return smallest**0.5 if smallest < torch.inf else None


def squared_distances(kernel: Kernel, rows: Tensor, columns: Tensor) -> Tensor:
    """Return d(i, j)² of a block, shapes (r,) and (c,) to (r, c), never negative."""
    return squares_of(
        kernel, rows, columns, kernel.diagonal(rows), kernel.diagonal(columns)
    )


def squares_of(
    kernel: Kernel,
    rows: Tensor,
    columns: Tensor,
    row_lengths: Tensor,
    column_lengths: Tensor,
) -> Tensor:
    """Return d(i, j)² of a block, by k(i, i) of its rows and columns."""
    sums = row_lengths[:, None] + column_lengths
    squares = torch.sub(sums, kernel.block(rows, columns), alpha=2)
    return squares.masked_fill_(squares <= sums.mul_(_NOTHING), 0)


def _draw_by_weight(weights: Tensor, chosen: list[int], generator: Generator) -> int:
    """Draw a position by weight; where there is none left, any that is not chosen."""
    if not float(weights.max()) > 0:
        weights = torch.ones_like(weights)
        weights[chosen] = 0
    cumulated = weights.cumsum(0)
    uniform = torch.rand(1, generator=generator, dtype=torch.float64)
    aim = uniform.to(cumulated.device) * cumulated[-1]
    # A product rounded up to the sum would lead past the last item with any weight.
    below = torch.nextafter(cumulated[-1], torch.zeros_like(cumulated[-1]))
    return int(torch.searchsorted(cumulated, torch.minimum(aim, below), right=True))


class Centers(NamedTuple):
    """Centers, and how well they cover."""

    indices: Tensor
    radius: float
    """Largest distance to the nearest labeled item or center, but for the outliers."""
    greedy_radius: float
    """The same of farthest-first."""
    is_proven: bool
    """Whether no set is better; else the solver stopped at its limit of nodes."""


def smallest_radius(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    num_outliers: int,
    generator: Generator,
) -> Centers:
    """Choose the ``size`` candidates that cover all but a few within the least radius.

    The radius is found by bisection. It is at most that of farthest-first, and at least
    half of that (zero with outliers, for which the half is no bound). A radius r is
    feasible if this program has a solution (Sener and Savarese, 2018, Sec. 4.2): choose
    u_j in {0, 1} and z_i >= 0 with

        Σ_j u_j = size,   Σ_{j: d(i, j) <= r} u_j + z_i >= 1,   Σ_i z_i <= outliers

    for every candidate i farther than r from all labeled items. The paper's w_ij,
    which of several near centers an item belongs to, need not be decided.

    Args:
        kernel: The kernel whose distances count.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from, and to cover.
        size: How many to choose.
        num_outliers: How many candidates may stay uncovered.
        generator: Decides ties of farthest-first.

    Returns:
        The centers.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates)
    chosen, _ = farthest_first(
        kernel, labeled=labeled, candidates=candidates, size=size, generator=generator
    )
    distances_nn = squared_distances(kernel, candidates, candidates).sqrt().cpu()
    symmetric_nn = torch.maximum(distances_nn, distances_nn.T).numpy()
    to_labeled_n = np.full(len(candidates), np.inf)
    if len(labeled):
        squares = nearest_squares(kernel, candidates, labeled)
        to_labeled_n = squares.sqrt().cpu().numpy()
    problem = _CenterProblem(symmetric_nn, to_labeled_n, num_outliers)
    centers = torch.nonzero(chosen[:, None] == candidates)[:, 1].numpy()
    greedy = problem.radius(centers)
    finite = to_labeled_n[np.isfinite(to_labeled_n)]
    radii = np.unique(np.concatenate([symmetric_nn.ravel(), finite]))
    least = greedy / 2 * _SLACK if num_outliers == 0 else 0.0
    radii = radii[(radii >= least) & (radii <= greedy)]
    is_proven = True
    low, high = 0, len(radii) - 1  # the last is farthest-first's, which is feasible
    with track("Halving", len(radii).bit_length()) as advance:
        while low < high:
            middle = (low + high) // 2
            better, is_sure = problem.centers(radii[middle], size)
            is_proven &= is_sure
            if better is None:
                low = middle + 1
            else:
                high, centers = middle, better
            advance()
    indices = candidates[torch.from_numpy(centers)]
    return Centers(indices, problem.radius(centers), greedy, is_proven)


@dataclass(frozen=True, eq=False)
class _CenterProblem:
    """Distances between candidates, and from the nearest labeled item."""

    distances_nn: NDArray[np.float64]
    to_labeled_n: NDArray[np.float64]
    num_outliers: int

    def radius(self, centers: NDArray[np.int64]) -> float:
        """Return the radius within which these places cover all but the outliers."""
        nearest_n = self.distances_nn[:, centers].min(axis=1)
        nearest_n = np.sort(np.minimum(nearest_n, self.to_labeled_n))
        num_covered = len(nearest_n) - self.num_outliers
        return float(nearest_n[num_covered - 1]) if num_covered > 0 else 0.0

    def centers(
        self, radius: float, size: int
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """Return places that cover within a radius, if any, and whether it is sure."""
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp

        open_u = np.flatnonzero(self.to_labeled_n > radius)
        n, u = len(self.to_labeled_n), len(open_u)
        covers_un = sparse.csr_array(self.distances_nn[open_u] <= radius, dtype=float)
        rows = [
            LinearConstraint(
                sparse.hstack([covers_un, sparse.eye_array(u)], format="csr"), lb=1
            ),
            LinearConstraint(np.r_[np.ones(n), np.zeros(u)], lb=size, ub=size),
            LinearConstraint(np.r_[np.zeros(n), np.ones(u)], ub=self.num_outliers),
        ]
        solved = milp(
            np.zeros(n + u),
            integrality=np.r_[np.ones(n), np.zeros(u)],
            bounds=Bounds(0, 1),
            constraints=rows if u else rows[1:2],
            options={"node_limit": _NODE_LIMIT},
        )
        if solved.x is None:
            return None, solved.status == _INFEASIBLE
        return np.argsort(-solved.x[:n], kind="stable")[:size], True
