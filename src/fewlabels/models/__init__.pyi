from .neighbors import (
    BlendNetwork as BlendNetwork,
    Neighbors as Neighbors,
    Votes as Votes,
)
from .network import (
    Head as Head,
    Network as Network,
    WideResNet as WideResNet,
    as_input as as_input,
    build as build,
    check_name as check_name,
    name_of as name_of,
)
from .cache import FeatureCache as FeatureCache
from .classifiers import (
    Embedded as Embedded,
    FrozenClassifier as FrozenClassifier,
    NetworkClassifier as NetworkClassifier,
    PrecomputedClassifier as PrecomputedClassifier,
    moments as moments,
)
from .embedding import (
    StoredViews as StoredViews,
    embedded as embedded,
    embedded_views as embedded_views,
    num_missing as num_missing,
)
from .module_encoder import ModuleEncoder as ModuleEncoder
