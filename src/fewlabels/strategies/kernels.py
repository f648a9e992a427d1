"""Which kernel a strategy looks through: by name, by rank, or somebody's own."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from fewlabels import gram, search
from fewlabels.errors import Count, UsageError, check_finite_rows
from fewlabels.names import check_known, import_object
from fewlabels.pool import Pool, Record, take_rows
from fewlabels.protocols import Kernel, Outputs
from fewlabels.strategies.inputs import BuiltIn, Request, check_classes, network_inputs

KernelName = Literal["auto", "last-layer", "wide-head", "softmax", "ntk", "diffusion"]

KernelChoice = KernelName | str | Kernel | Callable[[Outputs, Pool], Kernel]
"""A name, a kernel, what makes one of outputs and pool, or where that is imported."""

MAX_ON_GRAPH = 20_000
"""How many candidates a graph is made of."""

_RANK_SHARE = 0.9
_NUM_PROBED = 32
_CHUNK = 4096
_ROUNDING = 1e-3
"""Share of the largest entry that single precision may leave between equal ones."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KernelStrategy(BuiltIn):
    """A strategy that compares items by a kernel."""

    kernel: Any = field(default="auto", metadata={"code": True})
    """``last-layer``, while its rank is large enough; else ``wide-head``. Your own:
    see :data:`fewlabels.strategies.kernels.KernelChoice`."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""

    def __post_init__(self) -> None:
        """Raise unless there is such a kernel, and ``normalize`` affects it."""
        super().__post_init__()
        if _is_own(self.kernel):
            given = _imported(self.kernel)
            if not callable(given) and not _is_kernel(given):
                raise UsageError(
                    f"kernel is {given!r}; give a name, a kernel, or its factory."
                )
        else:
            check_known("kernel", self.kernel, KernelName)
        if self.normalize and (_is_own(self.kernel) or self.kernel == "diffusion"):
            raise UsageError(f"normalize has no effect on {self.kernel!r}; omit it.")

    def among_candidates(
        self, request: Request, outputs: Outputs, weights: gram.Weights = "none"
    ) -> tuple[Kernel, Tensor, Record]:
        """Return the kernel, what may be chosen, and what to record of both."""
        is_graph = isinstance(self.kernel, str) and self.kernel == "diffusion"
        limit = MAX_ON_GRAPH if is_graph else len(request.pool)
        candidates, record = request.candidates(limit)
        among = candidates if record else None
        name, kernel = self.kernel_for(request, outputs, among, weights)
        return kernel, candidates, {"kernel": name, **record}

    def kernel_for(
        self,
        request: Request,
        outputs: Outputs,
        among: Tensor | None = None,
        weights: gram.Weights = "none",
    ) -> tuple[str, Kernel]:
        """Return the name of the kernel to use, and the kernel over the whole pool.

        ``"auto"`` decides in the first round, and later ones follow. The generator
        draws the sketch of a whole network's gradients. A graph is made of what is
        labeled and of the items ``among`` which there is something to choose; None: of
        all.
        """
        pool, features, normalize = request.pool, outputs.features, self.normalize
        kernel: Kernel
        name = self.kernel
        if _is_own(name):
            kernel = own_kernel(name, outputs, pool)
            given = _imported(name)
            if not isinstance(name, str):
                name = getattr(given, "__qualname__", type(given).__qualname__)
            _check_own(name, kernel, torch.cat([pool.labeled, pool.candidates]))
            return name, kernel
        if name == "auto":
            name = automatic_kernel(request, outputs)
        if name == "diffusion" and among is not None:
            items = torch.unique(torch.cat([among, pool.labeled]))
            graph = gram.diffusion_kernel(take_rows(features, items), weights=weights)
            kernel = _SubsetKernel(graph, items, len(pool))
        elif name == "diffusion":
            kernel = gram.diffusion_kernel(features, weights=weights)
        elif name == "wide-head":
            kernel = gram.wide_head_kernel(features, normalize=normalize)
        elif name == "softmax":
            check_classes(outputs.logits)
            kernel = gram.softmax_kernel(features, outputs.logits, normalize=normalize)
        elif name == "ntk":
            module, images = request.classifier.module, pool.images
            if module is None:
                raise UsageError(
                    "'ntk' needs the network; choose 'auto' or 'last-layer'."
                )
            kernel = gram.ntk_kernel(
                module,
                partial(network_inputs, request.classifier, images),
                len(pool),
                num_classes=pool.num_classes,
                generator=request.generator,
                normalize=normalize,
            )
        else:
            num_classes = pool.num_classes
            kernel = gram.last_layer_kernel(features, num_classes, normalize=normalize)
        return name, kernel


@dataclass(frozen=True)
class ProcessStrategy(KernelStrategy):
    """A strategy whose kernel is the prior covariance of a Gaussian process."""

    max_pool: Count = 20_000
    """How many candidates are looked at; of more, a random part."""
    num_references: Count = 2_000
    """Over how many items of the pool the mean is taken; of more, a random part."""

    def posterior(
        self, request: Request, outputs: Outputs, noise: float
    ) -> "tuple[search.Posterior, Record]":
        """Return covariances given what is labeled, and a record.

        Noise is given as a share of the mean k(i, i); of 1, where the kernel is zero.
        """
        pool = request.pool
        candidates, subsample = request.candidates(self.max_pool)
        references = request.part_of(torch.arange(len(pool)), self.num_references)
        among = torch.cat([candidates, references]) if subsample else None
        name, kernel = self.kernel_for(request, outputs, among)
        posterior = search.Posterior(
            kernel,
            labeled=pool.labeled,
            candidates=candidates,
            references=references,
            noise=noise * (float(kernel.diagonal(references).mean()) or 1.0),
        )
        return posterior, {"kernel": name, "references": len(references), **subsample}


@dataclass(frozen=True, eq=False)
class _SubsetKernel:
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


def own_kernel(choice: KernelChoice, outputs: Outputs, pool: Pool) -> Kernel:
    """Return somebody's own kernel, made for this pool if it has to be made."""
    kernel: Any = _imported(choice)
    if not _is_kernel(kernel):
        kernel = kernel(outputs, pool)
    if not _is_kernel(kernel):
        raise UsageError(
            f"{choice!r} gave a {type(kernel).__name__}; it lacks block or diagonal."
        )
    if kernel.num_items != len(pool):
        raise UsageError(
            f"The kernel {choice!r} has {kernel.num_items} items; give all {len(pool)}."
        )
    own: Kernel = kernel
    return own


def _check_own(name: str, kernel: Kernel, items: Tensor) -> None:
    """Raise where a kernel breaks its promises between ``items`` and a few of them."""
    few = items[:: -(-len(items) // _NUM_PROBED) or 1]
    for part in torch.split(items, _CHUNK):
        _check_values(name, "diagonal", kernel.diagonal(part), part)
        _check_values(name, "block", kernel.block(part, few), part, few)
    block, diagonal = kernel.block(few, few).double(), kernel.diagonal(few).double()
    rounding = _ROUNDING * float(block.abs().max())
    for values, equal, rule in (
        (block, block.mT, "block(a, b) is block(b, a) transposed"),
        (block.diagonal(), diagonal, "diagonal(a) is the diagonal of block(a, a)"),
    ):
        difference = float((values - equal).abs().max())
        if difference > rounding:
            raise UsageError(f"The kernel {name!r} is off by {difference:.3g}: {rule}.")


def _check_values(name: str, method: str, values: Any, *items: Tensor) -> None:
    """Raise unless a kernel's method returned finite values, one per item or pair."""
    shape = tuple(len(given) for given in items)
    if not isinstance(values, Tensor) or values.shape != shape:
        seen = f"{type(values).__name__} {tuple(getattr(values, 'shape', ()))}"
        raise UsageError(
            f"{method} of kernel {name!r} returned a {seen}; return a Tensor {shape}."
        )
    is_bad = ~values.isfinite().reshape(len(items[0]), -1).all(1).cpu()
    what = f"items in {method} of the kernel {name!r}"
    check_finite_rows(what, items[0][is_bad], len(is_bad), "correct the kernel")


def _is_own(choice: KernelChoice) -> bool:
    return not isinstance(choice, str) or ":" in choice


def _imported(choice: KernelChoice) -> Any:
    return import_object("kernel", choice) if isinstance(choice, str) else choice


def _is_kernel(thing: Any) -> bool:
    methods = [getattr(thing, name, None) for name in ("diagonal", "block")]
    is_object = not isinstance(thing, type) and hasattr(thing, "num_items")
    return is_object and all(map(callable, methods))


def automatic_kernel(request: Request, outputs: Outputs) -> str:
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
