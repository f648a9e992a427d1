"""Learning rate, optimizer and averaging of weights."""

import copy
import math
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from fewlabels.gram import last_layer_kernel
from fewlabels.gram.spectra import spectrum

Module = TypeVar("Module", bound=nn.Module)


def cosine_factor(step: int, num_steps: int) -> float:
    """Return cos(7πk / 16K): 1 at the start, .195 at the end.

    FixMatch (Sohn et al., 2020, Sec. 2.4).

    Example:
        >>> round(cosine_factor(500, 1000), 6)
        0.77301
    """
    return math.cos(7 * math.pi * step / (16 * num_steps))


def cyclic_factor(step: int, num_steps: int, cycles: int, length: int) -> float:
    """Return the same cosine over fewer steps, whose end is repeated in cycles.

    Athiwaratkun et al. (2019, Sec. 4): the last ``length`` steps of the cosine come
    once more in each cycle.

    Example:
        >>> cyclic_factor(80, 100, 2, 10) == cosine_factor(70, 80)
        True
    """
    end = num_steps - cycles * length
    place = step if step < end else end - length + (step - end) % length
    return cosine_factor(place, end)


def sgd(
    network: nn.Module, learning_rate: float, momentum: float, weight_decay: float
) -> torch.optim.SGD:
    """Return Nesterov SGD whose weight decay spares normalization and biases."""
    kernels = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD(
        [
            {"params": kernels, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=learning_rate,
        momentum=momentum,
        nesterov=momentum > 0,
        fused=True,
    )
    if momentum > 0:
        # There from the start, so that a saved training can be filled in.
        for parameter in network.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def rate_bound(
    features: Tensor, num_classes: int, limit: Literal["linearized", "theorem"]
) -> float:
    """Return the largest learning rate that the labeled items admit.

    The NPC paper's outlook (Sec. 6) reads its Theorem 1 as a bound of the learning
    rate. The loss is a mean over the n labeled items, so the eigenvalues are those of
    the Gram matrix of the last layer's gradients divided by n.

    Args:
        features: Inputs of the last layer of the untrained network for the labeled
            items, shape (n, F).
        num_classes: Number of classes.
        limit: ``"linearized"``: 1 / largest eigenvalue, below which the linearized
            training cannot diverge. ``"theorem"``: the smallest eigenvalue, the
            theorem's O(λmin) with the constant one.

    Returns:
        The bound; zero under ``"theorem"`` if the Gram matrix is singular.
    """
    items = torch.arange(len(features))
    kernel = last_layer_kernel(features, num_classes, blocks="full")
    values = spectrum(kernel.block(items, items) / len(items))
    if limit == "linearized":
        return 1 / values.largest
    return values.smallest if values.rank == len(items) else 0.0


class AveragedNetwork(Generic[Module]):
    """An exponential moving average of a network's weights.

    Parameters are averaged; buffers (the running statistics, which are averages
    already) are copied: averaged weights under initial statistics would be useless.
    """

    def __init__(self, network: Module, decay: float) -> None:
        """Begin with a copy of ``network``."""
        self.module = copy.deepcopy(network).eval().requires_grad_(requires_grad=False)
        self.decay = decay
        self._pairs = (
            [p.detach() for p in self.module.parameters()],
            [p.detach() for p in network.parameters()],
        )
        self._buffers = (list(self.module.buffers()), list(network.buffers()))

    def update(self) -> None:
        """Move a little towards the present weights of the network."""
        average, present = self._pairs
        torch._foreach_lerp_(average, present, 1.0 - self.decay)
        torch._foreach_copy_(*self._buffers)

    def include(self, number: int) -> None:
        """Make it the plain mean of ``number`` earlier networks and the present one.

        Running statistics are averaged too: those of the present network alone belong
        to weights that may be far from the mean.
        """
        means, present = (
            [*weights, *statistics]
            for weights, statistics in zip(self._pairs, self._buffers, strict=True)
        )
        for mean, now in zip(means, present, strict=True):
            if mean.is_floating_point():
                mean.lerp_(now, 1 / (number + 1))
            else:
                mean.copy_(now)
