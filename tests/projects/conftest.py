"""The databases of the store's tests."""

from tests.store.conftest import place

__all__ = ["place"]
