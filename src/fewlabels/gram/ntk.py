"""Tangent kernel of a whole network: sketched for a pool, exact for a few items.

Shapes::

    N items in the pool    n items of a chunk    C classes
    P parameters    W buckets of one sketch    D entries of a sketched row
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call, grad, vmap

from fewlabels.errors import ShapeError, UsageError
from fewlabels.gram.kernels import DoubleRows, LinearKernel
from fewlabels.protocols import evaluation_mode

Layers = Literal["all"] | int
"""All parameters, or those of the last so many modules that own parameters."""


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
) -> LinearKernel:
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
            f"sketch_width {sketch_width} is no multiple of {num_sketches} sketches."
        )
    tangents = Tangents.of(module, layers)
    width, sizes, device = sketch_width // num_sketches, tangents.sizes, tangents.device
    sketches = []
    for direction in _directions(num_classes, num_sketches, generator):
        buckets = torch.randint(width, (sum(sizes),), generator=generator).int()
        signs = 2 * torch.randint(2, (sum(sizes),), generator=generator) - 1
        drawn = buckets.to(device), signs.to(device, torch.int8)
        sketches.append((direction, *(torch.split(part, sizes) for part in drawn)))
    rows_ND = torch.empty(num_items, sketch_width, device=device)
    with torch.no_grad(), evaluation_mode(module):
        for items in torch.split(torch.arange(num_items), chunk_size):
            chunk, parts = inputs(items).to(device), []
            for direction, *drawn_parts in sketches:
                gradients = tangents.gradients(chunk, direction)
                rows_nW = gradients[0].new_zeros(len(items), width)
                for part, places, sign in zip(gradients, *drawn_parts, strict=True):
                    rows_nW.index_add_(1, places, part * sign)
                parts.append(rows_nW)
            rows_ND[items] = torch.cat(parts, dim=1).float()
    rows_ND /= math.sqrt(num_sketches)
    return LinearKernel(DoubleRows(rows_ND, is_normalized=normalize))


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
    size = (len(inputs), len(inputs))
    gram_nn = torch.zeros(size, dtype=torch.float64, device=tangents.device)
    with torch.no_grad(), evaluation_mode(module):
        for direction in torch.eye(num_classes):
            parts = [torch.cat(tangents.gradients(c, direction), dim=1) for c in chunks]
            gradients_nP = torch.cat(parts).double()
            gram_nn += gradients_nP @ gradients_nP.T
    return gram_nn


@dataclass(frozen=True, eq=False)
class Tangents:
    """A network, and the parameters that its gradients are taken by."""

    module: nn.Module
    parameters: dict[str, Tensor]

    @classmethod
    def of(cls, module: nn.Module, layers: Layers) -> "Tangents":
        """Choose parameters, trainable or frozen: averaged weights are frozen too."""
        owners = [m for m in module.modules() if list(m.parameters(recurse=False))]
        count = len(owners) if layers == "all" else layers
        if not 1 <= count <= len(owners):
            raise UsageError(
                f"layers is {layers}, and {len(owners)} modules own parameters."
            )
        chosen = {id(p) for m in owners[-count:] for p in m.parameters(recurse=False)}
        named = module.named_parameters()
        return cls(module, {name: p.detach() for name, p in named if id(p) in chosen})

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(iter(self.parameters.values())).device

    @property
    def sizes(self) -> list[int]:
        """Number of entries of each parameter tensor."""
        return [parameter.numel() for parameter in self.parameters.values()]

    def gradients(self, chunk: Tensor, direction: Tensor) -> list[Tensor]:
        """Return the gradients of direction . f(x), (n, size) of each parameter."""

        def output(parameters: dict[str, Tensor], item: Tensor) -> Tensor:
            logits = functional_call(self.module, parameters, (item[None],))
            if logits.shape != (1, len(direction)):
                raise ShapeError(
                    f"The logits are {tuple(logits.shape)}, not (1, {len(direction)})."
                )
            weighted: Tensor = logits[0] @ direction.to(logits)
            return weighted

        per_item = vmap(grad(output), in_dims=(None, 0))(self.parameters, chunk)
        return [per_item[name].flatten(1) for name in self.parameters]


def _directions(num_classes: int, count: int, generator: Generator) -> Tensor:
    """Return random vectors with E[r rᵀ] = I, orthogonal within every C of them."""
    shape = (-(-count // num_classes), num_classes, num_classes)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    factor = torch.linalg.qr(normal)
    # With the signs of the diagonal, the orthogonal factor is uniformly distributed.
    frames = factor.Q * factor.R.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    directions: Tensor = frames.mT.reshape(-1, num_classes)[:count]
    return directions * math.sqrt(num_classes)
