"""Subset search over any kernel or score; pure functions.

An index is a position in the whole pool. Draws are keyed by their number: the set of
draw ``i`` is the same however draws are split into chunks or spread over processes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
