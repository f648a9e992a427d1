"""The label store: an event log in SQL that can be killed at any moment.

This is the only package that uses SQL. Labels are not stored as such: every action is
an event that is added and never changed, and the current labels are a view of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
