"""Promises of kernels, one function each, checked on some of the items."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fewlabels.experiments.conformance import problems
from fewlabels.experiments.conformance.problems import Promise, Verdict, require
from fewlabels.protocols import Factored, InnerProduct, Kernel
from fewlabels.rng import stream
from fewlabels.search.inputs import least_eigenvalue

_MOST_ITEMS = 40
_CLOSE = 1e-5  # of the largest value; single precision does not reach it
_RANK_ZERO = 1e-9


@dataclass(eq=False)
class KernelTrial:
    """A kernel and its values for some items spread over the pool."""

    kernel: Kernel

    @cached_property
    def items(self) -> Tensor:
        """Up to forty items, the last one included."""
        num_items = self.kernel.num_items
        count = min(num_items, _MOST_ITEMS)
        return torch.arange(count) * (num_items - 1) // max(1, count - 1)

    @cached_property
    def gram(self) -> Tensor:
        """Values of all pairs of them."""
        return self.kernel.block(self.items, self.items)

    def compare(self, one: Tensor, other: Tensor, what: str) -> Verdict:
        """Raise unless two tensors are equal but for rounding."""
        shapes = f"{tuple(one.shape)} and {tuple(other.shape)}"
        require(one.shape == other.shape, f"{what} have the shapes {shapes}.")
        largest = float(self.gram.abs().max()) or 1.0
        share = float((one - other).abs().max()) / largest
        fault = f"{what} differ by up to {share:.2g} of the largest value."
        require(share <= _CLOSE, fault)
        return f"differ by {share:.1g} of the largest value at most"


def size(trial: KernelTrial) -> Verdict:
    """It says how many items there are, and how large its rank can be."""
    num_items: object = trial.kernel.num_items
    bound: object = trial.kernel.rank_bound
    is_size = isinstance(num_items, int) and num_items > 0
    require(is_size, f"num_items is {num_items!r}; give the size of the whole pool.")
    is_bound = bound is None or (isinstance(bound, int) and bound > 0)
    require(is_bound, f"rank_bound is {bound!r}; give the largest rank, or None.")
    return f"{num_items:,} items, rank_bound {bound}"


def values(trial: KernelTrial) -> Verdict:
    """Blocks and diagonals have the right shape and type, and are finite."""
    items, some = trial.items, trial.items[:2]
    block: Any = trial.kernel.block(items, some)
    diagonal: Any = trial.kernel.diagonal(items)
    for name, given, wanted in (
        ("block(rows, columns)", block, (len(items), len(some))),
        ("diagonal(items)", diagonal, (len(items),)),
    ):
        shape, dtype = tuple(getattr(given, "shape", ())), getattr(given, "dtype", None)
        require(
            isinstance(given, Tensor) and shape == wanted and dtype == torch.float64,
            f"{name} is a {type(given).__name__} of shape {shape} and type {dtype}; "
            f"give a tensor of shape {wanted} and type torch.float64.",
        )
        is_finite = bool(torch.isfinite(given).all())
        require(is_finite, f"{name} has NaN or infinity in it.")
    return f"float64, finite, {len(items)} items"


def many_blocks(trial: KernelTrial) -> Verdict:
    """Index sets with further axes give a block each."""
    rows = torch.stack([trial.items, trial.items.flip(0)])
    columns = rows[:, :2]
    blocks = trial.kernel.block(rows, columns)
    single = torch.stack([trial.kernel.block(rows[i], columns[i]) for i in (0, 1)])
    return trial.compare(blocks, single, "Blocks of two index sets and of one each")


def symmetric(trial: KernelTrial) -> Verdict:
    """k(i, j) = k(j, i)."""
    return trial.compare(trial.gram, trial.gram.mT, "k(i, j) and k(j, i)")


def diagonal(trial: KernelTrial) -> Verdict:
    """The diagonal is that of the block."""
    given = trial.kernel.diagonal(trial.items)
    return trial.compare(given, trial.gram.diagonal(), "diagonal(i) and block(i, i)")


def by_position(trial: KernelTrial) -> Verdict:
    """A value depends on its two items alone, not on what else is asked for."""
    order = torch.randperm(len(trial.items), generator=stream(0, "order"))
    part = order[: max(1, len(order) // 2)]
    block = trial.kernel.block(trial.items[part], trial.items[order])
    wanted = trial.gram[part][:, order]
    return trial.compare(block, wanted, "A part of a block and the whole block")


def semidefinite(trial: KernelTrial) -> Verdict:
    """No Gram matrix has a negative eigenvalue, nor more rank than promised."""
    least = least_eigenvalue(trial.kernel, trial.items)
    spectrum = torch.linalg.eigvalsh((trial.gram + trial.gram.mT) / 2)
    rank = int((spectrum > _RANK_ZERO * float(spectrum[-1])).sum())
    bound = trial.kernel.rank_bound
    fault = f"The Gram matrix has rank {rank}, and rank_bound is {bound}; raise it."
    require(bound is None or rank <= bound, fault)
    return f"smallest eigenvalue {least:.3g}, largest {float(spectrum[-1]):.3g}"


def repeatable_values(trial: KernelTrial) -> Verdict:
    """Equal questions get equal answers, and global generators are left alone."""
    block = trial.kernel.block
    again, moved = problems.generators_moved_by(lambda: block(trial.items, trial.items))
    require(
        not moved and torch.equal(again, trial.gram),
        f"Two equal calls of block differ, or drew from the global generator of "
        f"{moved or 'none'}; draw what is random once, when the kernel is made.",
    )
    return "two calls, equal values"


def inner_product(trial: KernelTrial) -> Verdict:
    """The form for compiled code, where there is one, gives the kernel's values."""
    form = trial.kernel.inner_product() if isinstance(trial.kernel, Factored) else None
    if not isinstance(form, InnerProduct):
        return "not promised", "no inner_product(): searches use block"
    form = form.of(trial.items)
    rows, scales = torch.as_tensor(form.features[:]), torch.from_numpy(form.scales)
    values = scales[:, None] * scales * (rows.double() @ rows.double().T + form.offset)
    return trial.compare(values, trial.gram, "inner_product() and block")


_VALUES = ("size", "values")
PROMISES = (
    Promise("size", size),
    Promise("values", values, ("size",)),
    Promise("many blocks", many_blocks, _VALUES),
    Promise("symmetric", symmetric, _VALUES),
    Promise("diagonal", diagonal, _VALUES),
    Promise("by position", by_position, _VALUES),
    Promise("semi-definite", semidefinite, (*_VALUES, "symmetric")),
    Promise("repeatable", repeatable_values, _VALUES),
    Promise("inner product", inner_product, _VALUES),
)
