"""Settings of the steps of a training, for any learner, and of its execution."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fewlabels.data.augment import WeakAugment
from fewlabels.errors import Count, Limits, Settings, Share, UsageError, Weight
from fewlabels.models import check_name
from fewlabels.names import OMIT_DEFAULT

OF_VIEWS, OF_STRONG_VIEWS, OF_FEATURES = (
    {"needs": word} for word in ("weak", "strong", "features")
)
"""Mark options that count only where a learner wants such views, or inputs are such."""

OFFICIAL: Mapping[str, Any] = {
    "network": "wrn-28-2",
    "steps": 2**20,
    "minibatch_size": 64,
    "balances_classes": False,
    "learning_rate": 0.03,
    "ema_decay": 0.999,
    "weak": WeakAugment(flip=True),
    "checkpoint_every": 1024,
    "mu": 7,
    "strong": "official",
}
"""What FixMatch's official code has instead of the defaults: days on a large GPU."""


@dataclass(frozen=True, kw_only=True)
class Schedule(Settings):
    """Network, steps, optimizer, averaging and the arithmetic of devices.

    The method is that of FixMatch's official code (Sohn et al., 2020, Sec. 2.4 and
    Table 4): Nesterov momentum, a cosine that ends above zero, weight decay on kernels
    only. The defaults, which the names of trainers stand for, suit small images and
    some fifteen seconds on one core; they were chosen on digits, with parts of the pool
    held out. :data:`OFFICIAL` has the numbers of the official code.
    """

    network: str = "wrn-10-1"
    """Name of the network: ``"wrn-DEPTH-WIDTH"``."""
    steps: Count = 600
    """Number of optimizer steps (K)."""
    minibatch_size: Count = 32
    """Labeled items in a step (B)."""
    balances_classes: bool = True
    """Show every class equally often, however its labels are spread; with few labels
    the spread says more about chance than about the classes. No difference for the
    balanced label sets of the paper."""
    learning_rate: Weight = 0.06
    """Learning rate of the first step (eta)."""
    rate_limit: Literal["none", "linearized", "theorem"] = "none"
    """An upper bound of the learning rate from the Gram matrix of the labeled items:
    see :func:`fewlabels.training.loop.rate_bound`."""
    momentum: Share = 0.9
    """Nesterov momentum (beta)."""
    weight_decay: Weight = 5e-4
    """Weight decay of convolution and dense kernels; nothing else decays. The official
    code takes .001 for CIFAR-100."""
    ema_decay: Share = 0.99
    """Weight of the past in the averaged network."""
    cycles: Annotated[int, Limits(at_least=0)] = field(default=0, metadata=OMIT_DEFAULT)
    """Cycles in which the learning rate rises and falls again at the end, while the
    weights are averaged evenly (fast-SWA; Athiwaratkun et al., 2019); 0: none."""
    cycle_share: Share = field(default=1 / 16, metadata=OMIT_DEFAULT)
    """Length of a cycle, as a share of the steps; the paper has 30 of 480 epochs."""
    dropout: Share = 0.0
    """Share of activations dropped in each block; above 0 for sampled networks."""
    checkpoint_every: Count = 30
    """Steps between two calls of ``on_checkpoint``; the last step always calls."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute; ``"auto"`` takes a GPU where there is one."""
    devices: Count = 1
    """Processes, each with a device and an equal share of every minibatch. Batch
    normalization sees the shares one by one, so that the number matters a little."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Arithmetic of the network; ``"bf16-mixed"`` is faster on recent GPUs."""
    compiles: bool = False
    """Compile the network with ``torch.compile``: a minute at the start, faster steps
    on a GPU. Sums are rounded in another order then."""

    def __post_init__(self) -> None:
        """Check the network's name, and options that depend on each other."""
        super().__post_init__()
        check_name(self.network)
        if self.minibatch_size % self.devices:
            raise UsageError(
                f"minibatch_size is {self.minibatch_size} and devices {self.devices}: "
                "the devices cannot share a minibatch equally. Take a multiple."
            )
        if self.averages_from < 0:
            raise UsageError(
                f"cycles is {self.cycles} and cycle_share {self.cycle_share}: with the "
                f"one before the first they would take more than all {self.steps} "
                "steps. Take fewer or shorter ones."
            )

    @property
    def cycle_length(self) -> int:
        """Steps in a cycle."""
        return max(1, round(self.cycle_share * self.steps))

    @property
    def averages_from(self) -> int:
        """The first step after which weights are averaged evenly, if there are cycles.

        It is one cycle before the first.
        """
        return self.steps - (self.cycles + 1) * self.cycle_length if self.cycles else 0

    @property
    def bn_momentum(self) -> float:
        """Weight of a new minibatch in the running statistics.

        The paper averages weights with .999 and statistics with .999: both forget
        equally fast, so that averaged weights meet the statistics of their own past.
        """
        return min(0.1, 1.0 - self.ema_decay)


@dataclass(frozen=True, kw_only=True)
class Execution(Settings):
    """How a training is done; no result depends on it."""

    prefetch: Annotated[int | None, Limits(at_least=0)] = field(
        default=None, metadata=OF_VIEWS
    )
    """Minibatches prepared ahead by a thread of its own; None: 2 where the network runs
    on a GPU, else none, since reading and computing would share the cores."""
    save_every: Weight = field(default=20.0, metadata=OF_VIEWS)
    """Seconds between two savings of the unfinished training in its workspace."""
    cache: str | None = field(default=None, metadata=OF_FEATURES)
    """Folder where features are kept; None: the cache folder of this user."""
