"""Kernels of network gradients, their Gram matrices and spectra; pure functions.

A kernel is asked for blocks by index, so that no N x N matrix is ever built. What a
search needs of one is :class:`fewlabels.protocols.Kernel`; anything that fits will do.
"""

from fewlabels.gram.last_layer import LastLayerKernel, last_layer_kernel
from fewlabels.gram.spectra import (
    eigenvalue_ceiling,
    numerical_rank,
    smallest_eigenvalue,
)
from fewlabels.gram.wide_head import WideHeadKernel, wide_head_kernel

__all__ = [
    "LastLayerKernel",
    "WideHeadKernel",
    "eigenvalue_ceiling",
    "last_layer_kernel",
    "numerical_rank",
    "smallest_eigenvalue",
    "wide_head_kernel",
]
