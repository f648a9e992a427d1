"""From images, or from embeddings brought along, to one row per item.

Classifiers give features and logits; encoders, which are frozen, give rows that are
computed once and kept.
"""

from typing import TYPE_CHECKING

from fewlabels.deferred import imported_when_used

if TYPE_CHECKING:
    from fewlabels.features.cache import FeatureCache
    from fewlabels.features.embedding import (
        StoredViews,
        content_key,
        embedded,
        embedded_views,
        num_missing,
    )
    from fewlabels.features.frozen import Embedded, FrozenClassifier, moments
    from fewlabels.features.module_encoder import ModuleEncoder
    from fewlabels.features.network import NetworkClassifier
    from fewlabels.features.precomputed import PrecomputedClassifier
    from fewlabels.neighbors import read_rows
else:
    __getattr__ = imported_when_used(__name__)

__all__ = [
    "Embedded",
    "FeatureCache",
    "FrozenClassifier",
    "ModuleEncoder",
    "NetworkClassifier",
    "PrecomputedClassifier",
    "StoredViews",
    "content_key",
    "embedded",
    "embedded_views",
    "moments",
    "num_missing",
    "read_rows",
]
