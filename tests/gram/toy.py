"""Random rows, and the value of a set, for the tests of kernels."""

import torch

from fewlabels.gram import smallest_eigenvalue
from fewlabels.rng import stream


def normal(seed, *shape):
    return torch.randn(*shape, generator=stream(seed, "test"), dtype=torch.float64)


def whole(kernel):
    items = torch.arange(kernel.num_items)
    return kernel.block(items, items)


def value_of(kernel, items):
    items = torch.tensor(items)
    return float(smallest_eigenvalue(kernel.block(items, items)))
