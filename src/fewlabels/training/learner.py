"""Learners, and what they are given in each step: minibatches, networks, memory.

A learner is a frozen object of settings. It names the views of the items that it wants,
the layers that it needs besides the classifier, and the tensors that outlive a step. In
each step it gets all of these, the network and its average, and returns a loss.

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from fewlabels import errors, rng
from fewlabels.errors import Limits, Settings, check_count
from fewlabels.models import Network, as_input
from fewlabels.models.network import Dense
from fewlabels.pool import Pool
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.views import View, Views

if TYPE_CHECKING:
    from fewlabels.training.training import TrainingTask

IsSure = Callable[[Tensor], Tensor]
"""From probabilities, shape (U, C), to whether each row counts, or how much, (U,)."""

Shares = Annotated[Literal["unknown", "even"] | tuple[float, ...], Limits(above=0)]
"""Class shares of a pool: the shares themselves, ``"even"``, or ``"unknown"``."""


class Minibatch(NamedTuple):
    """Items, labels and views of one process in one step."""

    labels: Tensor
    """Classes of the labeled items, B of them."""
    items: Tensor
    """The unlabeled items, U of them."""
    views: Mapping[str, Tensor]
    """Views of either, by the names that the learner gave them."""

    def pinned(self) -> "Minibatch":
        """Return the minibatch in memory that a GPU reads while it computes."""
        views = {name: view.pin_memory() for name, view in self.views.items()}
        return self._replace(labels=self.labels.pin_memory(), views=views)

    def to(self, device: torch.device) -> "Minibatch":
        """Return labels and views on a device; items stay where memory is."""
        views = {n: v.to(device, non_blocking=True) for n, v in self.views.items()}
        labels = self.labels.to(device, non_blocking=True)
        return self._replace(labels=labels, views=views)


class Loss(NamedTuple):
    """The loss of one minibatch, and figures to report with it."""

    total: Tensor
    """What is minimized, a scalar."""
    figures: Mapping[str, Tensor] = {}
    """Named scalars that are reported as progress."""

    @classmethod
    def of(
        cls, supervised: Tensor, consistency: Tensor, weight: float, **figures: Tensor
    ) -> "Loss":
        """Return the loss on labeled items plus the weighted one on unlabeled items."""
        terms = {"supervised": supervised, "consistency": consistency}
        return cls(supervised + weight * consistency, {**terms, **figures})


class PseudoLabels(NamedTuple):
    """Predicted classes of unlabeled items."""

    probabilities: Tensor
    """Of each class, refined where there is an alignment, shape (U, C)."""
    keeps: Tensor
    """Whether each counts, or how much, shape (U,)."""
    figures: Mapping[str, Tensor] = {}
    """Named scalars that are reported as progress."""

    @property
    def classes(self) -> Tensor:
        """The most probable class of each."""
        return self.probabilities.max(dim=1).indices

    @property
    def rates(self) -> Mapping[str, Tensor]:
        """The share that counts, and all figures."""
        return {"kept": self.keeps.float().mean(), **self.figures}

    def with_figure(self, name: str, figure: Tensor) -> "PseudoLabels":
        """Return the same with another figure."""
        return self._replace(figures={**self.figures, name: figure})


class Learned(NamedTuple):
    """Outputs of a network for some inputs."""

    features: Tensor
    """Input of the last layer."""
    logits: Tensor
    heads: Mapping[str, Tensor]
    """Outputs of the learner's own layers, by name."""


class LearningNetwork(nn.Module):
    """A network together with the layers that a learner wants besides.

    The layers see the features; they serve the training and are not part of its result,
    unless the learner makes them so.
    """

    def __init__(
        self, network: Network, heads: Mapping[str, int | None], key: int
    ) -> None:
        """Add layers of given widths to a network; None: one output per class."""
        super().__init__()
        self.network = network
        self.heads = nn.ModuleDict()
        for name, width in heads.items():
            layer = Dense(network.feature_size, width or network.head.out_features)
            layer.initialize(rng.stream(key, f"initialize {name}"))
            self.heads[name] = layer

    def forward(self, inputs: Tensor) -> Learned:
        """Return features, logits and the outputs of the other layers."""
        features = self.network.embed(inputs)
        others = {name: head(features) for name, head in self.heads.items()}
        return Learned(features, self.network.head(features), others)


@dataclass(frozen=True, eq=False)
class Step:
    """One step, as a learner sees it."""

    number: int
    """From zero."""
    minibatch: Minibatch
    """Labels, items, and the views that the learner wants, by name."""
    task: "TrainingTask"
    """The pool, the schedule, and all else that is the same in every step."""
    group: ProcessGroup
    memory: Mapping[str, Tensor]
    """The tensors that are kept between steps; changed in place."""
    network: nn.Module
    """The network, whose gradients are averaged over all processes."""
    average: LearningNetwork
    """The averaged network, in evaluation mode."""

    def outputs(
        self, *views: str | Tensor, moves_statistics: bool = True
    ) -> Sequence[Learned]:
        """Return the outputs of the network for each of some views, in one pass.

        Batch normalization sees them as one minibatch. Its running statistics move if
        ``moves_statistics``. A view is a name of the minibatch's, or a tensor.
        """
        known = self.minibatch.views
        if unknown := [v for v in views if isinstance(v, str) and v not in known]:
            raise errors.UnknownNameError("view", unknown[0], known)
        inputs = [as_input(known[v] if isinstance(v, str) else v) for v in views]
        buffers = [] if moves_statistics else list(self.network.buffers())
        kept = [buffer.clone() for buffer in buffers]
        features, logits, heads = self.network(torch.cat(inputs))
        for buffer, before in zip(buffers, kept, strict=True):
            buffer.data.copy_(before)  # unseen by autograd, which needs no statistics
        sizes = [len(view) for view in inputs]
        tensors = (features, logits, *heads.values())
        parts = zip(*(torch.split(rows, sizes) for rows in tensors), strict=True)
        return [
            Learned(embedded, scores, dict(zip(heads, others, strict=True)))
            for embedded, scores, *others in parts
        ]

    def pseudo_labels(self, probabilities_UC: Tensor, is_sure: IsSure) -> PseudoLabels:
        """Return pseudo-labels of the unlabeled items of the minibatch."""
        alignment = self.task.training.alignment
        if alignment is None:
            return PseudoLabels(probabilities_UC, is_sure(probabilities_UC))
        return alignment.pseudo_labels(self, probabilities_UC, is_sure)

    def ramp_factor(self, share: float) -> float:
        """Return the factor of a loss's weight: it grows from 0 to 1, then stays 1.

        It grows linearly over a share of all steps, as in the code of Berthelot et al.
        (2019).
        """
        length = share * self.task.settings.steps
        return 1.0 if self.number >= length else self.number / length

    def update_mean(self, name: str, now: Tensor, decay: float) -> None:
        """Move a running mean in memory towards a new value."""
        mean = self.memory[name]
        mean.lerp_(now.to(mean), 1 - decay)

    def stream(self, purpose: str) -> Generator:
        """Return a generator of this step and process for a learner's own draws."""
        return self.group.stream(self.task.key, purpose, self.number)


class Learner(Settings):
    """A learner that minimizes a loss step by step: inherit, or have its methods."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of other parts of the training that it replaces."""
    official: ClassVar[Mapping[str, Any]] = {}
    """Options of its official code, where they differ from FixMatch's."""

    mu: int = 0
    """Unlabeled items for each labeled one in a step."""

    def __post_init__(self) -> None:
        """Check the ranges, and that views of unlabeled items have some to show."""
        super().__post_init__()
        if not (self.mu or all(view.is_labeled for view in self.views.values())):
            raise errors.UsageError("Some views show unlabeled items: set mu above 0.")

    @property
    def views(self) -> Mapping[str, View]:
        """Views of the items that a step needs, by name."""
        return {"labeled": View("weak", is_labeled=True)}

    @property
    def heads(self) -> Mapping[str, int | None]:
        """Layers over the features besides the last one: the width of each by name.

        None stands for one output per class.
        """
        return {}

    def check(self, pool: Pool) -> None:
        """Raise if it cannot learn from a pool; fast enough to be called early."""

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the tensors that are kept between steps, as they are at the first.

        They are saved with an unfinished training, and restored when it is resumed.
        """
        del pool
        return {}

    def loss(self, step: Step) -> Loss | Tensor:
        """Return the loss, or its total alone; called once for each step, in order."""
        raise NotImplementedError

    def result(self, average: LearningNetwork, inputs: Views) -> Network:
        """Return the trained network, at the end or at a checkpoint.

        Args:
            average: A copy of the averaged network and layers, in evaluation mode; may
                be changed.
            inputs: Where the network's inputs come from.
        """
        del inputs
        return average.network


class DirectLearner(Settings):
    """A learner without steps: it computes a network over rows directly."""

    views: ClassVar[Mapping[str, View]] = {}
    """None: it reads the rows themselves."""

    shares: Shares

    def check(self, pool: Pool) -> None:
        """Raise unless shares that were given are one for each class."""
        if not isinstance(self.shares, str):
            check_count("shares", len(self.shares), pool.num_classes, "class")

    def begin(self, task: "TrainingTask") -> Network:
        """Return an untrained network for the rows of a pool; labels are not read."""
        raise NotImplementedError

    def solve(self, network: Network, task: "TrainingTask") -> None:
        """Fit the network to the labels, in place."""
        raise NotImplementedError

    def rehearse(self, num_items: int, num_classes: int, width: int) -> float:
        """Solve a small random problem; return how many times longer this one takes."""
        raise NotImplementedError
