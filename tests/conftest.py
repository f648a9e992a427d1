"""What all tests share: one thread, no deadlines, no touched global randomness."""

import gc
import os
import random
import shutil
import signal
import tempfile
from collections import UserDict
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path

import hypothesis
import pytest
from tests.harness import postgres

# What takes long to import is imported where it is used: the process that hands tests
# out to others reads this file, too.
gc.disable()  # what is imported and collected stays: nothing to be found
# A shell has what it starts in the background ignore Ctrl-C, and children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Files of tests are many and short-lived: where memory has a disk, they go there.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("TMPDIR", str(MEMORY))  # children, too
    tempfile.tempdir = os.environ["TMPDIR"]

# A change is tested with few examples of each property, `make test-slow` with many.
hypothesis.settings.register_profile(
    "fast", deadline=None, print_blob=True, max_examples=20, database=None
)
hypothesis.settings.register_profile(
    "thorough", deadline=None, print_blob=True, max_examples=200
)
hypothesis.settings.load_profile("fast")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in docstrings of the package, not in those of its tests."""
    found = yield
    return [one for one in found if type(one) is pytest.Module]


def pytest_collection_finish():
    """Let nobody look for garbage among what was imported: that stays to the end."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)  # tests leave little behind


def global_random_state():
    import numpy as np
    import torch

    numpy_state = np.random.get_state()  # noqa: NPY002 - to see it untouched
    return (
        random.getstate(),
        numpy_state[1].tobytes(),
        numpy_state[2],
        torch.get_rng_state().numpy().tobytes(),
    )


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Two test processes share two cores."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep features and downloads out of the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEWLABELS_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("FEWLABELS_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_flushing():
    """What tests write need not outlive a power failure; to wait for disks is long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


class Statements(UserDict):
    """Compiled statements by what they say and the kind of their database."""

    def __getitem__(self, key):
        return super().__getitem__((type(key[0]), *key[1:]))

    def __setitem__(self, key, compiled):
        super().__setitem__((type(key[0]), *key[1:]), compiled)

    def get(self, key, default=None):
        return self.data.get((type(key[0]), *key[1:]), default)


@pytest.fixture(scope="session", autouse=True)
def compiled_once():
    """Hundreds of stores are opened; each would compile the same statements anew."""
    import sqlalchemy

    statements, create = Statements(), sqlalchemy.create_engine

    def created(*given, **options):
        kept = {"compiled_cache": statements}
        return create(*given, execution_options=kept, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewlabels.projects.store.database.create_engine", created)
        yield


@pytest.fixture(scope="session", autouse=True)
def packages_looked_through_once():
    """Each training would look for plug-ins among all packages that are installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.metadata.entry_points", cache(metadata.entry_points))
        yield


@contextmanager
def forked_processes(number):
    """Let up to so many jobs be done by forks: imports take a new process seconds."""
    if not Path("/proc/self/fd").exists():
        yield
        return
    from tests import forked

    with forked.processes(number) as processes, pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewlabels.jobs.processes.subprocess", processes)
        yield


@pytest.fixture
def forked_workers():
    """Let up to three jobs be done by forks."""
    with forked_processes(3):
        yield


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server for all tests of this process."""
    reason = postgres.why_not()
    if reason:
        pytest.skip(reason)
    running = postgres.start()
    yield running
    running.stop()


@pytest.fixture
def untouched_randomness():
    """Fail the test if it drew from, or seeded, a global random generator."""
    import rich.style  # noqa: F401 - which draws once when it is imported

    before = global_random_state()
    yield
    assert global_random_state() == before, "a global random generator was used"
