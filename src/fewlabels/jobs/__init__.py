"""Calls in other processes: one job that reports events, or many calls side by side.

What is called is text (``"module:function"`` and arguments that JSON can hold), and so
is all that comes back. A job may be canceled or killed at any moment; whatever it does
keeps its state in files, and the same job goes on from there.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
