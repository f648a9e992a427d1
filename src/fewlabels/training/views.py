"""The inputs of a network in a step: weak and strong views of items.

The inputs of a training are a frozen object of settings; together with a pool they
become :class:`Views`.

It is known how images may change without changing their class, but not how rows may.
Two assumptions are safe: no single number decides, and rows between two neighbors are
of their kind (as in Chawla et al., "SMOTE: Synthetic Minority Over-sampling Technique",
JAIR 2002).

Shapes: N items, M items among which neighbors are looked for, n items of a step,
F features, K neighbors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from fewlabels.data import augment
from fewlabels.data.augment import Strong, WeakAugment
from fewlabels.data.derived import row_digest
from fewlabels.errors import Settings
from fewlabels.models import Network, NetworkClassifier, as_input, moments
from fewlabels.names import check_known
from fewlabels.pool import Images, Pool, RowSource, read_rows
from fewlabels.protocols import Classifier

OF_VIEWS, OF_STRONG_VIEWS, OF_FEATURES = (
    {"needs": word} for word in ("weak", "strong", "features")
)
"""Mark options that count only where a learner wants such views, or inputs are such."""

Kind = Literal["weak", "strong"]
Wanted = Mapping[str, tuple[Kind, Generator]]
"""Kinds of views and where their randomness comes from, by name."""

_DROPOUT = 0.2  # share of the numbers of a row that the mean of the pool replaces
_NOISE = 0.5  # how far a row moves, at most: 1 is as far as the neighbor that is drawn
_NEIGHBORS = 5
_MOST_NEIGHBORS_FROM = 6000  # rows of a pool that are looked at; others are passed over
_BLOCK = 1024


@dataclass(frozen=True)
class View:
    """A view of the items of a step that a learner wants."""

    kind: Kind
    is_labeled: bool = False
    """Of the labeled items of the step; else of the unlabeled ones."""

    def __post_init__(self) -> None:
        """Check the kind."""
        check_known("kind of view", self.kind, Kind)


@dataclass(frozen=True, kw_only=True)
class PoolInputs(Settings):
    """What the pool holds, images or rows, varied anew in each step."""

    word: ClassVar[str] = ""
    """What it adds to the name of a training's type."""
    has_features: ClassVar[bool] = False
    """Whether they are features of an encoder."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """What it changes of the defaults of other parts."""

    weak: WeakAugment = field(default_factory=WeakAugment, metadata=OF_VIEWS)
    """How labeled images, and those that pseudo-labels come from, are varied; rows stay
    as they are."""
    strong: str | Strong = field(default="small-grey", metadata=OF_STRONG_VIEWS)
    """How the images that learn from pseudo-labels are varied: the name of a preset
    (see :func:`fewlabels.data.augment.preset`) or settings; rows are varied by their
    neighbors."""

    def __post_init__(self) -> None:
        """Check the ranges and the name of the preset."""
        super().__post_init__()
        self.augmentation("strong")

    def augmentation(self, kind: Kind) -> WeakAugment | Strong:
        """Return how images are varied for views of a kind."""
        chosen = self.weak if kind == "weak" else self.strong
        return augment.preset(chosen) if isinstance(chosen, str) else chosen

    def check(self, pool: Pool) -> None:
        """Raise unless a pool has such inputs; a quick check."""

    def of(self, pool: Pool, cache: str | None) -> "Views":
        """Return the views of a pool; features are cached in a folder."""
        del cache
        return Views(self, pool)


@dataclass(frozen=True, eq=False)
class Views:
    """The inputs of a training: here, images or vectors that are varied anew."""

    inputs: PoolInputs
    pool: Pool

    @property
    def rows(self) -> RowSource:
        """All items of the pool as rows, for learners that take no steps."""
        return ImageRows(self.pool.images)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input of the network."""
        return self.pool.images.shape

    @property
    def origin(self) -> float:
        """The value of an empty column: black, and zero in a vector."""
        return -1.0 if len(self.shape) > 1 else 0.0

    @property
    def identity(self) -> str:
        """Identifies what the settings do not, such as the weights of an encoder."""
        return ""

    @cached_property
    def contents(self) -> str:
        """A digest of all vectors; nothing of images, whose ids identify them."""
        return row_digest(self.pool.images)

    @cached_property
    def _varied(self) -> "VariedRows":
        return VariedRows(self.rows)

    def prepare(self, kinds: set[Kind]) -> None:
        """Compute what all steps read, before the first."""

    def read_views(self, items: Tensor, wanted: Wanted) -> dict[str, Tensor]:
        """Return the wanted views by name, each drawn independently."""
        images = self.pool.images.read(items)
        views = {}
        for name, (kind, generator) in wanted.items():
            settings = self.inputs.augmentation(kind)
            if len(self.shape) == 1:
                is_weak = kind == "weak"
                views[name] = images if is_weak else self._varied.of(items, generator)
            elif isinstance(settings, WeakAugment):
                views[name] = augment.weak(images, generator, settings)
            else:
                views[name] = augment.strong(images, generator, settings)
        return views

    def classifier(self, network: Network) -> Classifier:
        """Return a network over such inputs as a classifier of images."""
        return NetworkClassifier(network, self.pool.num_classes)


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
class VariedRows:
    """Rows of a pool, shape (N, F), that are varied by their neighbors and the mean."""

    rows: RowSource

    def of(self, items: Tensor, generator: Generator) -> Tensor:
        """Return a view of each of some items, float32, shape (n, F)."""
        own = read_rows(self.rows, items)
        which = torch.randint(2**31, (len(items),), generator=generator)
        far = torch.rand(len(items), 1, generator=generator) * _NOISE
        is_left_out = torch.rand(own.shape, generator=generator) < _DROPOUT
        if self._near.shape[1]:
            near = self._near[items, which % self._near.shape[1]]
            own = own + far * (read_rows(self.rows, near) - own)
        return torch.where(is_left_out, self._moments[0], own)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return moments(self.rows)

    @cached_property
    def _near(self) -> Tensor:
        """The nearest other items of each, over standardized rows, shape (N, K)."""
        from fewlabels.gram.nearest import closest, others

        mean, deviation = self._moments
        num_items = len(self.rows)
        num_others = min(num_items, _MOST_NEIGHBORS_FROM)
        others_M = torch.linspace(0, num_items - 1, num_others).long()
        rows_MF = (read_rows(self.rows, others_M) - mean) / deviation
        count = min(_NEIGHBORS, num_others - 1)
        blocks = []
        for part in torch.split(torch.arange(num_items), _BLOCK):
            rows = (read_rows(self.rows, part) - mean) / deviation
            near = others_M[closest(rows, [rows_MF], count + 1)]
            blocks.append(others(near.numpy(), part.numpy(), num_items))
        return torch.from_numpy(np.concatenate(blocks))
