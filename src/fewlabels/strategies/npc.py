"""Neural pre-conditioning: the strategy of the paper, wired from its three parts.

Features are the last layer's gradients, the objective is the smallest eigenvalue of
their Gram matrix together with the labeled items', the search is random (NPC paper,
Algorithm 1).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from fewlabels.errors import DegenerateGramWarning, UnknownNameError
from fewlabels.gram import last_layer_kernel, numerical_rank, wide_head_kernel
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, Kernel
from fewlabels.search import check_size, maximize_smallest_eigenvalue

_RANK_SHARE = 0.9

KernelName = Literal["auto", "last-layer", "wide-head"]
"""Which kernel; see :class:`NeuralPreconditioning`."""


@dataclass(frozen=True)
class NeuralPreconditioning:
    """Maximize the smallest eigenvalue of the gradient Gram matrix."""

    kernel: KernelName = "auto"
    """``last-layer`` is the paper; ``auto`` takes it while its rank is large enough."""
    method: Literal["random"] = "random"
    """How sets are searched: the best of many random draws."""
    draws: int | None = None
    """How many sets are tried; None: as many as there are candidates."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""

    def __post_init__(self) -> None:
        """Refuse a misspelt kernel, which would pass for the last layer's."""
        if self.kernel not in get_args(KernelName):
            raise UnknownNameError("kernel", self.kernel, get_args(KernelName))

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        check_size(size, len(pool.candidates))
        features = classifier.outputs(pool.images, torch.arange(len(pool))).features
        name = self._kernel_name(features, pool, size, history)
        kernel = self._built_kernel(name, features, pool.num_classes)
        _warn_if_degenerate(kernel, num_members=len(pool.labeled) + size)
        found = maximize_smallest_eigenvalue(
            kernel,
            labeled=pool.labeled,
            candidates=pool.candidates,
            size=size,
            method=self.method,
            draws=self.draws,
            generator=generator,
        )
        record = {
            "kernel": name,
            "ceiling": found.ceiling,
            "tie": found.is_tie,
            "draws": found.num_draws,
        }
        return Query(found.indices, found.value, record)

    def _kernel_name(
        self, features: Tensor, pool: Pool, size: int, history: Sequence[Round]
    ) -> str:
        """Decide for a kernel once per run; later rounds follow the first."""
        if self.kernel != "auto":
            return self.kernel
        for earlier in history:
            if "kernel" in earlier.query.record:
                return str(earlier.query.record["kernel"])
        num_members = pool.budget or len(pool.labeled) + size
        rank = numerical_rank(features)
        return "last-layer" if num_members <= _RANK_SHARE * rank else "wide-head"

    def _built_kernel(self, name: str, features: Tensor, num_classes: int) -> Kernel:
        if name == "wide-head":
            return wide_head_kernel(features, normalize=self.normalize)
        return last_layer_kernel(features, num_classes, normalize=self.normalize)


def _warn_if_degenerate(kernel: Kernel, num_members: int) -> None:
    if kernel.rank_bound is not None and num_members > kernel.rank_bound:
        msg = (
            f"{num_members} items are compared through {kernel.rank_bound} gradient "
            "features, so their Gram matrix is singular, every choice scores zero and "
            "the one made is a tie. Label and query at most "
            f"{kernel.rank_bound} items together, or use kernel='wide-head' or 'auto'."
        )
        warnings.warn(msg, DegenerateGramWarning, stacklevel=3)
