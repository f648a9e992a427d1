"""Kernels of features and gradients, their Gram matrices and spectra; pure functions.

A kernel is asked for blocks by index, so that no N x N matrix is ever built. What a
search needs of one is :class:`fewlabels.protocols.Kernel`; anything that fits will do.
"""

from fewlabels.gram.diffusion import Diffusion, Weights, diffusion_kernel
from fewlabels.gram.fisher import binary_factors, class_factors
from fewlabels.gram.gradient_embedding import (
    GradientEmbeddingKernel,
    gradient_embedding_kernel,
)
from fewlabels.gram.last_layer import LastLayerKernel, last_layer_kernel
from fewlabels.gram.linear import LinearKernel, euclidean_kernel
from fewlabels.gram.ntk import TangentKernel, exact_ntk_gram, ntk_kernel
from fewlabels.gram.softmax import SoftmaxKernel, softmax_kernel
from fewlabels.gram.spectra import (
    Spectrum,
    eigenvalue_ceiling,
    lobpcg_smallest_eigenvalue,
    numerical_rank,
    smallest_eigenvalue,
    spectrum,
)
from fewlabels.gram.wide_head import WideHeadKernel, wide_head_kernel

__all__ = [
    "Diffusion",
    "GradientEmbeddingKernel",
    "LastLayerKernel",
    "LinearKernel",
    "SoftmaxKernel",
    "Spectrum",
    "TangentKernel",
    "Weights",
    "WideHeadKernel",
    "binary_factors",
    "class_factors",
    "diffusion_kernel",
    "eigenvalue_ceiling",
    "euclidean_kernel",
    "exact_ntk_gram",
    "gradient_embedding_kernel",
    "last_layer_kernel",
    "lobpcg_smallest_eigenvalue",
    "ntk_kernel",
    "numerical_rank",
    "smallest_eigenvalue",
    "softmax_kernel",
    "spectrum",
    "wide_head_kernel",
]
