"""Tangent kernel of a whole network: sketched for a pool, exact for a few items.

Shapes::

    N items in the pool    n items of a chunk    C classes
    P parameters    W buckets of one sketch    D entries of a sketched row
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fewlabels.errors import UsageError
from fewlabels.gram.linear import LinearKernel
from fewlabels.gram.rows import DoubleRows
from fewlabels.gram.tangents import Layers, Tangents, evaluating


class TangentKernel(LinearKernel):
    """Dot products of sketched gradients: see :func:`ntk_kernel`."""


def ntk_kernel(
    module: nn.Module,
    inputs: Callable[[Tensor], Tensor],
    num_items: int,
    *,
    num_classes: int,
    generator: Generator,
    sketch_width: int = 2048,
    num_sketches: int = 8,
    layers: Layers = "all",
    normalize: bool = False,
    chunk_size: int = 32,
) -> TangentKernel:
    """Empirical tangent kernel of a network, sketched once for the whole pool.

    K(x, x') = Σ_c ⟨∇f_c(x), ∇f_c(x')⟩, the sum over all layers in the NPC paper,
    Sec. 3.4, with class blocks replaced by their trace. Each of the S sketches takes
    one random direction q of the class space, the gradient g of √C q.f(x), and its
    CountSketch (Charikar, Chen and Farach-Colton, 2002): P signs, and sums over W = D/S
    random buckets. The S sketches side by side, divided by √S, are the row of an item,
    and the product of two rows is an unbiased estimate of K(x, x').

    Its variance is the sum of two parts (B the C x C matrix of products of the class
    gradients of x and x', symmetrized; for S up to C)::

        buckets:  at most (E|g|² |g'|² + E⟨g, g'⟩²) / D
        classes:  2 C (C - S) / (S (C - 1) (C + 2)) (|B|² - tr(B)² / C)

    Directions are orthonormal within every C sketches, so the second part vanishes when
    S is a multiple of C, at the same D; time grows with S, memory does not. The
    estimate's error does not respect the inequality between layers, and its rank is at
    most D.

    Args:
        module: Any network that maps float inputs (n, ...) to logits (n, C). It is used
            in evaluation mode and left in the mode it was in.
        inputs: Gives the network's inputs for a tensor of indices, for example
            ``lambda indices: as_input(images.read(indices))``.
        num_items: Size of the whole pool, N.
        num_classes: Number of classes C.
        generator: Source of class directions, signs and buckets.
        sketch_width: Length of a row, D; a multiple of ``num_sketches``. The pool takes
            4 N D bytes.
        num_sketches: Number of sketches S; one backward pass over the pool for each.
        layers: ``"all"``, or how many of the modules that own parameters themselves
            take part, counted from the last one registered.
        normalize: Whether rows are scaled to length one.
        chunk_size: Items whose gradients are in memory at a time.

    Returns:
        The kernel over all N items, on the network's device.

    Raises:
        UsageError: If the sketches do not share the width evenly.
    """
    if not 1 <= num_sketches <= sketch_width or sketch_width % num_sketches:
        raise UsageError(
            f"sketch_width is {sketch_width} and num_sketches is {num_sketches}; every "
            "sketch gets the same number of buckets, so the width has to be a multiple "
            "of the number, for example 2048 and 8."
        )
    tangents = Tangents.of(module, layers)
    sketches = [
        _Sketch.draw(direction, tangents.sizes, sketch_width // num_sketches, generator)
        for direction in _directions(num_classes, num_sketches, generator)
    ]
    rows_ND = torch.empty(num_items, sketch_width, device=tangents.device)
    with evaluating(module):
        for items in torch.split(torch.arange(num_items), chunk_size):
            chunk = inputs(items).to(tangents.device)
            parts = [sketch.rows(tangents, chunk) for sketch in sketches]
            rows_ND[items] = torch.cat(parts, dim=1).float()
    rows_ND /= math.sqrt(num_sketches)
    return TangentKernel(DoubleRows(rows_ND, has_bias=False, is_normalized=normalize))


def exact_ntk_gram(
    module: nn.Module,
    inputs: Tensor,
    *,
    num_classes: int,
    layers: Layers = "all",
    chunk_size: int = 32,
) -> Tensor:
    """Empirical tangent kernel of a few items, without a sketch.

    Σ_c G_c G_cᵀ over the gradients G_c of the logits, so that one class at a time is in
    memory: n P numbers. For diagnosis and for small networks; a pool takes
    :func:`ntk_kernel`.

    Args:
        module: Any network that maps float inputs (n, ...) to logits (n, C). It is used
            in evaluation mode and left in the mode it was in.
        inputs: The network's inputs, shape (n, ...).
        num_classes: Number of classes C.
        layers: As in :func:`ntk_kernel`.
        chunk_size: Items whose gradients are computed at a time.

    Returns:
        The Gram matrix in float64, shape (n, n), on the network's device.
    """
    tangents = Tangents.of(module, layers)
    chunks = torch.split(inputs.to(tangents.device), chunk_size)
    num_items = len(inputs)
    gram_nn = torch.zeros(
        num_items, num_items, dtype=torch.float64, device=tangents.device
    )
    with evaluating(module):
        for direction in torch.eye(num_classes):
            parts = [torch.cat(tangents.gradients(c, direction), dim=1) for c in chunks]
            gradients_nP = torch.cat(parts).double()
            gram_nn += gradients_nP @ gradients_nP.T
    return gram_nn


@dataclass(frozen=True, eq=False)
class _Sketch:
    """One direction of the class space, and a CountSketch of the gradient along it."""

    direction: Tensor
    buckets: tuple[Tensor, ...]
    signs: tuple[Tensor, ...]
    width: int

    @classmethod
    def draw(
        cls, direction: Tensor, sizes: list[int], width: int, generator: Generator
    ) -> "_Sketch":
        num_parameters = sum(sizes)
        buckets = torch.randint(width, (num_parameters,), generator=generator)
        signs = 2 * torch.randint(2, (num_parameters,), generator=generator) - 1
        return cls(
            direction,
            torch.split(buckets.int(), sizes),
            torch.split(signs.to(torch.int8), sizes),
            width,
        )

    def rows(self, tangents: Tangents, chunk: Tensor) -> Tensor:
        """Return the sketched gradients of a chunk, shape (n, W)."""
        gradients = tangents.gradients(chunk, self.direction)
        rows_nW = gradients[0].new_zeros(len(chunk), self.width)
        for part, buckets, signs in zip(
            gradients, self.buckets, self.signs, strict=True
        ):
            rows_nW.index_add_(1, buckets.to(part.device), part * signs.to(part.device))
        return rows_nW


def _directions(num_classes: int, count: int, generator: Generator) -> Tensor:
    """Return random vectors with E[r rᵀ] = I, orthogonal within every C of them."""
    shape = (-(-count // num_classes), num_classes, num_classes)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    factor = torch.linalg.qr(normal)
    # With the signs of the diagonal, the orthogonal factor is uniformly distributed.
    frames = factor.Q * factor.R.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    directions: Tensor = frames.mT.reshape(-1, num_classes)[:count]
    return directions * math.sqrt(num_classes)
