"""Query strategies: each is a sentence of features, an objective and a search."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
