"""What a network sees of the items of a step: weak and strong views.

Shapes: B labeled items in a minibatch, U unlabeled ones.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from fewlabels.augment import Strong, WeakAugment, strong, weak
from fewlabels.features import NetworkClassifier, moments
from fewlabels.models import Head, Network, as_input
from fewlabels.pool import Images, Pool
from fewlabels.protocols import Classifier
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.minibatches import Minibatches, balanced
from fewlabels.training.settings import TrainingSettings


class Views(Protocol):
    """Where a trainer's inputs come from: images varied anew, or stored features."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        ...

    @property
    def identity(self) -> str:
        """What makes inputs of images, where settings do not tell, such as weights."""
        ...

    def prepare(self) -> None:
        """Make what all steps read, before the first."""
        ...

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        """Return a weak view of each item."""
        ...

    def both(
        self, items: Tensor, for_weak: Generator, for_strong: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return a weak and a strong view of each item, drawn independently."""
        ...

    def as_input(self, views: Tensor) -> Tensor:
        """Return views as the network wants them, on the device they are on."""
        ...

    def begin(self, network: Network) -> None:
        """Fit an untrained network to the inputs, where that is needed."""
        ...

    def classifier(self, network: Network, num_classes: int) -> Classifier:
        """Return a network over such inputs as a classifier of images."""
        ...


@dataclass(frozen=True, eq=False)
class ImageViews:
    """Views of images, made anew in each step."""

    images: Images
    """The images of the pool."""
    weak_settings: WeakAugment
    """How weak views are made."""
    strong_settings: Strong | None = None
    """How strong views are made; None where none are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return self.images.shape

    @property
    def identity(self) -> str:
        """Nothing: the settings tell all."""
        return ""

    def prepare(self) -> None:
        """Do nothing: views are made anew in each step."""

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        """Return the images, flipped and shifted."""
        return weak(self.images.read(items), generator, self.weak_settings)

    def both(
        self, items: Tensor, for_weak: Generator, for_strong: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return weak and strong views of the images, which are read once."""
        assert self.strong_settings is not None
        images = self.images.read(items)
        return (
            weak(images, for_weak, self.weak_settings),
            strong(images, for_strong, self.strong_settings),
        )

    def as_input(self, views: Tensor) -> Tensor:
        """Map bytes to [-1, 1]."""
        return as_input(views)

    def begin(self, network: Network) -> None:
        """Do nothing: images need no fitting."""

    def classifier(self, network: Network, num_classes: int) -> NetworkClassifier:
        """Return the network as a classifier."""
        return NetworkClassifier(network, num_classes)


@dataclass(frozen=True, eq=False)
class VectorViews(ImageViews):
    """Views of vectors: what may vary in them nobody knows, so that nothing does."""

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        """Return the vectors as they are."""
        del generator
        return self.images.read(items)

    def begin(self, network: Network) -> None:
        """Let the head standardize by the mean and spread of the pool's vectors."""
        assert isinstance(network, Head)
        everything = self.images.read(torch.arange(len(self.images)))
        network.standardize_by(*moments(as_input(everything).numpy()))


@dataclass(frozen=True, eq=False)
class Minibatch:
    """What one process looks at in one step."""

    labeled: Tensor
    """Weak views of labeled items, B of them."""
    labels: Tensor
    """Their classes."""
    weak: Tensor | None = None
    """Weak views of unlabeled items, U of them."""
    strong: Tensor | None = None
    """Strong views of the same."""
    items: Tensor | None = None
    """Which items they are."""

    def to(self, device: torch.device) -> "Minibatch":
        """Return the minibatch on a device."""
        moved: dict[str, Any] = {
            name: None if tensor is None else tensor.to(device, non_blocking=True)
            for name, tensor in vars(self).items()
        }
        return Minibatch(**moved)


@dataclass(frozen=True, eq=False)
class Minibatcher:
    """Makes the minibatch of any step from its number alone.

    A process draws for its own share; with one process there is one share. Nothing
    depends on what was made before, so minibatches can be made ahead, and a training
    can be taken up anywhere.
    """

    views: Views
    """Where inputs come from."""
    pool: Pool
    """The pool; at least one item is labeled."""
    settings: TrainingSettings
    """How many labeled items."""
    key: int
    """The key of the training's streams."""
    group: ProcessGroup
    """Whose share."""
    num_unlabeled: int = 0
    """Unlabeled items in a step, over all processes."""

    def at(self, step: int) -> Minibatch:
        """Return the minibatch of one step."""
        items_B = self.group.share(self._labeled.at(step))
        labeled = self.views.weak(items_B, self._stream("labeled views", step))
        labels_B = self.pool.labels[items_B]
        if not self.num_unlabeled:
            return Minibatch(labeled, labels_B)
        items_U = self.group.share(self._unlabeled.at(step))
        views = self.views.both(
            items_U,
            self._stream("weak views", step),
            self._stream("strong views", step),
        )
        return Minibatch(labeled, labels_B, *views, items_U)

    @cached_property
    def _labeled(self) -> Minibatches:
        items = self.pool.labeled
        if self.settings.balances_classes:
            items = balanced(items, self.pool.labels[items])
        return Minibatches(
            items, self.settings.minibatch_size, self.key, "labeled items"
        )

    @cached_property
    def _unlabeled(self) -> Minibatches:
        # Labeled items stay among the unlabeled ones, as in the official code.
        everything = torch.arange(len(self.pool))
        return Minibatches(everything, self.num_unlabeled, self.key, "unlabeled items")

    def _stream(self, purpose: str, step: int) -> Generator:
        return self.group.stream(self.key, purpose, step)
