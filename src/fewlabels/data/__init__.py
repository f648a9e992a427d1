"""Image sets: by name, from folders, manifests and arrays; never copied."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
