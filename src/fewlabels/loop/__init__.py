"""The loop: a pool, a trainer, a strategy and an oracle in; a record per round out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
