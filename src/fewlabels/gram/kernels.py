"""Kernels in closed form: of features, and of gradients by the last layer.

Feature rows [h; 1] come from memory or from a file. They are converted to float64 as
they are taken, so a pool of float16 or float32 rows, or a memory map that does not fit
into memory, costs no more than what is asked for.

Shapes::

    N items in the pool    n items of a chunk    S members of a set
    C classes    F penultimate features
    r, c rows and columns of a block; leading axes are bulk
    k pairs of a block whose rows are nearly parallel
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.errors import ShapeError, check_count
from fewlabels.names import check_known
from fewlabels.pool import MappedRows, Matrix, Rows, as_rows, take_rows, to_numpy
from fewlabels.progress import current_executor
from fewlabels.protocols import InnerProduct

Blocks = Literal["trace", "full"]
Weights = Literal["none", "influence"]
"""How much items count in a kernel: all the same, or by their influence."""

_CHUNK_BYTES = 32 * 2**20
_MOST_CONVERTED = 256 * 2**20  # bytes of double rows that are kept
_SHORTEST = 1e-12  # as torch.nn.functional.normalize has it
_FEW_COLUMNS = 64
_SPREAD = 1.25  # rows to read in one piece, for each that is asked for
_NEARLY_PARALLEL = 1 - 1e-4
_CHUNK_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class DoubleRows:
    """Rows in double precision, on the device of the features."""

    features: Rows
    """Shape (N, F), any floating type."""
    has_bias: bool = False
    """Whether a 1 is appended to each row."""
    is_normalized: bool = False
    """Whether each row, with its 1, is scaled to length one."""
    name: str = "features"
    """What to call the rows in a message."""
    center: Tensor | None = None
    """What is subtracted from each row first, shape (F,), float64."""

    def __post_init__(self) -> None:
        """Check that there is one row per item."""
        if self.features.ndim != 2:
            raise ShapeError(
                f"{self.name} have shape {tuple(self.features.shape)}; give (N, F)."
            )

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return len(self.features)

    @property
    def device(self) -> torch.device:
        """Where the rows are, or are read to."""
        return self.features.device

    @property
    def width(self) -> int:
        """Length of a row."""
        return int(self.features.shape[1]) + self.has_bias

    def take(self, items: Tensor) -> Tensor:
        """Return the rows of ``items``, (..., n) to (..., n, width)."""
        rows = self._read(items)
        if self.has_bias:
            rows = torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)
        if self.is_normalized:
            rows = torch.nn.functional.normalize(rows, dim=-1)
        return rows

    def logit_rows(self, logits: Matrix) -> "DoubleRows":
        """Return logits, shape (N, C), as rows; raise unless there is one per item."""
        outputs = DoubleRows(as_rows(logits), name="logits")
        check_count("logits", outputs.num_items, self.num_items, "row of features")
        return outputs

    def products(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the inner products of rows, (..., r) and (..., c) to (..., r, c).

        The appended 1 is added and lengths are divided out afterwards, which spares a
        copy of all rows. For a few columns even gathering the rows would cost more than
        their products: rows that lie close together are then read as one piece.
        """
        piece = self._piece(rows, columns)
        if piece is not None:
            left = self.features[piece].to(torch.float64)
            left = left if self.center is None else left - self.center
            products = self._products(left, self._read(columns))
            return products[rows.to(self.device) - piece.start]
        left = self._read(rows)
        return self._products(left, left if columns is rows else self._read(columns))

    def _products(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the products of rows that were read, with appended 1 and lengths."""
        is_tall = right.shape[-2] <= _FEW_COLUMNS < left.shape[-2]
        # With few columns, the product takes twice as long in the other order.
        products = (right @ left.mT).mT if is_tall else left @ right.mT
        if self.has_bias:
            products += 1
        if self.is_normalized:
            products /= self._lengths(left)[..., :, None]
            products /= self._lengths(right)[..., None, :]
        return products

    def squared_lengths(self, items: Tensor) -> Tensor:
        """Return the squared length of each row, in the shape of ``items``.

        Rows are taken in chunks: the lengths of a whole pool may fit into memory where
        its rows do not.
        """
        return self._of_each(items, lambda part: self.take(part).square().sum(-1))

    def self_products(self, items: Tensor) -> Tensor:
        """Return what :meth:`products` gives for an item and itself, streamed."""
        if self.is_normalized:
            return self.squared_lengths(items)
        return self._of_each(items, lambda part: self._squares(self._read(part)))

    def _of_each(self, items: Tensor, number: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a number for each item, a chunk at a time, in the shape of ``items``.

        The output is allocated first: results that are allocated between chunks would
        fragment the memory that the chunks use.
        """
        numbers = torch.empty(items.numel(), dtype=torch.float64, device=self.device)
        start = 0
        for part in self.chunks(items):
            numbers[start : start + len(part)] = number(part)
            start += len(part)
        return numbers.reshape(items.shape)

    def _squares(self, plain_nF: Tensor) -> Tensor:
        return plain_nF.square().sum(dim=-1) + float(self.has_bias)

    def _lengths(self, plain_nF: Tensor) -> Tensor:
        return self._squares(plain_nF).sqrt().clamp_min(_SHORTEST)

    def chunks(self, items: Tensor) -> Iterator[Tensor]:
        """Yield ``items``, flattened, in parts whose rows fit into bounded memory."""
        length = max(1, _CHUNK_BYTES // (8 * self.width))
        yield from torch.split(items.flatten(), length)

    def row_scales(self) -> NDArray[np.float64]:
        """Return what each row is multiplied by: 1, or the inverse of its length."""
        if not self.is_normalized:
            return np.ones(self.num_items)
        every = torch.arange(self.num_items)
        lengths = self._of_each(every, lambda part: self._lengths(self._read(part)))
        return (1 / lengths).cpu().numpy()

    def mean(self) -> Tensor:
        """Return the mean of all rows, streamed; zero where there are none."""
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        for part in self.chunks(torch.arange(self.num_items)):
            total += self.take(part).sum(dim=0)
        return total / max(1, self.num_items)

    def part(self, items: Tensor) -> "DoubleRows":
        """Return the rows of some items alone; those of a file are not read yet."""
        return replace(self, features=take_rows(self.features, items))

    def in_double(self) -> "DoubleRows":
        """Return the same rows, converted and scaled once where they are few."""
        if self.num_items * self.features.shape[1] * 8 > _MOST_CONVERTED:
            return self
        if current_executor() is not None and isinstance(self.features, MappedRows):
            return self  # which travel as a path
        rows = self._read(torch.arange(self.num_items))
        is_normalized = self.is_normalized and self.has_bias  # else from here on
        if self.is_normalized and not self.has_bias:
            for part in torch.split(rows, _FEW_COLUMNS):
                part.div_(self._lengths(part)[:, None])
        return replace(self, features=rows, center=None, is_normalized=is_normalized)

    def _piece(self, rows: Tensor, columns: Tensor) -> slice | None:
        """Return the piece of the pool that holds ``rows``, if it is hardly longer."""
        if rows.ndim > 1 or columns.ndim > 1:
            return None
        if not len(columns) <= _FEW_COLUMNS < len(rows):
            return None
        low, high = map(int, torch.aminmax(rows))
        piece = slice(low, high + 1)
        return piece if high + 1 - low <= _SPREAD * len(rows) else None

    def _read(self, items: Tensor) -> Tensor:
        rows = self.features[items.to(self.device)].to(torch.float64)
        return rows if self.center is None else rows.sub_(self.center)


@dataclass(frozen=True, eq=False)
class RowKernel:
    """A kernel that is computed from one row per item."""

    rows: DoubleRows

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return self.rows.num_items


@dataclass(frozen=True, eq=False)
class LinearKernel(RowKernel):
    """k(i, j) = scale * row i . row j."""

    scale: float = 1.0

    @property
    def rank_bound(self) -> int:
        """Length of a row: no Gram matrix has a higher rank."""
        return self.rows.width

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.scale * self.rows.self_products(items)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        return self.rows.products(rows, columns).mul_(self.scale)

    def inner_product(self) -> InnerProduct | None:
        """Return the form that compiled code works on, if rows are in memory here."""
        rows, features = self.rows, self.rows.features
        is_plain = features.dtype in {torch.float32, torch.float64}
        if rows.center is not None or rows.device.type != "cpu" or not is_plain:
            return None
        own = features if isinstance(features, MappedRows) else to_numpy(features)
        scales = rows.row_scales() * self.scale**0.5
        return InnerProduct(own, scales, float(rows.has_bias))


def euclidean_kernel(features: Matrix, *, normalize: bool = False) -> LinearKernel:
    """Dot product of rows, whose distances are the Euclidean ones.

    The mean of all rows is subtracted: distances stay the same, and rounding takes
    much less from them.

    Args:
        features: Shape (N, F).
        normalize: Whether to scale rows to length one instead of centering them.

    Returns:
        The kernel over all N items.

    Example:
        >>> import torch
        >>> kernel = euclidean_kernel(torch.tensor([[1e8, 0.0], [1e8, 2.0]]))
        >>> kernel.diagonal(torch.arange(2)).tolist()
        [1.0, 1.0]
    """
    rows = DoubleRows(as_rows(features), is_normalized=normalize)
    if not normalize:
        rows = replace(rows, center=rows.mean())
    return LinearKernel(rows.in_double())


def last_layer_kernel(
    features: Matrix,
    num_classes: int,
    *,
    bias: bool = True,
    normalize: bool = False,
    blocks: Blocks = "trace",
) -> LinearKernel:
    """Gram kernel of the last layer's gradients, class blocks replaced by their trace.

    NPC paper, Sec. 3.4. The last layer is linear, so the gradient of logit c is (h, 1)
    in the slot of class c, the block of two items is (h.h' + 1) times the identity, and
    its trace is C (h.h' + 1). No automatic differentiation is needed, and the rank is
    at most F + 1: past that many items, every set has the smallest eigenvalue zero.

    Keeping the blocks whole would give the (S C, S C) matrix of all pairs of item and
    class, the Kronecker product of (h.h' + 1) and the identity. Its eigenvalues are
    those of (h.h' + 1), C times each: the trace only multiplies them by C, and both
    forms choose the same sets. ``blocks="full"`` therefore leaves the factor C out, so
    that spectra and step limits are those of the whole matrix.

    Args:
        features: Inputs of the last layer, shape (N, F); a tensor on any device, an
            array or a memory map.
        num_classes: Number of classes C.
        bias: Whether the last layer has a bias, which adds the 1.
        normalize: Whether gradients are scaled to length one first, as in the example
            of Sec. 3.3; otherwise long gradients are preferred.
        blocks: ``"trace"`` (the paper), or ``"full"`` for the eigenvalues of the matrix
            with whole class blocks.

    Returns:
        The kernel over all N items.

    Example:
        >>> import torch
        >>> kernel = last_layer_kernel(torch.eye(3), num_classes=2)
        >>> kernel.block(torch.tensor([0]), torch.tensor([0, 1])).tolist()
        [[4.0, 2.0]]
    """
    check_known("form of the class blocks", blocks, Blocks)
    scale = num_classes if blocks == "trace" else 1
    return LinearKernel(DoubleRows(as_rows(features), bias, normalize), scale)


@dataclass(frozen=True, eq=False)
class GradientEmbeddingKernel(RowKernel):
    """(a.a') (h.h'): see :func:`gradient_embedding_kernel`."""

    errors: DoubleRows
    """a = e_ŷ - p of each item, shape (N, C)."""

    @property
    def rank_bound(self) -> int:
        """F (C - 1): the entries of a sum to zero."""
        return self.rows.width * (self.errors.width - 1)

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.rows.self_products(items) * self.errors.self_products(items)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        products = self.rows.products(rows, columns)
        return products.mul_(self.errors.products(rows, columns).to(products.device))

    def part(self, items: Tensor) -> "GradientEmbeddingKernel":
        """Return the kernel of some items alone, which are numbered from 0 on."""
        return GradientEmbeddingKernel(self.rows.part(items), self.errors.part(items))


def gradient_embedding_kernel(
    features: Matrix, logits: Matrix
) -> GradientEmbeddingKernel:
    """Inner product of BADGE's gradient embeddings, which are never written out.

    The gradient of the cross-entropy of the predicted class ŷ with respect to the last
    layer's weights is (p - e_ŷ) hᵀ (Ash et al., 2020, Sec. 3), a matrix of C x F
    numbers. The inner product of two such gradients is

        (a.a') (h.h'),   a = e_ŷ - p,

    so C + F numbers per item are enough. The bias is left out, as in the authors' code.
    1 - p_ŷ is the sum of the other probabilities, which is accurate even if p_ŷ ≈ 1.

    Args:
        features: Inputs of the last layer, shape (N, F).
        logits: Outputs of the last layer, shape (N, C).

    Returns:
        The kernel over all N items.

    Example:
        >>> kernel = gradient_embedding_kernel(torch.ones(2, 3), torch.zeros(2, 2))
        >>> kernel.diagonal(torch.arange(2)).tolist()  # |(1/2, -1/2)|² |(1, 1, 1)|²
        [1.5, 1.5]
    """
    rows = DoubleRows(as_rows(features))
    outputs = rows.logit_rows(logits)
    dtype = torch.promote_types(outputs.features.dtype, torch.float32)
    size = outputs.num_items, outputs.width
    errors_NC = torch.empty(size, dtype=dtype, device=outputs.device)
    for part in outputs.chunks(torch.arange(outputs.num_items)):
        logits_nC = outputs.take(part)
        predicted_n1 = logits_nC.argmax(dim=-1, keepdim=True)
        others_nC = logits_nC.softmax(dim=-1).scatter_(-1, predicted_n1, 0)
        doubt_n1 = others_nC.sum(dim=-1, keepdim=True)
        gaps_nC = others_nC.neg().scatter_(-1, predicted_n1, doubt_n1)
        errors_NC[part] = gaps_nC.to(dtype)
    errors = DoubleRows(errors_NC, name="errors")
    return GradientEmbeddingKernel(rows.in_double(), errors.in_double())


@dataclass(frozen=True, eq=False)
class SoftmaxKernel(RowKernel):
    """(h.h' + 1) tr[J(p) J(p')]: see :func:`softmax_kernel`."""

    logits: DoubleRows

    @property
    def rank_bound(self) -> int:
        """(F + 1) C (C - 1) / 2: J is symmetric, and its rows sum to zero."""
        num_classes = self.logits.width
        return self.rows.width * num_classes * (num_classes - 1) // 2

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        traces = []
        for part in self.logits.chunks(items):
            p_nC, spread_nC = self._predictions(part)
            squares_nC = p_nC.square()
            cross_n = squares_nC.sum(-1).square() - squares_nC.square().sum(-1)
            traces.append(spread_nC.square().sum(-1) + cross_n)
        return self.rows.squared_lengths(items) * torch.cat(traces).reshape(items.shape)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        products_rc = self.rows.products(rows, columns)
        p_rC, spread_rC = self._predictions(rows)
        q_cC, spread_cC = self._predictions(columns)
        both_rc = p_rC @ q_cC.mT
        cross_rc = both_rc.square() - p_rC.square() @ q_cC.square().mT
        block: Tensor = products_rc * (spread_rC @ spread_cC.mT + cross_rc)
        return block

    def _predictions(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return p and p (1 - p), on the device of the features.

        1 - p is the sum of the other probabilities: subtracting would leave nothing of
        the doubt about a nearly certain prediction.
        """
        p_nC = torch.softmax(self.logits.take(items), dim=-1)
        p_nC = p_nC.to(self.rows.device)
        others_CC = 1 - torch.eye(p_nC.shape[-1], dtype=p_nC.dtype, device=p_nC.device)
        return p_nC, p_nC * (p_nC @ others_CC)


def softmax_kernel(
    features: Matrix, logits: Matrix, *, normalize: bool = False
) -> SoftmaxKernel:
    """Gram kernel of the last layer's gradients through the softmax.

    As in the NPC paper, Sec. 3.4, but for the probabilities p = softmax(z) instead of
    the logits z = W h + b. With the Jacobian J(p) = diag p - p pᵀ of the softmax, the
    gradient of p_c by the weights of logit d is J(p)_cd (h, 1). Two items have the
    class block (h.h' + 1) J(p) J(p')ᵀ, and its trace is

        (h.h' + 1) tr[J(p) J(q)],
        tr[J(p) J(q)] = Σ p q - Σ p² q - Σ p q² + (p.q)²
                      = Σ p (1 - p) q (1 - q) + (p.q)² - Σ p² q².

    The second form is computed. Items that are predicted with certainty have J = 0:
    the kernel sees doubt as well as place, and dies where predictions saturate. Its
    error is a few roundings of (h.h' + 1), so doubts below about 1e-8 count as none.

    Args:
        features: Inputs of the last layer, shape (N, F).
        logits: Outputs of the last layer, shape (N, C).
        normalize: Whether rows [h; 1] are scaled to length one first; J keeps its
            length, which is the doubt.

    Returns:
        The kernel over all N items.

    Example:
        >>> sure_of_one = torch.tensor([[0.0, 0.0], [9.0, -9.0]])
        >>> kernel = softmax_kernel(torch.zeros(2, 3), sure_of_one)
        >>> doubtful, sure = kernel.diagonal(torch.arange(2)).tolist()
        >>> round(doubtful, 6), round(sure, 6)
        (0.25, 0.0)
    """
    rows = DoubleRows(as_rows(features), has_bias=True, is_normalized=normalize)
    return SoftmaxKernel(rows, rows.logit_rows(logits))


@dataclass(frozen=True, eq=False)
class WideHeadKernel(RowKernel):
    """Tangent kernel of a wide ReLU layer: see :func:`wide_head_kernel`.

    Angles are taken between rows [h; 1] in their own length.
    """

    is_normalized: bool
    """Whether all rows count as if their length were one."""

    @property
    def rank_bound(self) -> None:
        """No bound: the kernel is positive definite on rows that are not parallel."""
        return

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        squares = self.rows.squared_lengths(items)
        return 2 * (torch.ones_like(squares) if self.is_normalized else squares)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        left, right = self.rows.take(rows), self.rows.take(columns)
        left_squares = left.square().sum(-1)[..., :, None]
        right_squares = right.square().sum(-1)[..., None, :]
        # The root of the product, not the product of roots: of a square it is exact.
        lengths_rc = (left_squares * right_squares).sqrt()
        angle_rc = _angles(left, right, left @ right.mT / lengths_rc)
        share_rc = 1 - angle_rc / torch.pi
        value_rc = angle_rc.sin() / torch.pi + 2 * share_rc * angle_rc.cos()
        return value_rc if self.is_normalized else lengths_rc * value_rc


def wide_head_kernel(features: Matrix, *, normalize: bool = False) -> WideHeadKernel:
    """Tangent kernel of an infinitely wide ReLU layer on [h; 1].

    k(x, x') = |x| |x'| (κ₁(cos) + cos κ₀(cos)) with the arc-cosine kernels of order
    zero and one (Cho and Saul, 2009): the two summands are the gradients of the outer
    and of the inner weights. With the angle θ between the rows that is
    |x| |x'| (sin θ / π + 2 (1 - θ / π) cos θ). It costs as much as a dot product and
    stays positive definite where the last layer's kernel has run out of rank, as long
    as no two rows are parallel.

    Near copies differ by k(x, x) - k(x, x') ≈ |x|² θ / π. An arc cosine would lose half
    the digits there, so nearly parallel rows are compared through their difference:
    entries are right to 1e-14 |x| |x'| at any angle (to 1e-15 below .01), and equal
    rows give exactly the diagonal.

    Args:
        features: Inputs of the last layer, shape (N, F).
        normalize: Whether rows [h; 1] are scaled to length one first.

    Returns:
        The kernel over all N items.
    """
    return WideHeadKernel(DoubleRows(as_rows(features), has_bias=True), normalize)


def _angles(left: Tensor, right: Tensor, cosine_rc: Tensor) -> Tensor:
    """Return the angles between all rows, with all digits where rows are near.

    The difference d = x - sign y of two nearly parallel rows is exact or nearly so. Its
    part at right angles to x has the length |y| sin θ.
    """
    angle_rc = torch.arccos(cosine_rc.clamp(-1, 1))
    pairs = torch.nonzero(cosine_rc.abs() > _NEARLY_PARALLEL)
    for part in torch.split(pairs, max(1, _CHUNK_NUMBERS // left.shape[-1])):
        *bulk, row, column = part.unbind(dim=1)
        places = (*bulk, row, column)
        sign_k = cosine_rc[places].sign()
        x_k, y_k = left[*bulk, row], right[*bulk, column]
        d_k = x_k - sign_k[:, None] * y_k
        along_k = (x_k * d_k).sum(-1) / x_k.square().sum(-1)
        across_k = (d_k - along_k[:, None] * x_k).norm(dim=-1)
        small_k = torch.arcsin((across_k / y_k.norm(dim=-1)).clamp(max=1))
        angle_rc[places] = torch.where(sign_k > 0, small_k, torch.pi - small_k)
    return angle_rc


def class_factors(logits_nC: Tensor) -> Tensor:
    """Return A with the columns √p_c (p - e_c), so that A Aᵀ = diag p - p pᵀ.

    (p - e_c) ⊗ h is the gradient of the loss for class c, which has probability p_c.
    Under the classifier's own predictions, the Fisher information of an item about the
    last layer's weights is therefore (A Aᵀ) ⊗ (h hᵀ).

    Args:
        logits_nC: Output before softmax.

    Returns:
        Shape (n, C, C), float64.
    """
    p_nC = logits_nC.to(torch.float64).softmax(dim=1)
    gaps_nCC = p_nC[:, :, None] - torch.eye(p_nC.shape[1], dtype=p_nC.dtype)
    return gaps_nCC * p_nC.sqrt()[:, None, :]


def binary_factors(logits_nC: Tensor) -> Tensor:
    """Return √(p (1 - p)) of the most likely class, as if it were right or wrong.

    1 - p is the sum of the others' probabilities: subtracting would leave nothing of
    the doubt about a nearly certain prediction.

    Args:
        logits_nC: Output before softmax.

    Returns:
        Shape (n, 1, 1), in the type of the logits.
    """
    others = logits_nC.softmax(dim=1)
    largest, place = others.max(dim=1, keepdim=True)
    others = others.scatter(1, place, 0.0)
    return (largest * others.sum(dim=1, keepdim=True)).sqrt()[:, :, None]
