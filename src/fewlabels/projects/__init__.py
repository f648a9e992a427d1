"""A person's project: from a folder of images to labels, predictions and a model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
