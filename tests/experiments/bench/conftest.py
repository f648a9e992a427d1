import pytest
from tests.experiments.bench import little


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small experiment that was done: its folder, its engine, how its runs ended."""
    path = tmp_path_factory.mktemp("bench") / "toy"
    return little.done(path, little.experiment(retrainings=2))
