"""Which kernel a strategy looks through: by name, by rank, or somebody's own."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Protocol

import torch
from torch import Generator, Tensor

from fewlabels import gram
from fewlabels.errors import NotFiniteError, UsageError
from fewlabels.matrices import Rows, rows_at
from fewlabels.models import as_input
from fewlabels.naming import check_known, imported
from fewlabels.pool import Pool, Round
from fewlabels.protocols import Classifier, Kernel, Outputs, OwnInputs
from fewlabels.strategies.inputs import Considered, considered

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


class Looking(Protocol):
    """A strategy that looks through a kernel."""

    @property
    def kernel(self) -> Any:
        """What was asked for: a :data:`KernelChoice`."""
        ...

    @property
    def normalize(self) -> bool:
        """Whether gradients are scaled to length one first."""
        ...


def check_kernel(strategy: Looking) -> None:
    """Raise where a kernel is misspelt, is none, or is not scaled as is asked for."""
    choice = strategy.kernel
    if isinstance(choice, str) and ":" not in choice:
        check_known("kernel", choice, KernelName)
        if choice == "diffusion" and strategy.normalize:
            raise UsageError(
                "normalize=True would do nothing: the diffusion kernel compares "
                "features by their direction already. Leave it out."
            )
        return
    found = _found(choice)
    if not callable(found) and not _is_kernel(found):
        raise UsageError(
            f"kernel is {found!r}; give a name, an object with num_items, rank_bound, "
            "diagonal and block, or a function that makes one of outputs and pool."
        )
    if strategy.normalize:
        raise UsageError(
            "normalize=True would do nothing: it scales the gradients of the built-in "
            "kernels. Scale the rows in your own kernel, or leave it out."
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
        places = (torch.searchsorted(self.items, one) for one in (rows, columns))
        return self.kernel.block(*places)


def candidates_for(
    strategy: Looking, pool: Pool, size: int, generator: Generator
) -> Considered:
    """Return what to look at: all candidates, or a part, if the kernel is a graph's."""
    is_graph = strategy.kernel == "diffusion"
    limit = MAX_ON_GRAPH if is_graph else len(pool.candidates)
    return considered(pool.candidates, limit, generator, at_least=size)


def kernel_for(
    strategy: Looking,
    classifier: Classifier,
    outputs: Outputs,
    pool: Pool,
    size: int,
    generator: Generator,
    history: Sequence[Round],
    *,
    weights: gram.Weights = "none",
    among: Tensor | None = None,
) -> tuple[str, Kernel]:
    """Return the name of the kernel to use, and the kernel over the whole pool.

    ``"auto"`` decides in the first round, and later ones follow. The generator draws
    the sketch of a whole network's gradients. A graph is made of what is labeled and of
    the items ``among`` which there is something to choose; None: of all.
    """
    choice = strategy.kernel
    if isinstance(choice, str) and ":" not in choice:
        name = _decided(choice, outputs.features, pool, size, history)
        if name == "diffusion":
            if among is None:
                return name, gram.diffusion_kernel(outputs.features, weights=weights)
            items = torch.unique(torch.cat([among, pool.labeled]))
            rows = rows_at(outputs.features, items)
            graph = gram.diffusion_kernel(rows, weights=weights)
            return name, _Among(graph, items, len(pool))
        scaled = strategy.normalize
        return name, _built_in(
            name, classifier, outputs, pool, generator, normalize=scaled
        )
    found = _found(choice)
    told = getattr(found, "__qualname__", type(found).__qualname__)
    name = choice if isinstance(choice, str) else told
    kernel = own_kernel(choice, outputs, pool)
    _check_own(name, kernel, torch.cat([pool.labeled, pool.candidates]))
    return name, kernel


def own_kernel(choice: KernelChoice, outputs: Outputs, pool: Pool) -> Kernel:
    """Return somebody's own kernel, made for this pool if it has to be made."""
    made: Any = _found(choice)
    if not _is_kernel(made):
        made = made(outputs, pool)
    if not _is_kernel(made):
        raise UsageError(
            f"The kernel {choice!r} made an object of type {type(made).__name__}; it "
            "needs num_items, rank_bound, diagonal(items) and block(rows, columns). "
            "See protocols.Kernel."
        )
    if made.num_items != len(pool):
        raise UsageError(
            f"The kernel {choice!r} has {made.num_items} items and the pool "
            f"{len(pool)}; an index is a position in the whole pool, so both must have "
            "the same items in the same order."
        )
    kernel: Kernel = made
    return kernel


def _check_own(name: str, kernel: Kernel, items: Tensor) -> None:
    """Raise where a kernel breaks its promises between ``items`` and a few of them."""
    bound: Any = getattr(kernel, "rank_bound", None)
    if bound is not None and not isinstance(bound, Integral):
        raise UsageError(
            f"rank_bound of the kernel {name!r} is {bound!r}; it is a whole number "
            "that no Gram matrix's rank exceeds, or None where none is known."
        )
    few = items[:: -(-len(items) // _NUM_PROBED) or 1]
    for start in range(0, len(items), _CHUNK):
        part = items[start : start + _CHUNK]
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
                f"{float((one - other).abs().max()):.3g} among {len(few)} items: "
                f"{rule} for every kernel, and choices rely on it."
            )


def _check_values(name: str, method: str, values: Any, *items: Tensor) -> None:
    """Raise unless a kernel's method returned finite values, one per item or pair."""
    if not isinstance(values, Tensor):
        raise UsageError(
            f"{method} of the kernel {name!r} returned an object of type "
            f"{type(values).__name__}; return a tensor, as torch.as_tensor makes one."
        )
    shape = tuple(len(given) for given in items)
    if values.shape != shape:
        raise UsageError(
            f"{method} of the kernel {name!r} returned the shape "
            f"{tuple(values.shape)} where {shape} was asked for; it is called with "
            "positions in the pool and returns one value per item or pair of items."
        )
    is_bad = ~values.isfinite().reshape(len(items[0]), -1).all(1)
    if is_bad.any():
        raise NotFiniteError(
            f"{method} of the kernel {name!r} is not finite for {int(is_bad.sum())} of "
            f"{len(is_bad)} items, first for item {int(items[0][is_bad.cpu()][0])}; no "
            "choice can be made with such values. Look for missing or overflowing "
            "numbers in what it is computed from."
        )


def _found(choice: KernelChoice) -> Any:
    return imported("kernel", choice) if isinstance(choice, str) else choice


def _is_kernel(thing: Any) -> bool:
    has_methods = all(callable(getattr(thing, name, None)) for name in _METHODS)
    return has_methods and not isinstance(thing, type) and hasattr(thing, "num_items")


def _decided(
    name: str, features: Rows, pool: Pool, size: int, history: Sequence[Round]
) -> str:
    """Return the kernel to use; ``auto`` decides in the first round, others follow.

    The last layer's Gram matrix has the rank of [H, 1] at most. It is taken while the
    labels at the end of the run need at most nine tenths of that, else the wide head.
    """
    if name != "auto":
        return name
    for earlier in history:
        if "kernel" in earlier.query.record:
            return str(earlier.query.record["kernel"])
    num_members = pool.budget or len(pool.labeled) + size
    rank = gram.numerical_rank(features)
    choice = "last-layer" if num_members <= _RANK_SHARE * rank else "wide-head"
    _log.info(
        "kernel %s: %d items to be labeled, %d independent gradient features",
        choice,
        num_members,
        rank,
    )
    return choice


def _built_in(
    name: str,
    classifier: Classifier,
    outputs: Outputs,
    pool: Pool,
    generator: Generator,
    *,
    normalize: bool,
) -> Kernel:
    if name == "wide-head":
        return gram.wide_head_kernel(outputs.features, normalize=normalize)
    if name == "softmax":
        if outputs.logits.shape[1] < 2:
            raise UsageError(
                f"The softmax kernel compares predictions, and there are "
                f"{outputs.logits.shape[1]} logits per item; pass logits with at least "
                "two classes, or choose another kernel."
            )
        return gram.softmax_kernel(
            outputs.features, outputs.logits, normalize=normalize
        )
    if name == "ntk":
        return _tangent_kernel(classifier, pool, generator, normalize=normalize)
    return gram.last_layer_kernel(
        outputs.features, pool.num_classes, normalize=normalize
    )


def check_share(name: str, share: float) -> None:
    """Raise unless ``share`` of a kernel's diagonal makes every Gram matrix regular."""
    if not 0 < share < float("inf"):
        raise UsageError(
            f"{name} is {share}; copies make a Gram matrix singular without it, so it "
            f"is a positive share of the kernel's mean diagonal, such as {1e-3}."
        )


def share_of_variance(share: float, kernel: Kernel, items: Tensor) -> float:
    """Return ``share`` of the mean k(i, i); of 1, where the kernel is zero."""
    return share * (float(kernel.diagonal(items).mean()) or 1.0)


def _tangent_kernel(
    classifier: Classifier, pool: Pool, generator: Generator, *, normalize: bool
) -> Kernel:
    """Return the sketched kernel of all layers' gradients."""
    if classifier.module is None:
        raise UsageError(
            "The 'ntk' kernel needs the network, and only its outputs are known; "
            "choose 'auto', 'last-layer', 'wide-head' or 'softmax'."
        )
    images = pool.images
    return gram.ntk_kernel(
        classifier.module,
        lambda indices: (
            classifier.inputs(images, indices)
            if isinstance(classifier, OwnInputs)
            else as_input(images.read(indices))
        ),
        len(pool),
        num_classes=pool.num_classes,
        generator=generator,
        normalize=normalize,
    )
