"""What every network here offers: features, and a linear head over them."""

import torch
from torch import Generator, Tensor, nn


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
