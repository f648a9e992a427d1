"""What a network sees of the items of a step: weak and strong views.

The inputs of a training are a frozen object of settings; together with a pool they
become :class:`Views`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from fewlabels import augment
from fewlabels.augment import Strong, WeakAugment
from fewlabels.data.contents import row_digest
from fewlabels.errors import UsageError
from fewlabels.features import NetworkClassifier, moments
from fewlabels.models import Head, Network, as_input
from fewlabels.neighbors import RowSource
from fewlabels.pool import Images, Pool
from fewlabels.protocols import Classifier
from fewlabels.training.rows import RowViews, VariedRows
from fewlabels.training.schedule import OF_STRONG_VIEWS, OF_VIEWS

Kind = Literal["weak", "strong"]
Wanted = Mapping[str, tuple[Kind, Generator]]
"""Kinds of views and where their randomness comes from, by name."""


class View(NamedTuple):
    """A view of the items of a step that a learner wants."""

    kind: Kind
    is_labeled: bool = False
    """Of the labeled items of the step; else of the unlabeled ones."""


class Views(Protocol):
    """Where a training's inputs come from: images varied anew, or stored features."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        ...

    @property
    def rows(self) -> RowSource:
        """All items of the pool as rows, for learners that take no steps."""
        ...

    @property
    def origin(self) -> float:
        """What stands for nothing in a row: black, or zero."""
        ...

    @property
    def identity(self) -> str:
        """What makes inputs of images, where settings do not tell, such as weights."""
        ...

    @property
    def contents(self) -> str:
        """A digest of what the items hold, where their ids do not tell it."""
        ...

    def prepare(self, kinds: set[Kind]) -> None:
        """Make what all steps read, before the first."""
        ...

    def shown(self, items: Tensor, wanted: Wanted) -> dict[str, Tensor]:
        """Return views of the items, each drawn independently."""
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


class Inputs(Protocol):
    """Settings of what the network sees, a frozen dataclass."""

    word: ClassVar[str]
    """What it adds to the name of a training's type."""
    has_features: ClassVar[bool]
    """Whether they are features of an encoder."""
    defaults: ClassVar[Mapping[str, Any]]
    """What it changes of the defaults of other parts."""

    def check_network(self, name: str) -> None:
        """Raise unless a network of this name can take such inputs."""
        ...

    def check(self, pool: Pool) -> None:
        """Raise unless there are such inputs of a pool; quick, so ask early."""
        ...

    def of(self, pool: Pool, cache: str | None) -> Views:
        """Return the views of a pool; features are kept in a folder, if there are."""
        ...


@dataclass(frozen=True, kw_only=True)
class PoolInputs:
    """What the pool holds, images or rows, varied anew in each step."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    word: ClassVar = ""
    has_features: ClassVar = False
    defaults: ClassVar[Mapping[str, Any]] = {}

    weak: WeakAugment | RowViews = field(default_factory=WeakAugment, metadata=OF_VIEWS)
    """How labeled images, and those that pseudo-labels come from, are varied. Rows stay
    as they are, unless :class:`RowViews` are given."""
    strong: str | Strong | RowViews = field(
        default="small-grey", metadata=OF_STRONG_VIEWS
    )
    """How the images that learn from pseudo-labels are varied: the name of a preset
    (see :func:`fewlabels.augment.preset`) or settings. Rows are varied by
    :class:`RowViews`, the default ones unless others are given."""

    def __post_init__(self) -> None:
        """Check the name of the preset."""
        strong_settings(self.strong)

    def check_network(self, name: str) -> None:
        """Do nothing: networks say themselves what shapes they take."""

    def check(self, pool: Pool) -> None:
        """Raise if images shall be varied as rows are."""
        shape = pool.images.shape
        if len(shape) > 1 and RowViews in {type(self.weak), type(self.strong)}:
            raise UsageError(
                f"The items are images of shape {shape}, and the views say how rows "
                "are varied (dropout, noise, neighbors). Say how images are, or leave "
                "out 'weak' and 'strong'."
            )

    def of(self, pool: Pool, cache: str | None) -> Views:
        """Return views of the pool's images or vectors."""
        del cache
        weak, strong = self.weak, strong_settings(self.strong)
        if len(pool.images.shape) == 1:
            return VectorViews(
                pool.images,
                weak if isinstance(weak, RowViews) else None,
                strong if isinstance(strong, RowViews) else RowViews(),
            )
        assert isinstance(weak, WeakAugment)
        assert not isinstance(strong, RowViews)
        return ImageViews(pool.images, weak, strong)


def strong_settings(strong: str | Strong | RowViews) -> Strong | RowViews:
    """Return how strong views are made, by the name of a preset or as it is."""
    return augment.preset(strong) if isinstance(strong, str) else strong


@dataclass(frozen=True, eq=False)
class _ItemViews:
    """What views of images and of vectors have in common."""

    images: Images
    """The images or vectors of the pool."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one item."""
        return self.images.shape

    @property
    def rows(self) -> RowSource:
        """All items, as the network takes them."""
        return ImageRows(self.images)

    @property
    def origin(self) -> float:
        """Black."""
        return -1.0

    @property
    def identity(self) -> str:
        """Nothing: the settings tell all."""
        return ""

    @cached_property
    def contents(self) -> str:
        """A digest of all vectors; nothing of images."""
        return row_digest(self.images)

    def prepare(self, kinds: set[Kind]) -> None:
        """Do nothing: views are made anew in each step."""

    def as_input(self, views: Tensor) -> Tensor:
        """Map bytes to [-1, 1]."""
        return as_input(views)

    def classifier(self, network: Network, num_classes: int) -> NetworkClassifier:
        """Return the network as a classifier."""
        return NetworkClassifier(network, num_classes)


@dataclass(frozen=True, eq=False)
class ImageViews(_ItemViews):
    """Views of images, made anew in each step."""

    weak: WeakAugment
    """How weak views are made."""
    strong: Strong
    """How strong views are made."""

    def shown(self, items: Tensor, wanted: Wanted) -> dict[str, Tensor]:
        """Return views of the images, which are read once."""
        images = self.images.read(items)
        return {name: self._varied(images, *how) for name, how in wanted.items()}

    def _varied(self, images: Tensor, kind: Kind, generator: Generator) -> Tensor:
        if kind == "weak":
            return augment.weak(images, generator, self.weak)
        return augment.strong(images, generator, self.strong)

    def begin(self, network: Network) -> None:
        """Do nothing: images need no fitting."""


@dataclass(frozen=True, eq=False)
class ImageRows:
    """Images, or vectors, as rows that a network takes, read as they are asked for."""

    images: Images

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of items, and of numbers in each."""
        return len(self.images), math.prod(self.images.shape)

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.images)

    def __getitem__(self, items: NDArray[np.int64], /) -> NDArray[np.float32]:
        """Return the rows of some items."""
        read = as_input(self.images.read(torch.from_numpy(items)))
        return read.flatten(start_dim=1).numpy()


@dataclass(frozen=True, eq=False)
class VectorViews(_ItemViews):
    """Views of vectors, made anew in each step."""

    weak: RowViews | None
    """How weak views are made; None: they are the vectors themselves."""
    strong: RowViews
    """How strong views are made."""

    @property
    def origin(self) -> float:
        """Zero."""
        return 0.0

    @cached_property
    def _varied(self) -> dict[Kind, VariedRows]:
        kinds: dict[Kind, RowViews | None] = {"weak": self.weak, "strong": self.strong}
        return {kind: VariedRows(self.rows, how) for kind, how in kinds.items() if how}

    def shown(self, items: Tensor, wanted: Wanted) -> dict[str, Tensor]:
        """Return views of the vectors."""
        return {
            name: self._varied[kind].of(items, generator)
            if kind in self._varied
            else self.images.read(items)
            for name, (kind, generator) in wanted.items()
        }

    def begin(self, network: Network) -> None:
        """Let the head standardize by the mean and spread of the pool's vectors."""
        assert isinstance(network, Head)
        network.standardize_by(*moments(self.rows))
