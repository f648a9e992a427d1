"""Dropout whose masks come from a generator, and sampled networks.

``torch.nn.Dropout`` draws from the global generator, so that a training cannot be
repeated by itself. The one here draws from the generator that the trainer hands in. For
joint predictions (BatchBALD) it can also hold *one* mask for all items: that is one
network sampled from the approximate posterior (Gal and Ghahramani, 2016, Sec. 4).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn

from fewlabels.errors import UsageError, check_range


class Dropout(nn.Module):
    """Zero a share of the activations and scale up the rest."""

    def __init__(self, share: float) -> None:
        """Set the share of the activations that is dropped, in [0, 1)."""
        super().__init__()
        check_range("dropout", share, at_least=0, below=1)
        self.share = share
        self.generator: Generator | None = None
        self.shares_mask = False
        self._mask: Tensor | None = None

    def forward(self, activations: Tensor) -> Tensor:
        """Drop elements in training, or under :func:`sampled`; else do nothing."""
        if self.share == 0.0:
            return activations
        if self.shares_mask:
            if self._mask is None:
                self._mask = self._draw_mask(activations[:1])
            return activations * self._mask
        if self.training:
            return activations * self._draw_mask(activations)
        return activations

    def _draw_mask(self, like: Tensor) -> Tensor:
        if self.generator is None:
            raise UsageError("Dropout has no generator; call dropout.draw_from first.")
        draws = torch.rand(like.shape, generator=self.generator, dtype=torch.float32)
        kept = draws >= self.share
        return kept.to(like) / (1.0 - self.share)

    def use(self, generator: Generator | None, *, shares_mask: bool = False) -> None:
        """Draw from ``generator`` from now on, and forget the mask held so far."""
        self.generator = generator
        self.shares_mask = shares_mask
        self._mask = None


def layers(module: nn.Module) -> list[Dropout]:
    """Return the dropout layers of ``module`` that drop anything."""
    return [m for m in module.modules() if isinstance(m, Dropout) and m.share > 0.0]


def draw_from(module: nn.Module, generator: Generator | None) -> None:
    """Let every dropout layer of ``module`` draw its masks from ``generator``."""
    for layer in layers(module):
        layer.use(generator)


@contextmanager
def sampled(module: nn.Module, generator: Generator) -> Iterator[None]:
    """Make ``module`` one sampled network inside the block.

    Each layer draws a single mask from ``generator`` when it is first used, in the
    order of the forward pass, and applies it to every item after that. The same
    generator state therefore gives the same network, however the items are chunked.

    Yields:
        Nothing.
    """
    before = [layer.generator for layer in layers(module)]
    for layer in layers(module):
        layer.use(generator, shares_mask=True)
    try:
        yield
    finally:
        for layer, previous in zip(layers(module), before, strict=True):
            layer.use(previous)
