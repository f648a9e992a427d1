"""Kernels of features and gradients, their Gram matrices and spectra; pure functions.

A kernel is asked for blocks by index, so that no N x N matrix is ever built. What a
search needs of one is :class:`fewlabels.protocols.Kernel`; anything that fits will do.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
