"""From a pile of unlabeled images and a labeling budget to the best classifier.

``load`` makes a pool of images, ``run`` labels it step by step and trains, ``select``
chooses what to label for people who bring their own embeddings.

Names are imported when they are first used: torch alone takes a second or two.
"""

from importlib.metadata import version

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = version("fewlabels")
