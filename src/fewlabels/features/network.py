"""A network as a classifier: one row per item, chunk by chunk.

Shapes: n items asked about, C classes, F features, K sampled networks.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fewlabels import rng
from fewlabels.errors import UsageError
from fewlabels.models import Network, as_input, dropout
from fewlabels.pool import Images
from fewlabels.protocols import Outputs

Chunks = Iterable[tuple[slice, Tensor]]
"""Rows of a result together with the inputs that give them."""

_MOST_VALUES = 2**24  # of the images that are in memory at a time


@dataclass(frozen=True, eq=False)
class NetworkClassifier:
    """A network as a classifier: evaluation mode, no gradients, chunk by chunk."""

    module: Network
    """The network; its own mode (training or evaluation) is left as it was."""
    num_classes: int
    """Number of classes."""
    chunk_size: int = 512
    """Items in memory at a time; fewer where they are large."""

    def outputs(self, images: Images, indices: Tensor) -> Outputs:
        """Return features and logits of the items at ``indices``."""
        return outputs_of(self.module, self._chunks(images, indices), len(indices))

    def sample_logits(
        self, images: Images, indices: Tensor, num_samples: int, generator: Generator
    ) -> Tensor:
        """Return logits of ``num_samples`` networks sampled through dropout.

        Args:
            images: The images of the pool.
            indices: The items to ask about, shape (n,).
            num_samples: How many networks to sample (K).
            generator: Where the dropout masks come from.

        Returns:
            Logits, shape (K, n, C); one network is the same for all items.
        """
        chunks = self._chunks(images, indices)
        return sampled_logits(self.module, chunks, len(indices), num_samples, generator)

    def _chunks(self, images: Images, indices: Tensor) -> Chunks:
        """Yield rows of the result together with their images, ready as input."""
        fitting = max(1, _MOST_VALUES // math.prod(images.shape))
        for rows in slices(len(indices), min(self.chunk_size, fitting)):
            yield rows, as_input(images.read(indices[rows]))


def slices(num_items: int, chunk_size: int) -> Iterator[slice]:
    """Yield the parts of ``range(num_items)``, each of at most ``chunk_size``."""
    for start in range(0, num_items, chunk_size):
        yield slice(start, min(start + chunk_size, num_items))


def outputs_of(network: Network, chunks: Chunks, num_items: int) -> Outputs:
    """Return features and logits of all inputs, in evaluation mode, on the CPU."""
    device = network.head.weight.device
    features_nF = torch.empty(num_items, network.feature_size, dtype=torch.float32)
    logits_nC = torch.empty(num_items, network.head.out_features, dtype=torch.float32)
    with torch.inference_mode(), evaluating(network):
        for rows, inputs in chunks:
            embedded = network.recall(inputs.to(device))
            features_nF[rows] = embedded.float().cpu()
            logits_nC[rows] = network.head(embedded).float().cpu()
    return Outputs(features_nF, logits_nC)


def sampled_logits(
    network: Network,
    chunks: Chunks,
    num_items: int,
    num_samples: int,
    generator: Generator,
) -> Tensor:
    """Return logits of networks sampled through dropout.

    Args:
        network: A network with dropout; its own mode is left as it was.
        chunks: Rows of the result and their inputs.
        num_items: How many rows there are in all (n).
        num_samples: How many networks to sample (K).
        generator: Where the dropout masks come from.

    Returns:
        Logits, shape (K, n, C); one network is the same for all items.

    Raises:
        UsageError: If the network has no dropout, so that all samples would agree.
    """
    if not dropout.layers(network):
        raise UsageError(
            "The network has no dropout, so every sampled network would be the "
            "same. Train with dropout above 0, for example "
            'training.resolve("fixmatch", {"dropout": 0.1}).'
        )
    key = rng.fork(generator)
    device = network.head.weight.device
    logits_KnC = torch.empty(
        num_samples, num_items, network.head.out_features, dtype=torch.float32
    )
    with torch.inference_mode(), evaluating(network):
        for rows, inputs in chunks:
            on_device = inputs.to(device)
            for sample in range(num_samples):
                masks = rng.stream(key, "masks", sample)
                with dropout.sampled(network, masks):
                    logits_KnC[sample, rows] = network(on_device).float().cpu()
    return logits_KnC


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put ``module`` into evaluation mode inside the block and restore it after."""
    was_training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in was_training.items():
            part.training = mode
