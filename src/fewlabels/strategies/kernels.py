"""Which kernel a strategy looks through: by name, by rank, or somebody's own."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import torch
from torch import Tensor

from fewlabels import gram
from fewlabels.errors import NotFiniteError, UsageError
from fewlabels.models import as_input
from fewlabels.names import check_known, import_object
from fewlabels.pool import Pool, take_rows
from fewlabels.protocols import Kernel, Outputs, OwnInputs
from fewlabels.strategies.inputs import Considered, Request, check_classes

KernelName = Literal["auto", "last-layer", "wide-head", "softmax", "ntk", "diffusion"]

KernelChoice = KernelName | str | Kernel | Callable[[Outputs, Pool], Kernel]
"""A name, a kernel, what makes one of outputs and pool, or where that is imported."""

MAX_ON_GRAPH = 20_000
"""How many candidates a graph is made of."""

_RANK_SHARE = 0.9
_METHODS = ("diagonal", "block")
_NUM_PROBED = 32
_CHUNK = 4096
_ROUNDING = 1e-3
"""Share of the largest entry that single precision may leave between equal ones."""
_log = logging.getLogger(__name__)


def check_kernel(choice: KernelChoice, *, normalize: bool) -> None:
    """Raise where a kernel is misspelt, is none, or is not scaled as is asked for."""
    is_own = not isinstance(choice, str) or ":" in choice
    if isinstance(choice, str) and not is_own:
        check_known("kernel", choice, KernelName)
    else:
        found = _found(choice)
        if not callable(found) and not _is_kernel(found):
            raise UsageError(
                f"kernel is {found!r}; give a name, an object with num_items, "
                "rank_bound, diagonal and block, or a function that makes one of "
                "outputs and pool."
            )
    if normalize and (is_own or choice == "diffusion"):
        raise UsageError(
            "normalize=True would do nothing: it scales the gradients of built-in "
            "kernels, not those of 'diffusion' or your own. Leave it out."
        )


@dataclass(frozen=True, eq=False)
class _Among:
    """A kernel over some items of a pool, asked by their places in the pool."""

    kernel: Kernel
    items: Tensor
    """Their places, ascending."""
    num_items: int

    @property
    def rank_bound(self) -> int | None:
        """That of the kernel."""
        return self.kernel.rank_bound

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.kernel.diagonal(torch.searchsorted(self.items, items))

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j) for all pairs."""
        places = (torch.searchsorted(self.items, items) for items in (rows, columns))
        return self.kernel.block(*places)


def candidates_for(choice: KernelChoice, request: Request) -> Considered:
    """Return what to look at: all candidates, or a part, if the kernel is a graph's."""
    is_graph = isinstance(choice, str) and choice == "diffusion"
    return request.considered(MAX_ON_GRAPH if is_graph else len(request.pool))


def kernel_for(
    choice: KernelChoice,
    request: Request,
    outputs: Outputs,
    *,
    normalize: bool,
    weights: gram.Weights = "none",
    among: Tensor | None = None,
) -> tuple[str, Kernel]:
    """Return the name of the kernel to use, and the kernel over the whole pool.

    ``"auto"`` decides in the first round, and later ones follow. The generator draws
    the sketch of a whole network's gradients. A graph is made of what is labeled and of
    the items ``among`` which there is something to choose; None: of all.
    """
    pool, features = request.pool, outputs.features
    kernel: Kernel
    if not isinstance(choice, str) or ":" in choice:
        found = _found(choice)
        told = getattr(found, "__qualname__", type(found).__qualname__)
        name = choice if isinstance(choice, str) else told
        kernel = own_kernel(choice, outputs, pool)
        _check_own(name, kernel, torch.cat([pool.labeled, pool.candidates]))
        return name, kernel
    name = _decided(request, outputs) if choice == "auto" else choice
    if name == "diffusion" and among is not None:
        items = torch.unique(torch.cat([among, pool.labeled]))
        graph = gram.diffusion_kernel(take_rows(features, items), weights=weights)
        kernel = _Among(graph, items, len(pool))
    elif name == "diffusion":
        kernel = gram.diffusion_kernel(features, weights=weights)
    elif name == "wide-head":
        kernel = gram.wide_head_kernel(features, normalize=normalize)
    elif name == "softmax":
        check_classes(outputs.logits)
        kernel = gram.softmax_kernel(features, outputs.logits, normalize=normalize)
    elif name == "ntk":
        kernel = _tangent_kernel(request, normalize=normalize)
    else:
        kernel = gram.last_layer_kernel(features, pool.num_classes, normalize=normalize)
    return name, kernel


def own_kernel(choice: KernelChoice, outputs: Outputs, pool: Pool) -> Kernel:
    """Return somebody's own kernel, made for this pool if it has to be made."""
    made: Any = _found(choice)
    if not _is_kernel(made):
        made = made(outputs, pool)
    if not _is_kernel(made):
        raise UsageError(
            f"The kernel {choice!r} made an object of type {type(made).__name__}; it "
            "needs num_items, rank_bound, diagonal(items) and block(rows, columns)."
        )
    if made.num_items != len(pool):
        raise UsageError(
            f"The kernel {choice!r} has {made.num_items} items and the pool "
            f"{len(pool)}; an index is a position in the whole pool, so make it of all."
        )
    kernel: Kernel = made
    return kernel


def _check_own(name: str, kernel: Kernel, items: Tensor) -> None:
    """Raise where a kernel breaks its promises between ``items`` and a few of them."""
    bound: Any = getattr(kernel, "rank_bound", None)
    if bound is not None and not isinstance(bound, Integral):
        raise UsageError(
            f"rank_bound of the kernel {name!r} is {bound!r}; it is a whole number "
            "that no Gram matrix's rank exceeds, or None."
        )
    few = items[:: -(-len(items) // _NUM_PROBED) or 1]
    for part in torch.split(items, _CHUNK):
        _check_values(name, "diagonal", kernel.diagonal(part), part)
        _check_values(name, "block", kernel.block(part, few), part, few)
    block, diagonal = kernel.block(few, few).double(), kernel.diagonal(few).double()
    rounding = _ROUNDING * float(block.abs().max())
    for one, other, rule in (
        (block, block.mT, "block(a, b) is block(b, a) transposed"),
        (block.diagonal(), diagonal, "diagonal(a) is the diagonal of block(a, a)"),
    ):
        if not torch.allclose(one, other, rtol=0, atol=rounding):
            raise UsageError(
                f"The kernel {name!r} contradicts itself by up to "
                f"{float((one - other).abs().max()):.3g}: {rule} for every kernel."
            )


def _check_values(name: str, method: str, values: Any, *items: Tensor) -> None:
    """Raise unless a kernel's method returned finite values, one per item or pair."""
    if not isinstance(values, Tensor):
        raise UsageError(
            f"{method} of the kernel {name!r} returned an object of type "
            f"{type(values).__name__}; return a tensor."
        )
    shape = tuple(len(given) for given in items)
    if values.shape != shape:
        raise UsageError(
            f"{method} of the kernel {name!r} returned the shape {tuple(values.shape)} "
            f"where {shape} was asked for; return one value per item or pair of items."
        )
    is_bad = ~values.isfinite().reshape(len(items[0]), -1).all(1)
    if is_bad.any():
        raise NotFiniteError(
            f"{method} of the kernel {name!r} is not finite for {int(is_bad.sum())} of "
            f"{len(is_bad)} items, first for item {int(items[0][is_bad.cpu()][0])}; "
            "look for missing or overflowing numbers in what it is computed from."
        )


def _found(choice: KernelChoice) -> Any:
    return import_object("kernel", choice) if isinstance(choice, str) else choice


def _is_kernel(thing: Any) -> bool:
    has_methods = all(callable(getattr(thing, name, None)) for name in _METHODS)
    return has_methods and not isinstance(thing, type) and hasattr(thing, "num_items")


def _decided(request: Request, outputs: Outputs) -> str:
    """Return the kernel that ``auto`` stands for; later rounds follow the first.

    The last layer's Gram matrix has the rank of [H, 1] at most. It is taken while the
    labels at the end of the run need at most nine tenths of that, else the wide head.
    """
    for earlier in request.history:
        if "kernel" in earlier.query.record:
            return str(earlier.query.record["kernel"])
    num_members = request.pool.budget or len(request.pool.labeled) + request.size
    rank = gram.numerical_rank(outputs.features)
    choice = "last-layer" if num_members <= _RANK_SHARE * rank else "wide-head"
    _log.info("kernel %s: %d items to label, rank %d", choice, num_members, rank)
    return choice


def _tangent_kernel(request: Request, *, normalize: bool) -> Kernel:
    """Return the sketched kernel of all layers' gradients."""
    classifier, pool = request.classifier, request.pool
    if classifier.module is None:
        raise UsageError(
            "The 'ntk' kernel needs the network, and only its outputs are known; "
            "choose 'auto', 'last-layer', 'wide-head' or 'softmax'."
        )

    def inputs(indices: Tensor) -> Tensor:
        if isinstance(classifier, OwnInputs):
            return classifier.inputs(pool.images, indices)
        return as_input(pool.images.read(indices))

    return gram.ntk_kernel(
        classifier.module,
        inputs,
        len(pool),
        num_classes=pool.num_classes,
        generator=request.generator,
        normalize=normalize,
    )


def share_of_variance(share: float, kernel: Kernel, items: Tensor) -> float:
    """Return ``share`` of the mean k(i, i); of 1, where the kernel is zero."""
    return share * (float(kernel.diagonal(items).mean()) or 1.0)
