"""The settings that all trainers of networks share."""

from dataclasses import dataclass, field
from typing import ClassVar

from fewlabels.augment import WeakAugment
from fewlabels.errors import UsageError
from fewlabels.models import check_name


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Network, schedule, optimizer and averaging.

    The optimizer is FixMatch's (Sohn et al., 2020, Sec. 2.4 and Table 4): Nesterov
    momentum, a cosine that ends above zero, weight decay on kernels only.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    network: str = "wrn-10-1"
    """Name of the network: ``"wrn-DEPTH-WIDTH"``."""
    steps: int = 600
    """Number of optimizer steps; the paper takes 2**20."""
    minibatch_size: int = 32
    """Labeled items in a step (B); the paper takes 64."""
    balances_classes: bool = True
    """Show every class equally often, however its labels are spread; with few labels
    the spread says more about chance than about the classes. No difference for the
    balanced label sets of the paper."""
    learning_rate: float = 0.06
    """Learning rate of the first step (eta); the paper takes .03."""
    momentum: float = 0.9
    """Nesterov momentum (beta)."""
    weight_decay: float = 5e-4
    """Weight decay of convolution and dense kernels; nothing else decays."""
    ema_decay: float = 0.99
    """Weight of the past in the averaged network; the paper takes .999."""
    dropout: float = 0.0
    """Share of activations dropped in each block; above 0 for sampled networks."""
    weak: WeakAugment = field(default_factory=WeakAugment)
    """How labeled images, and those that pseudo-labels come from, are varied."""
    checkpoint_every: int = 200
    """Steps between two calls of ``on_checkpoint``; the last step always calls."""

    def __post_init__(self) -> None:
        """Check the network's name and the ranges."""
        check_name(self.network)
        for name in ("steps", "minibatch_size", "checkpoint_every"):
            check_range(name, getattr(self, name), at_least=1)
        for name in ("learning_rate", "weight_decay"):
            check_range(name, getattr(self, name), at_least=0)
        for name in ("momentum", "ema_decay", "dropout"):
            check_range(name, getattr(self, name), at_least=0, below=1)

    @property
    def bn_momentum(self) -> float:
        """Weight of a new minibatch in the running statistics.

        The paper averages weights with .999 and statistics with .999: both forget
        equally fast, so that averaged weights meet the statistics of their own past.
        """
        return min(0.1, 1.0 - self.ema_decay)


def check_range(
    name: str, value: float, *, at_least: float, below: float = float("inf")
) -> None:
    """Raise unless ``at_least <= value < below``.

    Args:
        name: Name of the setting.
        value: Its value.
        at_least: The smallest value allowed.
        below: The first value too large.

    Raises:
        UsageError: If the value is outside.
    """
    if not at_least <= value < below:
        limit = "" if below == float("inf") else f" and below {below}"
        msg = f"{name} is {value}; it must be at least {at_least}{limit}."
        raise UsageError(msg)
