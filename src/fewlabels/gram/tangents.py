"""Gradients of a network's logits, item by item.

Shapes: n items of a chunk, C classes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fewlabels.errors import ShapeError, UsageError

Layers = Literal["all"] | int
"""All parameters, or those of the last so many modules that own parameters."""


@dataclass(frozen=True, eq=False)
class Tangents:
    """A network, and the parameters that its gradients are taken by."""

    module: nn.Module
    parameters: dict[str, Tensor]

    @classmethod
    def of(cls, module: nn.Module, layers: Layers) -> "Tangents":
        """Choose parameters, trainable or frozen: averaged weights are frozen too.

        Args:
            module: The network.
            layers: ``"all"``, or how many of the modules that own parameters
                themselves, counted from the last one registered.

        Returns:
            The network with the chosen parameters.

        Raises:
            UsageError: If there are not that many such modules.
        """
        owners = [m for m in module.modules() if list(m.parameters(recurse=False))]
        count = len(owners) if layers == "all" else layers
        if not 1 <= count <= len(owners):
            raise UsageError(
                f"layers is {layers}, and {len(owners)} modules of the network own "
                "parameters; give a number from 1 to that, or a network that has some."
            )
        chosen = {id(p) for m in owners[-count:] for p in m.parameters(recurse=False)}
        named = module.named_parameters()
        return cls(module, {name: p.detach() for name, p in named if id(p) in chosen})

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(iter(self.parameters.values())).device

    @property
    def sizes(self) -> list[int]:
        """Number of entries of each parameter tensor."""
        return [parameter.numel() for parameter in self.parameters.values()]

    def gradients(self, chunk: Tensor, direction: Tensor) -> list[Tensor]:
        """Return the gradients of direction . f(x), (n, size) of each parameter."""

        def output(parameters: dict[str, Tensor], item: Tensor) -> Tensor:
            logits = functional_call(self.module, parameters, (item[None],))
            _check_logits(logits, len(direction))
            weighted: Tensor = logits[0] @ direction.to(logits)
            return weighted

        per_item = vmap(grad(output), in_dims=(None, 0))(self.parameters, chunk)
        return [per_item[name].flatten(1) for name in self.parameters]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients of its own inside the block, restored after."""
    was_training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in was_training.items():
            part.training = mode


def _check_logits(logits: Tensor, num_classes: int) -> None:
    if logits.shape != (1, num_classes):
        raise ShapeError(
            f"The network gives shape {tuple(logits.shape)} for one item; with "
            f"{num_classes} classes its logits must have shape (1, {num_classes})."
        )
