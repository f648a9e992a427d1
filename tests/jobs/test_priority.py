"""A job that others wait for nothing of leaves them the processors."""

import os

import pytest

from fewlabels import jobs


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="needs priorities")
@pytest.mark.parametrize("gives_way", [0, 5])
def test_a_job_gives_way_if_told_to(gives_way):
    call = "tests.jobs.calls:priorities"
    job = jobs.start(call, {}, allow_code=True, gives_way=gives_way)
    process, session = job.result()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert process == min(own + gives_way, 19)
    if session is not None:  # Linux, where sessions are weighed first
        assert session == gives_way
