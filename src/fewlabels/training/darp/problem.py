"""The problem behind DARP, and the one expensive thing that is done with it.

Shapes: M rows of probabilities, K classes, m some of the rows.

With reference rows y0, entropies H and a target T, DARP (Kim et al., NeurIPS 2020)
minimizes Σ_m KL(x_m || y0_m) / H_m over rows x_m that sum to one and columns that sum
to T. At the optimum

    x_mk = y0_mk exp(H_m (μ_m − ν_k)),

where μ_m, the dual of row m, makes the row sum to one. So all hangs on the K numbers
ν, and every solver does the same thing many times: it tilts the rows by some ν and
looks at the sums. That is done in double precision, a cacheful of rows at a time, and
with powers of two, since exp2 is the fastest exponential.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST_PROBABILITY = 1e-150
"""What is smaller counts as zero."""
NEAR = 400.0
"""Powers of two by which a step may change an entry while the row duals stay; with
``LEAST_PROBABILITY`` in mind, nothing that matters overflows or vanishes."""

_LARGEST_POWER = 1000.0
_CHUNK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class RefinementProblem:
    """Reference rows, how easily each moves, and what the columns shall sum to."""

    reference: Tensor
    """The rows y0 to stay near to, before division, shape (M, K); single or double
    precision."""
    sums: Tensor
    """What these rows sum to, roughly, shape (M,)."""
    entropies: Tensor
    """H, the inverse weight of each row, above zero, shape (M,)."""
    target: Tensor
    """Wanted column sums, which add up to M, shape (K,)."""
    has_zeros: bool
    """Whether a reference row has an entry at zero, which then stays there."""

    def error(self, columns_K: Tensor) -> float:
        """Return the largest difference of a column sum to its target."""
        return float((columns_K - self.target).abs().max())


@dataclass(frozen=True, eq=False)
class Point:
    """A dual and what it does."""

    dual: Tensor
    """The dual ν, shape (K,)."""
    row_duals: Tensor
    """The duals μ that make the rows sum to one, shape (M,)."""
    columns: Tensor
    """The column sums of these rows, shape (K,)."""


class Tilter:
    """Tilts the rows of one problem, chunk by chunk."""

    def __init__(self, problem: RefinementProblem) -> None:
        """Make room for a chunk."""
        self.problem = problem
        self.chunks = chunks(problem.reference)
        self.speeds = problem.entropies * (1 / math.log(2))
        self.fastest = float(self.speeds.max())
        first_mK = problem.reference[self.chunks[0]]
        self._room = torch.empty_like(first_mK, dtype=torch.float64)

    def tilted(
        self, dual_K: Tensor, row_duals_M: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and y0 exp(H (μ − ν)) of these rows.

        Args:
            dual_K: The dual ν.
            row_duals_M: The duals μ.

        Yields:
            Rows and values; the values are overwritten by the next ones.
        """
        for chunk in self.chunks:
            reference_mK = self.problem.reference[chunk]
            powers_mK = self._room[: len(reference_mK)]
            torch.sub(row_duals_M[chunk, None], dual_K, out=powers_mK)
            powers_mK.mul_(self.speeds[chunk, None])
            if self.problem.has_zeros:
                powers_mK.clamp_max_(_LARGEST_POWER)  # zero times infinity is no number
            yield chunk, powers_mK.exp2_().mul_(reference_mK)

    def point(self, dual_K: Tensor, row_duals_M: Tensor, rows_MK: Tensor) -> Point:
        """Tilt all rows and make them sum to one.

        Args:
            dual_K: The dual ν.
            row_duals_M: Duals μ that are right, or were right nearby.
            rows_MK: Where the tilted rows are written.

        Returns:
            The sums at that dual.
        """
        ones_K = torch.ones_like(dual_K)
        sums_M = torch.empty_like(row_duals_M)
        columns_K = torch.zeros_like(dual_K)
        for chunk, tilted_mK in self.tilted(dual_K, row_duals_M):
            inverse_m = torch.mv(tilted_mK, ones_K, out=sums_M[chunk]).reciprocal()
            columns_K += inverse_m @ tilted_mK
            rows_MK[chunk] = tilted_mK.mul_(inverse_m[:, None])
        return Point(dual_K, self.exact_row_duals(row_duals_M, sums_M), columns_K)

    def exact_row_duals(self, row_duals_M: Tensor, sums_M: Tensor) -> Tensor:
        """Return row duals with which rows sum to one, from what they sum to."""
        return row_duals_M - sums_M.log2().div_(self.speeds)

    def rough_row_duals(self, dual_K: Tensor) -> Tensor:
        """Return row duals with which no row that is tilted overflows or vanishes."""
        if self.span(dual_K) < NEAR:
            zeros_M = torch.zeros_like(self.speeds)
            return self.exact_row_duals(zeros_M, self.problem.sums)
        peaks_M = torch.empty_like(self.speeds)
        for chunk in self.chunks:
            powers_mK = self.problem.reference[chunk].double().log2()
            powers_mK.addcmul_(self.speeds[chunk, None], dual_K, value=-1)
            torch.amax(powers_mK, dim=1, out=peaks_M[chunk])
        return peaks_M.neg_().div_(self.speeds)

    def span(self, step_K: Tensor) -> float:
        """Return by how many powers of two a step parts the entries of a row."""
        return float(step_K.max() - step_K.min()) * self.fastest


def chunks(matrix_MK: Tensor) -> list[slice]:
    """Cut the rows of a matrix into slices that fit a processor's cache."""
    num_rows, width = matrix_MK.shape
    step = max(1, _CHUNK_ENTRIES // width)
    return [slice(i, min(i + step, num_rows)) for i in range(0, num_rows, step)]
