"""Promises of kernels, one function each, checked on some of the items."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fewlabels.experiments.conformance.problems import (
    Promise,
    Verdict,
    failed,
    moved_by,
    passed,
)
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

    def difference(self, one: Tensor, other: Tensor) -> float:
        """Return the largest difference as a share of the kernel's largest value."""
        scale = float(self.gram.abs().max()) or 1.0
        return float((one - other).abs().max()) / scale if one.numel() else 0.0


def size(trial: KernelTrial) -> Verdict:
    """It says how many items there are, and how large its rank can be."""
    num_items: object = trial.kernel.num_items
    bound: object = trial.kernel.rank_bound
    if not isinstance(num_items, int) or num_items < 1:
        return failed(f"num_items is {num_items!r}; give the size of the whole pool.")
    if bound is not None and (not isinstance(bound, int) or bound < 1):
        return failed(
            f"rank_bound is {bound!r}; give the largest rank that a Gram matrix can "
            "have, or None where distinct items have full rank."
        )
    return passed(f"{num_items:,} items, rank_bound {bound}")


def values(trial: KernelTrial) -> Verdict:
    """Blocks and diagonals have the right shape and type, and are finite."""
    items, some = trial.items, trial.items[:2]
    block, diagonal = trial.kernel.block(items, some), trial.kernel.diagonal(items)
    seen: tuple[tuple[str, Any, tuple[int, ...]], ...] = (
        ("block(rows, columns)", block, (len(items), len(some))),
        ("diagonal(items)", diagonal, (len(items),)),
    )
    for name, given, wanted in seen:
        if not isinstance(given, Tensor) or tuple(given.shape) != wanted:
            shape = tuple(getattr(given, "shape", ()))
            return failed(
                f"{name} is of type {type(given).__name__} and shape {shape}; give a "
                f"tensor of shape {wanted}."
            )
        if given.dtype != torch.float64:
            return failed(
                f"{name} is of type {given.dtype}; compute in torch.float64, since the "
                "smallest eigenvalue is a difference of large numbers."
            )
        if not bool(torch.isfinite(given).all()):
            return failed(f"{name} has NaN or infinity in it.")
    return passed(f"float64, finite, {len(items)} items")


def many_blocks(trial: KernelTrial) -> Verdict:
    """Index sets with further axes give a block each."""
    rows = torch.stack([trial.items, trial.items.flip(0)])
    columns = rows[:, :2]
    blocks = trial.kernel.block(rows, columns)
    wanted = (*rows.shape, columns.shape[1])
    if tuple(blocks.shape) != wanted:
        return failed(
            f"block of rows {tuple(rows.shape)} and columns {tuple(columns.shape)} has "
            f"shape {tuple(blocks.shape)}; give {wanted}, a block per pair of sets."
        )
    single = torch.stack([trial.kernel.block(rows[i], columns[i]) for i in (0, 1)])
    return _same(trial, blocks, single, "Blocks asked for together", "one by one")


def symmetric(trial: KernelTrial) -> Verdict:
    """k(i, j) = k(j, i)."""
    return _same(trial, trial.gram, trial.gram.mT, "k(i, j)", "k(j, i)")


def diagonal(trial: KernelTrial) -> Verdict:
    """The diagonal is that of the block."""
    given = trial.kernel.diagonal(trial.items)
    return _same(trial, given, trial.gram.diagonal(), "diagonal(i)", "block(i, i)")


def by_position(trial: KernelTrial) -> Verdict:
    """A value depends on its two items alone, not on what else is asked for."""
    order = torch.randperm(len(trial.items), generator=stream(0, "order"))
    part = order[: max(1, len(order) // 2)]
    block = trial.kernel.block(trial.items[part], trial.items[order])
    wanted = trial.gram[part][:, order]
    return _same(trial, block, wanted, "A part of a block", "the whole block")


def semidefinite(trial: KernelTrial) -> Verdict:
    """No Gram matrix has a negative eigenvalue, nor more rank than promised."""
    least = least_eigenvalue(trial.kernel, trial.items)
    spectrum = torch.linalg.eigvalsh((trial.gram + trial.gram.mT) / 2)
    rank = int((spectrum > _RANK_ZERO * float(spectrum[-1])).sum())
    bound = trial.kernel.rank_bound
    if bound is not None and rank > bound:
        return failed(
            f"The Gram matrix of {len(trial.items)} items has rank {rank}, and "
            f"rank_bound is {bound}; raise it, or give None."
        )
    return passed(f"smallest eigenvalue {least:.3g}, largest {float(spectrum[-1]):.3g}")


def repeatable_values(trial: KernelTrial) -> Verdict:
    """Equal questions get equal answers, and global generators are left alone."""
    again, moved = moved_by(lambda: trial.kernel.block(trial.items, trial.items))
    if moved:
        return failed(
            f"block drew from the global generator of {', '.join(moved)}; draw what is "
            "random once, when the kernel is made."
        )
    if not torch.equal(again, trial.gram):
        share = trial.difference(again, trial.gram)
        return failed(f"Two equal calls differ by {share:.2g} of the largest value.")
    return passed("two calls, equal values")


def inner_product(trial: KernelTrial) -> Verdict:
    """The form for compiled code, where there is one, gives the kernel's values."""
    form = trial.kernel.inner_product() if isinstance(trial.kernel, Factored) else None
    if not isinstance(form, InnerProduct):
        return "not promised", "no inner_product(): searches use block"
    form = form.of(trial.items)
    rows, scales = torch.as_tensor(form.features[:]), torch.from_numpy(form.scales)
    values = scales[:, None] * scales * (rows.double() @ rows.double().T + form.offset)
    return _same(trial, values, trial.gram, "inner_product()", "block")


def _same(
    trial: KernelTrial, one: Tensor, other: Tensor, name: str, against: str
) -> Verdict:
    if one.shape != other.shape:
        shapes = f"{tuple(one.shape)} and {tuple(other.shape)}"
        return failed(f"{name} and {against} have the shapes {shapes}.")
    share = trial.difference(one, other)
    if not share <= _CLOSE:
        return failed(
            f"{name} and {against} differ by up to {share:.2g} of the largest value; "
            "they are to be equal but for rounding."
        )
    return passed(f"differ by {share:.1g} of the largest value at most")


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
