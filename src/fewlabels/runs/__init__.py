"""A run's folder of files: safe to kill at any moment, resumed by the same command."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
