"""The problem behind DARP, and the only expensive thing that is done with it.

Shapes: M rows of probabilities, K classes, m some of the rows.

With reference rows y0, entropies H and a target T, DARP (Kim et al., NeurIPS 2020)
minimizes Σ_m KL(x_m || y0_m) / H_m over rows x_m that sum to one and columns that sum
to T. At the optimum

    x_mk = y0_mk exp(H_m (μ_m − ν_k)),

where μ_m, the dual of row m, makes the row sum to one. So all hangs on the K numbers
ν, and every solver does the same thing many times: it tilts the rows by some ν and
looks at the sums. Logarithms are to base 2 inside, since exp2 is the fastest of the
exponentials and takes minus infinity without delay.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_CHUNK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class Problem:
    """Reference rows, how easily each moves, and what the columns shall sum to."""

    logarithms_MK: Tensor
    """Base-2 logarithms of the reference rows, minus infinity for zeros; float64."""
    entropies_M: Tensor
    """H, the inverse weight of each row; above zero."""
    target_K: Tensor
    """Wanted column sums; they add up to M."""
    has_zeros: bool
    """Whether an entry of the reference rows is zero, and stays so."""


@dataclass(frozen=True, eq=False)
class Tilted:
    """What there is to know about the rows in a tilter's buffer."""

    dual_K: Tensor
    """The dual ν by which they are tilted."""
    row_duals_M: Tensor
    """The duals μ with which they would sum to one."""
    sums_M: Tensor
    """What they sum to instead; divide by it."""
    columns_K: Tensor
    """Column sums after the division."""

    def error(self, problem: Problem) -> float:
        """Return the largest difference of a column to its target, in rows."""
        return float((self.columns_K - problem.target_K).abs().max())


class Tilter:
    """Tilts the rows of one problem, chunk by chunk, into one buffer."""

    def __init__(self, problem: Problem) -> None:
        """Make the buffer.

        Args:
            problem: The problem.
        """
        self.problem = problem
        self.speeds_M = problem.entropies_M * (1 / math.log(2))
        self.buffer_MK = torch.empty_like(problem.logarithms_MK)
        self.fastest = float(self.speeds_M.max())
        self._ones_K = torch.ones_like(problem.target_K)

    def rows(self, dual_K: Tensor, row_duals_M: Tensor | None = None) -> Tilted:
        """Tilt all rows and find what makes them sum to one.

        Args:
            dual_K: The dual ν.
            row_duals_M: Duals μ that are right for a dual nearby, within a thousand
                powers of two for every entry; None finds such first, for some time.

        Returns:
            The sums; the rows are in the buffer.
        """
        sums_M = torch.empty_like(self.speeds_M)
        columns_K = torch.zeros_like(dual_K)
        if row_duals_M is None:
            row_duals_M = self._peaks(dual_K)
        for chunk in chunks(self.buffer_MK):
            tilted_mK = self._fill(chunk, dual_K, row_duals_M)
            torch.mv(tilted_mK, self._ones_K, out=sums_M[chunk])
            columns_K += sums_M[chunk].reciprocal() @ tilted_mK
        exact_M = row_duals_M - sums_M.log2().div_(self.speeds_M)
        return Tilted(dual_K, exact_M, sums_M, columns_K)

    def columns(self, dual_K: Tensor, row_duals_M: Tensor) -> tuple[Tensor, Tensor]:
        """Tilt all rows with given row duals, whatever the rows then sum to.

        Args:
            dual_K: The dual ν.
            row_duals_M: The duals μ.

        Returns:
            The column sums of the buffer, and how fast each falls with its ν.
        """
        sums_K, speeds_K = torch.zeros_like(dual_K), torch.zeros_like(dual_K)
        for chunk in chunks(self.buffer_MK):
            tilted_mK = self._fill(chunk, dual_K, row_duals_M)
            sums_K += tilted_mK.sum(dim=0)
            speeds_K += self.problem.entropies_M[chunk] @ tilted_mK
        return sums_K, speeds_K

    def summed(self, dual_K: Tensor, row_duals_M: Tensor) -> Tilted:
        """Find what makes the rows that are in the buffer sum to one.

        Args:
            dual_K: The dual ν by which they were tilted.
            row_duals_M: The duals μ with which they were tilted.

        Returns:
            The sums.
        """
        sums_M = torch.empty_like(self.speeds_M)
        columns_K = torch.zeros_like(dual_K)
        for chunk in chunks(self.buffer_MK):
            torch.mv(self.buffer_MK[chunk], self._ones_K, out=sums_M[chunk])
            columns_K += sums_M[chunk].reciprocal() @ self.buffer_MK[chunk]
        exact_M = row_duals_M - sums_M.log2().div_(self.speeds_M)
        return Tilted(dual_K, exact_M, sums_M, columns_K)

    def column_speeds(self, sums_M: Tensor) -> Tensor:
        """Return Σ_m H_m x_mk of the rows in the buffer, divided by their sums."""
        return (self.problem.entropies_M / sums_M) @ self.buffer_MK

    def divided(self, sums_M: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the rows of the buffer, divided by their sums, as another type."""
        divided_MK = torch.empty_like(self.buffer_MK, dtype=dtype)
        for chunk in chunks(self.buffer_MK):
            torch.div(self.buffer_MK[chunk], sums_M[chunk, None], out=divided_MK[chunk])
        return divided_MK

    def _peaks(self, dual_K: Tensor) -> Tensor:
        """Return the row duals with which the largest entry of every row is one."""
        peaks_M = torch.empty_like(self.speeds_M)
        for chunk in chunks(self.buffer_MK):
            exponents_mK = torch.addcmul(
                self.problem.logarithms_MK[chunk],
                self.speeds_M[chunk, None],
                dual_K,
                value=-1,
                out=self.buffer_MK[chunk],
            )
            torch.amax(exponents_mK, dim=1, out=peaks_M[chunk])
        return peaks_M.neg_().div_(self.speeds_M)

    def _fill(self, chunk: slice, dual_K: Tensor, row_duals_M: Tensor) -> Tensor:
        """Write y0 exp(H (μ − ν)) into some rows of the buffer."""
        tilted_mK = self.buffer_MK[chunk]
        torch.sub(row_duals_M[chunk, None], dual_K, out=tilted_mK)
        torch.addcmul(
            self.problem.logarithms_MK[chunk],
            self.speeds_M[chunk, None],
            tilted_mK,
            out=tilted_mK,
        )
        return tilted_mK.exp2_()


def chunks(matrix_MK: Tensor) -> list[slice]:
    """Cut the rows of a matrix into slices that fit a processor's cache."""
    num_rows, width = matrix_MK.shape
    step = max(1, _CHUNK_ENTRIES // width)
    return [slice(i, min(i + step, num_rows)) for i in range(0, num_rows, step)]
