"""Training of a small head over frozen features: minutes on a CPU, for photographs too.

Every image, and a few weak and strong views of it, goes through an encoder once and is
kept; after that a step costs milliseconds. The objectives are those of the other
trainers: only the views differ.

Shapes: n items asked about, V views of each, D features of the encoder.
"""

from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Generator, Tensor

from fewlabels import files, naming, rng
from fewlabels.augment import Strong, WeakAugment
from fewlabels.errors import UsageError
from fewlabels.features import (
    Embedded,
    FeatureCache,
    FrozenClassifier,
    StoredViews,
    content_key,
    embedded,
    embedded_views,
    encoders,
    moments,
)
from fewlabels.features.cache import Rows
from fewlabels.features.encoders import Encoder
from fewlabels.features.self_supervised import SelfSupervised
from fewlabels.models import Head, Network
from fewlabels.pool import Pool
from fewlabels.training.alignment import FixMatchDarpTrainer
from fewlabels.training.fixmatch import FixMatchTrainer
from fewlabels.training.objective import Recipe
from fewlabels.training.settings import UNDECIDING, check_range
from fewlabels.training.supervised import SupervisedTrainer
from fewlabels.training.views import Views

_SELF_SUPERVISED = "self-supervised"
_VIEWS_KEY = 0  # the same views for every training, so that they are embedded once


@dataclass(frozen=True, kw_only=True)
class FrozenInputs:
    """Rows of an encoder that is never trained, made once and kept."""

    encoder: str = "efficientnet-lite0"
    """Name of an encoder, or ``"package.module:name"`` of a ``torch.nn.Module`` (see
    :mod:`fewlabels.features.encoders`), or ``"self-supervised"``: one that is trained
    on the images of the pool first, without labels, and kept."""
    encoder_options: dict[str, Any] = field(default_factory=dict)
    """Options of the encoder, such as ``size``, the side images are brought to."""
    cache: str | None = field(default=None, metadata=UNDECIDING)
    """Folder where features are kept; None: the cache folder of this user."""

    def feature_cache(self) -> FeatureCache:
        """Return where rows are kept."""
        if self.cache is None:
            return FeatureCache.of_this_user()
        return FeatureCache(Path(self.cache))

    def encoder_for(self, pool: Pool) -> Encoder:
        """Return the encoder; one that learns from the pool is trained once."""
        if self.encoder != _SELF_SUPERVISED:
            return encoders.resolve(self.encoder, **self.encoder_options)
        learner: SelfSupervised = naming.resolve(
            "encoder",
            self.encoder,
            self.encoder_options,
            {_SELF_SUPERVISED: SelfSupervised},
            method="fit(images, generator)",
        )
        told = sha256(repr(learner).encode()).hexdigest()[:16]
        name = f"{content_key(pool.images)}-{told}"
        place = self.feature_cache().folder / _SELF_SUPERVISED / name
        files.make_folder(place)
        draws = rng.stream(_VIEWS_KEY, _SELF_SUPERVISED)
        with FileLock(place / ".lock"):  # of two processes, one trains and one waits
            return learner.fit(pool.images, draws, workspace=place)


@dataclass(frozen=True, kw_only=True)
class FrozenRecipe(FrozenInputs, Recipe):
    """What the trainers over frozen features that take steps have in common."""

    network: str = "linear"
    """Name of the head: ``"linear"``, or ``"mlp-WIDTH"`` with a hidden layer."""
    learning_rate: float = 0.03
    """Learning rate of the first step (eta)."""
    weak: WeakAugment = field(default_factory=lambda: WeakAugment(flip=True))
    """How labeled images, and those that pseudo-labels come from, are varied."""
    weak_views: int = 1
    """Weak views of each image that are embedded."""
    strong_views: int = 2
    """Strong views of each image that are embedded."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        check_range("weak_views", self.weak_views, at_least=1)
        check_range("strong_views", self.strong_views, at_least=1)

    @classmethod
    def official_changes(cls) -> dict[str, Any]:
        """Return what :meth:`official` changes of the defaults: all but the head."""
        return super().official_changes() | {"network": "linear"}

    def views(self, pool: Pool) -> Views:
        """Return stored features of views; what is not there yet is embedded."""
        return FrozenViews(self, pool, self.encoder_for(pool), self.feature_cache())

    def _check_network(self) -> None:
        super()._check_network()
        if self.network.startswith("wrn"):
            msg = (
                f"The network '{self.network}' takes images, and features are frozen "
                "here: choose a head, 'linear' or 'mlp-256'."
            )
            raise UsageError(msg)


@dataclass(frozen=True, eq=False)
class FrozenViews:
    """Features of views, each embedded once and read in every step."""

    recipe: FrozenRecipe
    pool: Pool
    encoder: Encoder
    cache: FeatureCache

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of a row of features; an encoder may not know it beforehand."""
        return (self._clean.shape[1],)

    @property
    def identity(self) -> str:
        """Name of the encoder, which tells its weights."""
        return self.encoder.name

    def prepare(self) -> None:
        """Embed all views that are not there yet."""
        self._weak  # noqa: B018 - made on first use
        if self.recipe.strong_settings() is not None:
            self._strong  # noqa: B018 - made on first use

    def __getstate__(self) -> dict[str, Any]:
        """Send no rows to other processes: they open the same files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def weak(self, items: Tensor, generator: Generator) -> Tensor:
        """Return one of the weak views of each item."""
        return _drawn(self._weak, items, generator)

    def both(
        self, items: Tensor, for_weak: Generator, for_strong: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return one of the weak and one of the strong views of each item."""
        return (
            _drawn(self._weak, items, for_weak),
            _drawn(self._strong, items, for_strong),
        )

    def as_input(self, views: Tensor) -> Tensor:
        """Return the rows as they are; the head standardizes them."""
        return views

    def begin(self, network: Network) -> None:
        """Let the head standardize by the mean and spread of the pool's features."""
        assert isinstance(network, Head)
        network.standardize_by(*moments(self._clean))

    def classifier(self, network: Network, num_classes: int) -> FrozenClassifier:
        """Return encoder and head as a classifier of images."""
        return FrozenClassifier(
            module=network,
            num_classes=num_classes,
            encoder=self.encoder,
            known=(Embedded(self.pool.images, self._clean),),
            cache=self.cache,
        )

    @cached_property
    def _clean(self) -> Rows:
        pool = self.pool
        return embedded(pool.images, self.encoder, cache=self.cache)

    @cached_property
    def _weak(self) -> StoredViews:
        return self._embedded(self.recipe.weak, self.recipe.weak_views)

    @cached_property
    def _strong(self) -> StoredViews:
        settings = self.recipe.strong_settings()
        assert settings is not None
        return self._embedded(settings, self.recipe.strong_views)

    def _embedded(self, settings: WeakAugment | Strong, num_views: int) -> StoredViews:
        return embedded_views(
            self.pool.images,
            self.encoder,
            settings=settings,
            num_views=num_views,
            key=_VIEWS_KEY,
            cache=self.cache,
        )


def _drawn(views: StoredViews, items: Tensor, generator: Generator) -> Tensor:
    """Return a random view of each item."""
    num_views = views.shape[1]
    numbers_n = torch.randint(num_views, (len(items),), generator=generator)
    return views.read(items, numbers_n)


@dataclass(frozen=True, kw_only=True)
class FrozenSupervisedTrainer(FrozenRecipe, SupervisedTrainer):
    """A head trained on the labeled items alone."""


@dataclass(frozen=True, kw_only=True)
class FrozenFixMatchTrainer(FrozenRecipe, FixMatchTrainer):
    """A head trained by FixMatch."""

    strong: str | Strong = "official"
    """How strong views are made; see :class:`FixMatchTrainer`."""


@dataclass(frozen=True, kw_only=True)
class FrozenFixMatchDarpTrainer(FrozenRecipe, FixMatchDarpTrainer):
    """A head trained by FixMatch with DARP."""

    strong: str | Strong = "official"
    """How strong views are made; see :class:`FixMatchTrainer`."""
