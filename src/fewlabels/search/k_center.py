"""The k-center problem solved exactly, a few items left out: mixed-integer programs.

For small pools only: the distances of all pairs are held, and the programs are hard.

Shapes: n candidates, u of them not covered by labeled items.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.covering import (
    farthest_first,
    nearest_squares,
    squared_distances,
)
from fewlabels.search.inputs import known_sets

_INFEASIBLE = 2  # scipy's status for a program that is proven to have no solution
_SLACK = 1 - 1e-9  # for half of a rounded radius


@dataclass(frozen=True, eq=False)
class Centers:
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
    node_limit: int = 200,
) -> Centers:
    """Choose the ``size`` candidates that cover all but a few within the least radius.

    Radii are halved between those of farthest-first and of half of it (of zero, with
    outliers, where the half is no bound). Whether a radius r can be had is a program
    (Sener and Savarese, 2018, Sec. 4.2): choose u_j in {0, 1} and z_i >= 0 with

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
        node_limit: After how many branches the solver gives up on a radius.

    Returns:
        The centers.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates)
    chosen, _ = farthest_first(
        kernel, labeled=labeled, candidates=candidates, size=size, generator=generator
    )
    problem = _problem(kernel, labeled, candidates, num_outliers)
    place_of = {item: place for place, item in enumerate(candidates.tolist())}
    centers = np.array([place_of[item] for item in chosen.tolist()])
    greedy = problem.radius(centers)
    radii = problem.radii(greedy / 2 * _SLACK if num_outliers == 0 else 0.0, greedy)
    is_proven = True
    low, high = 0, len(radii) - 1  # the last is farthest-first's, which can be had
    with track("Halving", len(radii).bit_length()) as advance:
        while low < high:
            middle = (low + high) // 2
            found, is_sure = problem.centers(radii[middle], size, node_limit)
            is_proven &= is_sure
            if found is None:
                low = middle + 1
            else:
                high, centers = middle, found
            advance()
    indices = candidates[torch.from_numpy(centers)]
    return Centers(indices, problem.radius(centers), greedy, is_proven)


@dataclass(frozen=True, eq=False)
class _Problem:
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

    def radii(self, low: float, high: float) -> NDArray[np.float64]:
        """Return every radius between that some set can have, ascending."""
        finite = self.to_labeled_n[np.isfinite(self.to_labeled_n)]
        values = np.unique(np.concatenate([self.distances_nn.ravel(), finite]))
        return values[(values >= low) & (values <= high)]

    def centers(
        self, radius: float, size: int, node_limit: int
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """Return places that do with a radius, if found, and whether that is sure."""
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
            options={"node_limit": node_limit},
        )
        if solved.x is None:
            return None, solved.status == _INFEASIBLE
        return np.argsort(-solved.x[:n], kind="stable")[:size], True


def _problem(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, num_outliers: int
) -> _Problem:
    distances_nn = squared_distances(kernel, candidates, candidates).sqrt()
    to_labeled_n = torch.full_like(distances_nn[0], torch.inf)
    if len(labeled):
        to_labeled_n = nearest_squares(kernel, candidates, labeled).sqrt()
    symmetric_nn = torch.maximum(distances_nn, distances_nn.T)
    return _Problem(
        symmetric_nn.cpu().numpy(), to_labeled_n.cpu().numpy(), num_outliers
    )
