"""Training of a small head over frozen features: minutes on a CPU, for photographs too.

Every image, and a few weak and strong views of it, goes through an encoder once and is
kept; after that a step costs milliseconds. What is learned is what is learned from
images: only the inputs differ.

Shapes: n items asked about, V views of each, D features of the encoder.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from fewlabels.data.augment import Strong, WeakAugment
from fewlabels.errors import Count, UsageError
from fewlabels.models import Network, encoders
from fewlabels.models.cache import FeatureCache, FeatureRows
from fewlabels.models.classifiers import Embedded, FrozenClassifier
from fewlabels.models.embedding import StoredViews, embedded, embedded_views
from fewlabels.models.encoders import Encoder
from fewlabels.pool import Pool
from fewlabels.training.views import (
    OF_STRONG_VIEWS,
    OF_VIEWS,
    Kind,
    PoolInputs,
    Views,
    Wanted,
)

_VIEWS_KEY = 0  # the same views for every training, so that they are embedded once


@dataclass(frozen=True, kw_only=True)
class FrozenInputs(PoolInputs):
    """Features of an encoder that is never trained, computed once and kept."""

    word: ClassVar = "Frozen"
    has_features: ClassVar = True
    defaults: ClassVar[Mapping[str, Any]] = {"network": "linear", "learning_rate": 0.03}

    encoder: str = field(default="efficientnet-lite0", metadata={"code": True})
    """Which one, in any of the forms of :func:`fewlabels.models.encoders.resolve`."""
    encoder_options: dict[str, Any] = field(default_factory=dict)
    """Options of the encoder, such as ``size``, the side images are brought to."""
    weak: WeakAugment = field(
        default_factory=lambda: WeakAugment(flip=True), metadata=OF_VIEWS
    )
    """How labeled images, and those that pseudo-labels come from, are varied."""
    strong: str | Strong = field(default="official", metadata=OF_STRONG_VIEWS)
    """How the images that learn from pseudo-labels are varied: the name of a preset
    (see :func:`augment.preset`) or settings."""
    weak_views: Count = field(default=1, metadata=OF_VIEWS)
    """Weak views of each image that are embedded."""
    # It counts for learners without strong views too: all runs have recorded it.
    strong_views: Count = field(default=2, metadata=OF_VIEWS)
    """Strong views of each image that are embedded."""

    def __post_init__(self) -> None:
        """Check the ranges, the name of the preset and that of the encoder."""
        super().__post_init__()
        encoders.check(self.encoder)

    def check(self, pool: Pool) -> None:
        """Raise unless there are images to encode."""
        if len(pool.images.shape) == 1:
            raise UsageError(
                f"Rows of {pool.images.shape[0]} need no encoder; leave 'frozen-' out."
            )

    def of(self, pool: Pool, cache: str | None) -> "FrozenViews":
        """Return stored features of views; what is not there yet is embedded."""
        kept = FeatureCache(Path(cache)) if cache else FeatureCache.of_this_user()
        encoder = encoders.resolve(self.encoder, **self.encoder_options)
        return FrozenViews(self, pool, encoder, kept)


@dataclass(frozen=True, eq=False)
class FrozenViews(Views):
    """Features of views, each embedded once and read in every step."""

    inputs: FrozenInputs
    encoder: Encoder
    cache: FeatureCache

    @cached_property
    def rows(self) -> FeatureRows:
        """Features of the images without variation."""
        return embedded(self.pool.images, self.encoder, cache=self.cache)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.rows.shape[1:]

    @property
    def origin(self) -> float:
        """Zero, and black where features are the pixels themselves."""
        return -1.0 if self.inputs.encoder == encoders.PIXELS else 0.0

    @property
    def identity(self) -> str:
        """Name of the encoder, which identifies its weights."""
        return self.encoder.name

    def __getstate__(self) -> dict[str, Any]:
        """Send no rows to other processes: they open the same files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def prepare(self, kinds: set[Kind]) -> None:
        """Embed all views that are not there yet."""
        for kind in kinds - self._stored.keys():
            is_weak, inputs = kind == "weak", self.inputs
            self._stored[kind] = embedded_views(
                self.pool.images,
                self.encoder,
                settings=inputs.augmentation(kind),
                num_views=inputs.weak_views if is_weak else inputs.strong_views,
                key=_VIEWS_KEY,
                cache=self.cache,
            )

    def read_views(self, items: Tensor, wanted: Wanted) -> dict[str, Tensor]:
        """Return the wanted views by name, each drawn from the stored ones."""
        self.prepare({kind for kind, _ in wanted.values()})
        drawn = {}
        for name, (kind, generator) in wanted.items():
            stored, size = self._stored[kind], (len(items),)
            numbers_n = torch.randint(stored.shape[1], size, generator=generator)
            drawn[name] = stored.read(items, numbers_n)
        return drawn

    def classifier(self, network: Network) -> FrozenClassifier:
        """Return encoder and head as a classifier of images."""
        return FrozenClassifier(
            module=network,
            num_classes=self.pool.num_classes,
            encoder=self.encoder,
            known=(Embedded(self.pool.images, self.rows),),
            cache=self.cache,
        )

    @cached_property
    def _stored(self) -> dict[Kind, StoredViews]:
        """Views of each kind that was asked for."""
        return {}
