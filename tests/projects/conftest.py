"""The databases of the store's tests."""

from tests.store.conftest import place, server

__all__ = ["place", "server"]
