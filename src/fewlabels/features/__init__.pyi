from .cache import FeatureCache as FeatureCache
from .classifiers import (
    NetworkClassifier as NetworkClassifier,
    PrecomputedClassifier as PrecomputedClassifier,
)
from .embedding import (
    StoredViews as StoredViews,
    content_key as content_key,
    embedded as embedded,
    embedded_views as embedded_views,
    num_missing as num_missing,
)
from .frozen import (
    Embedded as Embedded,
    FrozenClassifier as FrozenClassifier,
    moments as moments,
)
from .module_encoder import ModuleEncoder as ModuleEncoder
