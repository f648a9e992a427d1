"""Small networks over rows of features: what is trained where an encoder is frozen.

Shapes: n rows, D features of the encoder, F features before the last layer, C classes.
"""

import torch
from torch import Generator, Tensor, nn

from fewlabels.errors import ShapeError, UsageError
from fewlabels.models.dropout import Dropout
from fewlabels.models.network import Dense, Network

_WIDEST = 1_000_000


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
            raise ShapeError(
                f"mean has shape {tuple(mean.shape)} and deviation "
                f"{tuple(deviation.shape)}, but rows have {len(self.mean)} features; "
                "give one number per feature."
            )
        if not bool((deviation > 0).all()):
            raise UsageError(
                f"The smallest deviation is {float(deviation.min())}, and rows are "
                "divided by it; give 1 where a feature is constant."
            )
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)


def check_hidden(hidden_size: int | None) -> None:
    """Raise unless there is a head with so many hidden features, or none."""
    if hidden_size is not None and not 1 <= hidden_size <= _WIDEST:
        raise UsageError(
            f"A hidden layer has 1 to {_WIDEST:,} features, not {hidden_size:,}; name "
            "a width, as in 'mlp-256', or take 'linear'."
        )
