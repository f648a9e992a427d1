"""Parts of a piece of work as tasks of Ray."""

import os
import signal
from functools import partial

import pytest

from fewlabels.errors import JobError, UsageError
from fewlabels.jobs.cluster import connected
from fewlabels.jobs.tasks import RayTasks


def doubled(folder, part):
    """Return twice a number; the worker of the third dies the first time."""
    marker = folder / "died"
    if part == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if part < 0:
        raise UsageError(f"{part} is below zero.")
    if part > 100:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * part


@pytest.mark.slow  # processes of Ray
def test_parts_are_done_in_order_whatever_becomes_of_workers(tmp_path):
    double = partial(doubled, tmp_path)
    with connected(None) as ray:
        tasks = RayTasks(ray, retries=1)
        assert list(tasks.map(double, range(20))) == list(range(0, 40, 2))
        assert (tmp_path / "died").exists()
        with pytest.raises(UsageError, match="-1 is below zero"):
            list(tasks.map(double, [1, -1]))
        with pytest.raises(JobError, match="was lost 2 times"):
            list(tasks.map(double, [101]))
