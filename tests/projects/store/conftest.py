"""Every test of the store runs on both databases."""

import pytest
from sqlalchemy import create_engine, text

from fewlabels.projects.store import Store


def emptied(server):
    """Empty the database that all tests of this process share; return its address."""
    url = server.url("postgres")
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where a store may lie: a file, or an empty database on a server."""
    if request.param == "sqlite":
        return str(tmp_path / "labels.sqlite")
    return emptied(request.getfixturevalue("server"))


@pytest.fixture
def store(place):
    """An empty store."""
    with Store.open(place) as opened:
        yield opened
