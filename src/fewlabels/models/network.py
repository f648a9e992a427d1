"""What every network here offers: features, a linear head over them, and dropout.

``torch.nn.Dropout`` draws from the global generator, so that a training cannot be
repeated by itself. The one here draws from the generator that the trainer hands in. For
joint predictions (BatchBALD) it can also hold *one* mask for all items: that is one
network sampled from the approximate posterior (Gal and Ghahramani, 2016, Sec. 4).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor, nn

from fewlabels.errors import ShapeError, UsageError, check_range

_WIDEST = 1_000_000


class Network(nn.Module):
    """A network that ends in a linear layer: logits = head(embed(images)).

    Where the items are vectors, read "rows of shape (n, F)" for images.
    """

    head: nn.Linear

    @property
    def feature_size(self) -> int:
        """Width of the input of the last layer (F)."""
        return self.head.in_features

    def embed(self, images: Tensor) -> Tensor:
        """Return the features of images in [-1, 1]: (n, c, h, w) to (n, F)."""
        raise NotImplementedError

    def recall(self, images: Tensor) -> Tensor:
        """Return the features as :meth:`embed` does, sooner for what is remembered."""
        return self.embed(images)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of images in [-1, 1]: (n, c, h, w) to (n, C)."""
        logits: Tensor = self.head(self.embed(images))
        return logits


class Dense(nn.Linear):
    """A linear layer that leaves its initialization to the network."""

    def __init__(self, width_in: int, width: int) -> None:
        """Reserve the weights."""
        super().__init__(width_in, width, dtype=torch.float32)

    def reset_parameters(self) -> None:
        """Draw nothing: torch would draw from the global generator."""

    def initialize(self, generator: Generator) -> None:
        """Draw weights from Glorot's normal distribution; biases are zero."""
        nn.init.xavier_normal_(self.weight, generator=generator)
        nn.init.zeros_(self.bias)


def as_input(images: Tensor) -> Tensor:
    """Map bytes to the input range of the networks: 0 to -1, 255 to 1.

    Example:
        >>> as_input(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
        [-1.0, 1.0]

    Args:
        images: Images as uint8, any shape; or vectors in floating point, which have no
            fixed range and keep their values.

    Returns:
        float32 of the same shape; images in [-1, 1].
    """
    if images.is_floating_point():
        return images.to(torch.float32)
    return images.to(torch.float32).div_(255 / 2).sub_(1)


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
            raise UsageError("Dropout has no generator; call draw_from first.")
        draws = torch.rand(like.shape, generator=self.generator, dtype=torch.float32)
        kept = draws >= self.share
        return kept.to(like) / (1.0 - self.share)

    def use(self, generator: Generator | None, *, shares_mask: bool = False) -> None:
        """Draw from ``generator`` from now on, and forget the mask held so far."""
        self.generator = generator
        self.shares_mask = shares_mask
        self._mask = None


def dropout_layers(module: nn.Module) -> list[Dropout]:
    """Return the dropout layers of ``module`` that drop anything."""
    return [m for m in module.modules() if isinstance(m, Dropout) and m.share > 0.0]


def draw_from(module: nn.Module, generator: Generator | None) -> None:
    """Let every dropout layer of ``module`` draw its masks from ``generator``."""
    for layer in dropout_layers(module):
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
    before = [layer.generator for layer in dropout_layers(module)]
    for layer in dropout_layers(module):
        layer.use(generator, shares_mask=True)
    try:
        yield
    finally:
        for layer, previous in zip(dropout_layers(module), before, strict=True):
            layer.use(previous)


class Head(Network):
    """A linear layer over standardized rows, with or without a hidden layer before it.

    The mean and deviation that rows are standardized by are buffers: they are saved
    with the weights and not trained. They begin as 0 and 1.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        row_size: int,
        hidden_size: int | None,
        *,
        num_classes: int,
        generator: Generator,
        dropout: float = 0.0,
    ) -> None:
        """Build and initialize the network.

        Args:
            row_size: Length of a row (D).
            hidden_size: Width of the hidden layer (F); None: there is none.
            num_classes: Number of classes (C).
            generator: Where the initial weights come from.
            dropout: Share of the last layer's inputs that is dropped in training.
        """
        super().__init__()
        if hidden_size is not None:
            check_hidden(hidden_size)
        single = torch.float32
        self.register_buffer("mean", torch.zeros(row_size, dtype=single))
        self.register_buffer("deviation", torch.ones(row_size, dtype=single))
        self.hidden = None if hidden_size is None else Dense(row_size, hidden_size)
        self.dropout = Dropout(dropout)
        self.head = Dense(row_size if hidden_size is None else hidden_size, num_classes)
        if self.hidden is not None:
            nn.init.kaiming_normal_(
                self.hidden.weight, nonlinearity="relu", generator=generator
            )
            nn.init.zeros_(self.hidden.bias)
        self.head.initialize(generator)

    def embed(self, images: Tensor) -> Tensor:
        """Return the input of the last layer: rows (n, D) to (n, F)."""
        features = (images - self.mean) / self.deviation
        if self.hidden is not None:
            features = self.hidden(features).relu()
        dropped: Tensor = self.dropout(features)
        return dropped

    def standardize_by(self, mean: Tensor, deviation: Tensor) -> None:
        """Standardize rows by mean and deviation, above zero, of each feature (D,)."""
        if not mean.shape == deviation.shape == self.mean.shape:
            seen = f"{tuple(mean.shape)} and {tuple(deviation.shape)}"
            raise ShapeError(
                f"mean and deviation have shapes {seen} for {len(self.mean)} features."
            )
        check_range("The smallest deviation", float(deviation.min()), above=0)
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)


def check_hidden(hidden_size: int) -> None:
    """Raise unless there is a head with so many hidden features."""
    check_range("The width of a hidden layer", hidden_size, at_least=1, at_most=_WIDEST)
