"""DARP: pseudo-labels moved as little as possible to wanted numbers per class.

Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
Semi-supervised Learning" (NeurIPS 2020). Pure functions over tensors.

With reference rows y0, entropies H and a target T, DARP minimizes
Σ_m KL(x_m || y0_m) / H_m over rows x_m that sum to one and columns that sum to T. At
the optimum

    x_mk = y0_mk exp(H_m (μ_m − ν_k)),

where μ_m, the dual of row m, makes the row sum to one. Only the K numbers ν have to be
found. Both solvers tilt the rows by some ν and look at the sums, many times: in double
precision, a cacheful of rows at a time, and with powers of two, since exp2 is the
fastest exponential.

Shapes: M rows of probabilities, K classes, m some of the rows.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fewlabels import errors
from fewlabels.names import check_known
from fewlabels.training import targets

__all__ = ["Masking", "Refinement", "Solver", "Weighting", "refine", "solve", "targets"]

Weighting = Literal["entropy", "none"]
Masking = Literal["paper", "code"]
Solver = Literal["newton", "alternating"]

_LEAST_PROBABILITY = 1e-150  # what is smaller counts as zero
# Powers of two by which a step may change an entry while the row duals stay; with the
# least probability in mind, nothing that matters overflows or vanishes.
_NEAR = 400.0
_LARGEST_POWER = 1000.0
_CHUNK_ENTRIES = 2**18
_LEAST_ENTROPY = 1e-8
_SMOOTHING = 1e-6  # of the public code
_SLACK = 1e-6  # twice 4,999.9999999 rows are meant as 10,000
_MOST_STEPS = 100
_STEPS_BEFORE_A_DOUBT = (8, 16, 32, 64)
_MOST_TRIALS = 40
_LEAST_REACH, _LARGEST_REACH = 1e3, 1e12  # powers of two that a step may go
_LEAST_DEGREE = 1e-200
_LEAST_RATIO = torch.finfo(torch.float64).tiny  # an empty column has a logarithm too
_RIDGE = 1e-12
_EPSILON = torch.finfo(torch.float64).eps
_SINGLE_RANGE = 1e-20  # smallest column for which products fit single precision
_ADVICE = (
    "Choose a target nearer to the predictions (darp.targets.estimated), a larger "
    "capacity (None masks nothing), or masking='code'."
)


class Refinement(NamedTuple):
    """Refined probabilities and how they were computed."""

    refined: Tensor
    """Rows that sum to one, shape (M, K), of the type that was given."""
    dual: Tensor
    """The dual ν, shape (K,), float64, of mean zero: give it as the next ``start``."""
    iterations: int
    """Newton steps, or rounds of the alternating solver."""
    marginal_error: float
    """Largest difference of a column sum to its target, in rows, before rounding to
    the type that was given."""


def solve(
    probabilities: Tensor,
    target: Tensor,
    *,
    capacity: float | None = 2.0,
    weighting: Weighting = "entropy",
    masking: Masking = "paper",
    solver: Solver = "newton",
    start: Tensor | None = None,
    rounds: int = 10,
    tolerance: float = 1e-6,
) -> Refinement:
    """Move pseudo-labels as little as possible, so that classes get their numbers.

    Kim et al. (2020), Eq. (1) to (3) and Algorithm 1: of all matrices whose rows sum to
    one and whose columns sum to the target, return the one with the least
    Σ_m w_m KL(x_m || y_m). Rows are weighted by w = 1 / H, so that those with a high
    entropy H move most; a row that is certain stays.

    Args:
        probabilities: Rows that sum to one, shape (M, K), of any floating type.
        target: How many rows each class shall get, shape (K,); positive, adding up to
            M. See :mod:`fewlabels.training.targets`.
        capacity: Before all else each column keeps its floor(capacity * target) largest
            entries, and the others become zero (the paper's delta). None keeps all.
        weighting: ``"entropy"`` as above, ``"none"`` to weight all rows equally.
        masking: ``"paper"`` moves away from the masked rows, with entropies of the
            original ones; a row of which nothing is left is not masked. ``"code"`` does
            what the authors' program does: rescale each column to its target, add 1e-6
            to every entry, divide the rows, and take the entropies of that.
        solver: ``"newton"`` meets the target to the tolerance, or raises;
            ``"alternating"`` balances columns and rows in turn, as the paper does, and
            stops after ``rounds`` wherever it is.
        start: The dual of an earlier refinement of similar probabilities.
        rounds: Most rounds of the alternating solver.
        tolerance: Largest difference of a column to its target, in rows.

    Returns:
        The refined rows, with the dual and the difference that is left.

    Raises:
        UsageError: If an option has no meaning. Where no such matrix exists,
            :class:`InfeasibleTargetError` is raised.
    """
    check_known("weighting", weighting, Weighting)
    check_known("masking", masking, Masking)
    check_known("solver", solver, Solver)
    errors.check_range("capacity", 1 if capacity is None else capacity, at_least=1)
    errors.check_range("rounds", errors.whole_number("rounds", rounds), at_least=1)
    errors.check_range("tolerance", tolerance, above=0)
    probabilities = torch.as_tensor(probabilities)
    matrix_MK = targets.probability_rows(probabilities)
    target_K = targets.column_target(target, matrix_MK)
    start_K = torch.zeros_like(target_K) if start is None else start.detach()
    start_K = start_K.to(target_K)
    if start_K.shape != target_K.shape or not bool(start_K.isfinite().all()):
        raise errors.UsageError(
            f"start is {start_K.tolist()}; give a dual of {len(target_K)} classes."
        )
    start_K = start_K - start_K.mean()
    problem = Problem(matrix_MK, target_K, capacity, weighting, masking)
    problem.check_feasible()
    if solver == "newton":
        point, iterations = _minimize(problem, start_K, tolerance)
    else:
        point, iterations = _alternate(problem, start_K, rounds, tolerance)
    return Refinement(
        refined=problem.rows.to(probabilities.dtype),
        dual=point.dual - point.dual.mean(),
        iterations=iterations,
        marginal_error=problem.error(point.columns),
    )


def refine(probabilities: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Return the refined rows of :func:`solve`, which says what the options are.

    Example:
        >>> sure, doubtful = [1.0, 0.0], [0.6, 0.4]
        >>> rows = torch.tensor([sure, sure, doubtful, doubtful])
        >>> refine(rows, torch.tensor([2.5, 1.5]), capacity=None)
        tensor([[1.0000, 0.0000],
                [1.0000, 0.0000],
                [0.2500, 0.7500],
                [0.2500, 0.7500]])
    """
    return solve(probabilities, target, **options).refined


class Dual(NamedTuple):
    """A dual ν, shape (K,), with the row duals μ, (M,), and column sums, (K,)."""

    dual: Tensor
    row_duals: Tensor
    columns: Tensor


class Problem:
    """Rows to stay near to, how easily each moves, and what the columns shall sum to.

    Attributes:
        reference: The rows y0, before division, shape (M, K).
        sums: What these rows sum to, roughly, shape (M,).
        entropies: H, the inverse weight of each row, above zero, shape (M,).
        target: Wanted column sums, which add up to M, shape (K,).
        has_zeros: Whether a row has an entry at zero, which then stays there.
        rows: The tilted rows of the last point, which sum to one, shape (M, K).
    """

    def __init__(
        self,
        probabilities_MK: Tensor,
        target_K: Tensor,
        capacity: float | None,
        weighting: Weighting = "entropy",
        masking: Masking = "paper",
    ) -> None:
        """Mask the rows and compute their entropies."""
        num_rows, num_classes = probabilities_MK.shape
        self.rows = torch.empty_like(probabilities_MK)
        length = max(1, _CHUNK_ENTRIES // num_classes)
        self.chunks = [slice(i, i + length) for i in range(0, num_rows, length)]
        least = float(probabilities_MK.min())
        self.target, self.has_zeros = target_K, least < _LEAST_PROBABILITY
        if 0 < least < _LEAST_PROBABILITY:
            is_nothing_MK = probabilities_MK < _LEAST_PROBABILITY
            probabilities_MK = probabilities_MK.masked_fill(is_nothing_MK, 0)
        self.reference, self.sums = probabilities_MK, target_K.new_ones(num_rows)
        if capacity is not None:
            kept_MK = mask(probabilities_MK, target_K, capacity)
            self.has_zeros = masking == "paper"
            if masking == "code":
                kept_MK = kept_MK.double()
                scales_K = (target_K + _SMOOTHING) / (kept_MK.sum(dim=0) + _SMOOTHING)
                kept_MK.mul_(scales_K).add_(_SMOOTHING)
                probabilities_MK = kept_MK.div_(kept_MK.sum(dim=1, keepdim=True))
            else:
                sums_M = kept_MK @ kept_MK.new_ones(num_classes)
                is_empty_M = sums_M == 0  # nothing is left: such a row is not masked
                kept_MK[is_empty_M] = probabilities_MK[is_empty_M]
                sums_M[is_empty_M] = 1
                self.sums = sums_M.double()
            self.reference = kept_MK
        self.entropies = target_K.new_ones(num_rows)
        if weighting == "entropy":
            ones_K = target_K.new_ones(num_classes)
            for chunk in self.chunks:
                rows_mK = probabilities_MK[chunk].double()
                logs_mK = rows_mK.clamp_min(_LEAST_PROBABILITY).log_().mul_(rows_mK)
                # Rows of single precision hardly sum to one: H is that of y / Σ y.
                sums_m = rows_mK @ ones_K
                entropies_m = (logs_mK @ ones_K).neg_().div_(sums_m).add_(sums_m.log())
                self.entropies[chunk] = entropies_m.clamp_min_(_LEAST_ENTROPY)
        self.speeds = self.entropies * (1 / math.log(2))
        self.fastest = float(self.speeds.max())
        first_mK = self.reference[self.chunks[0]]
        self._buffer_mK = torch.empty_like(first_mK, dtype=torch.float64)

    def error(self, columns_K: Tensor) -> float:
        """Return the largest difference of a column sum to its target."""
        return float((columns_K - self.target).abs().max())

    def span(self, step_K: Tensor) -> float:
        """Return by how many powers of two a step parts the entries of a row."""
        return float(step_K.max() - step_K.min()) * self.fastest

    def tilt(
        self, dual_K: Tensor, row_duals_M: Tensor
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield chunks of rows, and y0 exp(H (μ − ν)) in a buffer that is reused."""
        for chunk in self.chunks:
            reference_mK = self.reference[chunk]
            powers_mK = self._buffer_mK[: len(reference_mK)]
            torch.sub(row_duals_M[chunk, None], dual_K, out=powers_mK)
            powers_mK.mul_(self.speeds[chunk, None])
            if self.has_zeros:
                powers_mK.clamp_max_(_LARGEST_POWER)  # zero times infinity is no number
            yield chunk, powers_mK.exp2_().mul_(reference_mK)

    def point(self, dual_K: Tensor, row_duals_M: Tensor) -> Dual:
        """Return the sums at a dual; the row duals μ may be those of one nearby."""
        ones_K = torch.ones_like(dual_K)
        sums_M = torch.empty_like(row_duals_M)
        columns_K = torch.zeros_like(dual_K)
        for chunk, tilted_mK in self.tilt(dual_K, row_duals_M):
            inverse_m = torch.mv(tilted_mK, ones_K, out=sums_M[chunk]).reciprocal()
            columns_K += inverse_m @ tilted_mK
            self.rows[chunk] = tilted_mK.mul_(inverse_m[:, None])
        exact_M = row_duals_M - sums_M.log2().div_(self.speeds)
        return Dual(dual_K, exact_M, columns_K)

    def start(self, dual_K: Tensor) -> Dual:
        """Return the point of a dual whose row duals are not known."""
        if self.span(dual_K) < _NEAR:
            return self.point(dual_K, -self.sums.log2().div_(self.speeds))
        peaks_M = torch.empty_like(self.speeds)  # so that no row overflows or vanishes
        for chunk in self.chunks:
            powers_mK = self.reference[chunk].double().log2()
            powers_mK.addcmul_(self.speeds[chunk, None], dual_K, value=-1)
            torch.amax(powers_mK, dim=1, out=peaks_M[chunk])
        return self.point(dual_K, peaks_M.neg_().div_(self.speeds))

    def check_feasible(self, dual_K: Tensor | None = None) -> None:
        """Raise if some classes want more rows than leave them any probability.

        Entries that are zero stay zero. By Hall's condition the target is within reach
        exactly if, for every set of classes, at least as many rows have something above
        zero there as the classes want. Where that fails for some set, the dual runs
        away: down for the classes of the set, up for the others. So the sets to look at
        are the K beginnings of the classes in the order of a dual that has run far;
        without a dual, they are the single classes.
        """
        if not self.has_zeros:
            return
        num_classes = len(self.target)
        is_place_MK = self.reference > 0
        order = list(range(num_classes))
        served_K, wanted_K = is_place_MK.sum(dim=0), self.target
        if dual_K is not None:
            order = dual_K.argsort().tolist()
            first_M = is_place_MK[:, order].byte().argmax(dim=1)
            served_K = torch.bincount(first_M, minlength=num_classes).cumsum(dim=0)
            wanted_K = self.target[order].cumsum(dim=0)
        worst = int((wanted_K - served_K).argmax())
        served = int(served_K[worst])
        if float(wanted_K[worst]) - served <= _SLACK:
            return
        members = sorted(order[worst if dual_K is None else 0 : worst + 1])
        classes = errors.count(len(members), "class", "classes")
        raise errors.InfeasibleTargetError(
            f"{classes} ({str(members[:10])[1:-1]}) cannot get "
            f"{float(wanted_K[worst]):.6g} rows: only {served} of "
            f"{len(self.reference)} have any probability there. {_ADVICE}"
        )


def mask(probabilities_MK: Tensor, target_K: Tensor, capacity: float) -> Tensor:
    """Return a copy with only the floor(capacity T_k) largest entries of each column.

    The others are zero. Among equal entries those of lower rows come first. Selection
    is by NumPy's partition, several times faster than ``torch.topk`` on processors.
    """
    num_rows = len(probabilities_MK)
    counts_K = (capacity * target_K + _SLACK).floor_().clamp_max_(num_rows)
    columns_KM = probabilities_MK.T.cpu().numpy().copy()
    for column_M, kept in zip(columns_KM, counts_K.long().tolist(), strict=True):
        first = num_rows - kept
        if first == num_rows:
            column_M[:] = 0
        elif first > 0:
            threshold = np.partition(column_M, first)[first]
            equal = np.flatnonzero(column_M == threshold)
            late = equal[kept - int((column_M > threshold).sum()) :]
            column_M[column_M < threshold] = 0
            column_M[late] = 0
    return torch.from_numpy(columns_KM).T.contiguous().to(probabilities_MK.device)


def _alternate(
    problem: Problem, start_K: Tensor, rounds: int, tolerance: float
) -> tuple[Dual, int]:
    """Return where Algorithm 1 of DARP's authors stops, and after how many rounds.

    A round makes each column sum to its target with the row duals held fixed, then each
    row sum to one. A column is one equation in one unknown, f(ν_k) = T_k with f a sum
    of falling exponentials, whose logarithm is nearly straight: Newton's method on it
    overshoots at most once. All columns are solved together.
    """
    reach, entropies_M = _NEAR / problem.fastest, problem.entropies
    point = problem.start(start_K)
    for number in range(rounds):
        if problem.error(point.columns) <= tolerance:
            return point, number
        dual_K, columns_K = point.dual, point.columns
        speeds_K = (entropies_M.to(problem.rows) @ problem.rows).double()
        for _ in range(_MOST_TRIALS):
            step_K = (columns_K / problem.target).log() * columns_K / speeds_K
            step_K.nan_to_num_(nan=-reach)  # a column that has vanished
            dual_K = dual_K + step_K.clamp_(-reach, reach)
            columns_K, speeds_K = torch.zeros_like(dual_K), torch.zeros_like(dual_K)
            for chunk, tilted_mK in problem.tilt(dual_K, point.row_duals):
                columns_K += tilted_mK.sum(dim=0)
                speeds_K += entropies_M[chunk] @ tilted_mK
            if problem.error(columns_K) <= 0.1 * tolerance:
                break
        point = problem.point(dual_K, point.row_duals)
    return point, rounds


def _minimize(problem: Problem, start_K: Tensor, tolerance: float) -> tuple[Dual, int]:
    """Return the dual that meets the target, and the number of Newton steps.

    With the row duals eliminated, what is left to minimize over K numbers is the convex

        g(ν) = Σ_m logΣexp_k(log y0_mk − H_m ν_k) / H_m + ν·T = −Σ_m μ_m(ν) + ν·T.

    Its gradient is T − c, with c the column sums of the tilted rows x, and its Hessian
    is the Laplacian of a graph over the classes whose edges weigh
    A_kl = Σ_m H_m x_mk x_ml. The diagonal of a Laplacian is the sum of its edges:
    nothing is subtracted, and single precision is enough for the products. A constant
    may be added to ν at will.
    """
    tolerance = max(tolerance, 4 * _EPSILON * len(problem.rows))
    target_K, zeros_K = problem.target, torch.zeros_like(start_K)
    has_start = bool(start_K.any())
    point = problem.start(start_K)
    if has_start and not problem.error(point.columns) < float(target_K.max()):
        at_zero = problem.start(zeros_K)  # zero may be nearer
        here, there = (
            float(p.dual @ target_K - p.row_duals.sum()) for p in (point, at_zero)
        )
        is_far = there <= here
        point = at_zero if is_far else problem.point(start_K, point.row_duals)
    step, error = 0, problem.error(point.columns)
    while error > tolerance and step < _MOST_STEPS:
        if step in _STEPS_BEFORE_A_DOUBT:
            problem.check_feasible(point.dual)
        point = _newton_step(problem, point)
        step, error = step + 1, problem.error(point.columns)
    if error <= tolerance:
        return point, step
    problem.check_feasible(point.dual)
    if has_start:  # so far away that no step leads back
        point, more = _minimize(problem, zeros_K, tolerance)
        return point, step + more
    raise errors.InfeasibleTargetError(
        f"After {step} Newton steps a class is {error:.3g} rows off its target. "
        + _ADVICE
    )


def _newton_step(problem: Problem, point: Dual) -> Dual:
    """Return a point along the Newton direction where g is lower.

    g is convex: where it still falls, it has fallen all the way. Near the optimum its
    differences drown in rounding, and a slope that has all but gone decides.
    """
    target_K = problem.target
    reach = min(max(_LEAST_REACH, 100 * problem.span(point.dual)), _LARGEST_REACH)
    direction_K = _direction(problem, point, reach / problem.fastest)
    slope = float((target_K - point.columns) @ direction_K)
    span = problem.span(direction_K)
    length = min(1.0, reach / max(span, 1.0))
    tried = point
    for _ in range(_MOST_TRIALS):
        dual_K = point.dual + length * direction_K
        if length * span < _NEAR:
            tried = problem.point(dual_K, point.row_duals)
        else:
            tried = problem.start(dual_K)
        ahead = float((target_K - tried.columns) @ direction_K)
        if ahead <= 0:
            break
        rise_M = point.row_duals - tried.row_duals
        rise = float(rise_M.sum() + length * (direction_K @ target_K))
        sizes_M = 1 / problem.entropies + point.row_duals.abs()
        noise = _EPSILON * float(sizes_M.sum())  # what rounding adds to the rise
        is_flat = ahead <= -0.1 * slope and rise <= noise
        if is_flat or rise <= 1e-4 * length * slope:
            break
        length *= min(max(slope / (slope - ahead), 0.1), 0.5)
    return tried


def _direction(problem: Problem, point: Dual, reach: float) -> Tensor:
    """Return a direction in which g falls; its entries sum to zero.

    It solves the linearized equations log c = log T rather than c = T. A class by
    itself has c ~ exp(−H ν), whose logarithm is straight, so that a bad start is left
    in fewer steps. Should that lead uphill, the plain Newton step, which cannot, is
    taken.
    """
    columns_K, target_K = point.columns, problem.target
    is_single = float(columns_K.min()) > _SINGLE_RANGE
    dtype = torch.float32 if is_single else torch.float64
    weights_M = problem.entropies.sqrt().to(dtype)
    products_KK = weights_M.new_zeros(len(columns_K), len(columns_K))
    for chunk in problem.chunks:
        weighted_mK = problem.rows[chunk].to(weights_M) * weights_M[chunk, None]
        products_KK.addmm_(weighted_mK.T, weighted_mK)
    products_KK = products_KK.double()
    edges_KK = ((products_KK + products_KK.T) / 2).fill_diagonal_(0)
    ratios_K = (columns_K / target_K).clamp_min_(_LEAST_RATIO)
    logs_K = torch.xlogy(columns_K, ratios_K)
    straight_K = logs_K - columns_K * (logs_K.sum() / columns_K.sum())
    plain_K = columns_K - target_K
    straight_step_K = _solution(edges_KK, straight_K, reach)
    plain_step_K = _solution(edges_KK, plain_K, reach)
    falls = float(plain_K @ straight_step_K) > 0
    is_short = problem.span(straight_step_K) < 10 * problem.span(plain_step_K)
    return straight_step_K if falls and is_short else plain_step_K


def _solution(edges_KK: Tensor, residual_K: Tensor, reach: float) -> Tensor:
    """Return the solution of the Laplacian's equations.

    A class whose rows are all but certain has no edges to go by: it is given just
    enough of a diagonal to go as far as the reach.
    """
    least_K = residual_K.abs().div_(reach).clamp_min_(_LEAST_DEGREE)
    roots_K = edges_KK.sum(dim=1).maximum(least_K).sqrt_()
    scaled_KK = -edges_KK / torch.outer(roots_K, roots_K)
    scaled_KK += torch.outer(roots_K, roots_K) / roots_K.square().sum()
    scaled_KK.diagonal().add_(1 + _RIDGE)
    factor_KK = torch.linalg.cholesky(scaled_KK)
    scaled_K1 = torch.cholesky_solve((residual_K / roots_K)[:, None], factor_KK)
    solution_K = scaled_K1[:, 0] / roots_K
    return solution_K - solution_K.mean()
