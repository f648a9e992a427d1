"""From images, or from embeddings brought along, to one row per item.

Classifiers give features and logits; encoders, which are frozen, give rows that are
computed once and kept.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
