"""The databases of the store's tests."""

from tests.projects.store.conftest import place

__all__ = ["place"]
