"""Who does many calls, and what becomes of workers, changes nothing in them."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from fewlabels.errors import JobError, UsageError
from fewlabels.jobs import LocalExecutor, RayExecutor, Worker
from fewlabels.jobs.cluster import RayTasks, connected
from fewlabels.jobs.processes import num_cores

CALLS = "tests.jobs.calls"


def numbered(number):
    return [{"number": one} for one in range(number)]


@pytest.fixture(params=["local", "ray"])
def make(request):
    """What makes an executor of each kind."""
    if request.param == "local":
        request.getfixturevalue("forked_workers")
        return partial(LocalExecutor, num_workers=2)
    return partial(RayExecutor, request.getfixturevalue("cluster"))


@pytest.fixture(scope="module")
def cluster():
    """The address of a Ray cluster of two nodes, both on this machine."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        nodes = cluster_utils.Cluster()
        try:
            for _ in range(2):  # without what would watch and scale it
                nodes.add_node(
                    num_cpus=1,
                    include_dashboard=False,
                    include_log_monitor=False,
                    no_monitor=True,
                )
            yield nodes.address
        finally:
            nodes.shutdown()


def is_alive(process):
    """Return whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text("ascii")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def eventually(condition, seconds=60):
    """Wait until something is so; return whether it came to be."""
    until = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def processes(folder):
    """Return the processes that have worked, or still do."""
    return [int(file.stem) for file in Path(folder).glob("*.process")]


# ---------------------------------------------------------------- every executor


def test_a_call_that_kills_its_workers_stops_no_other(make, tmp_path, monkeypatch):
    monkeypatch.setattr("fewlabels.jobs.processes.RETRIES", 1)
    found = dict(make().run(f"{CALLS}:dies_if", numbered(4), tmp_path))
    lost = found.pop(0)
    assert {number: end["result"] for number, end in found.items()} == {
        1: 1,
        2: 2,
        3: 3,
    }
    assert lost["event"] == "died"
    assert re.search(r"was lost 2 times \(.*again.*is kept", lost["reason"])


def test_what_a_call_raises_is_its_last_event(make, tmp_path):
    for name, told in (("fall", "RuntimeError: out of ideas"), ("gone", "no 'gone'")):
        ((_, end),) = make().run(f"{CALLS}:{name}", [{}], tmp_path)
        assert end["event"] == "failed"
        assert told in end["reason"]


def test_no_process_is_left_when_nobody_asks_for_more(make, tmp_path):
    orders = [{"folder": str(tmp_path), "number": number} for number in (1, 0)]
    with closing(make().run(f"{CALLS}:goes_on", orders, tmp_path)) as running:
        number, _ = next(running)
        assert number == 1
        assert eventually(lambda: len(processes(tmp_path)) == 2)
    assert eventually(lambda: not any(map(is_alive, processes(tmp_path))))


def test_nothing_to_do(make, tmp_path):
    assert not list(make().run(f"{CALLS}:die", [], tmp_path))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (LocalExecutor, {"num_workers": 0}),
        (RayExecutor, {"cpus": 0}),
        (RayExecutor, {"gpus": -1}),
    ],
)
def test_numbers_that_cannot_be_meant(kind, wrong):
    with pytest.raises(UsageError, match="it must be"):
        kind(**wrong)


# --------------------------------------------------------------- of this machine


@pytest.fixture
def asleep(tmp_path):
    """A process whose worker goes on for ever; its folder."""
    from tests import forked

    order = {"folder": str(tmp_path), "number": 1}

    def work():
        list(LocalExecutor(1).run(f"{CALLS}:goes_on", [order], tmp_path))

    with forked.started(work, stderr=subprocess.PIPE) as process:
        assert eventually(lambda: processes(tmp_path))
        yield process
        process.kill()


def test_ctrl_c_ends_workers_without_a_word_of_theirs(asleep, tmp_path):
    os.killpg(asleep.pid, signal.SIGINT)  # as a terminal does
    _, printed = asleep.communicate()
    assert printed.count("Traceback") == 1
    assert not any(map(is_alive, processes(tmp_path)))


def test_a_worker_that_leaves_python_is_told_of_with_its_last_words(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("fewlabels.jobs.processes.RETRIES", 0)
    ((_, end),) = LocalExecutor(1).run(f"{CALLS}:leave", [{}], tmp_path)
    assert "lost 1 times (exit code 5)" in end["reason"]
    assert "goodbye" in end["printed"]


def test_workers_have_one_thread_and_do_call_after_call(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    ended = LocalExecutor(1).run(f"{CALLS}:surroundings", numbered(3), tmp_path)
    told = [end["result"] for _, end in ended]
    assert {one["OMP_NUM_THREADS"] for one in told} == {"1"}
    assert dict(os.environ) == before
    (process,) = {one["process"] for one in told}
    assert not is_alive(process)


def test_no_more_workers_than_calls(tmp_path, monkeypatch):
    made = []

    def counted(**options):
        made.append(Worker(**options))
        return made[-1]

    monkeypatch.setattr("fewlabels.jobs.processes.Worker", counted)
    list(LocalExecutor(50).run(f"{CALLS}:note", [{}], tmp_path))
    assert len(made) == 1


def test_as_many_workers_as_cores_by_default():
    assert LocalExecutor().num_workers == num_cores() == len(os.sched_getaffinity(0))


# ------------------------------------------------------------------------ of Ray


def test_both_nodes_work_and_a_connection_of_the_caller_stays(cluster, tmp_path):
    ray = pytest.importorskip("ray")
    assert RayExecutor(cluster).num_workers == 2
    with ray.init(cluster, log_to_driver=False, logging_level="error"):
        executor = RayExecutor()
        assert executor.num_workers == 2
        ended = list(executor.run(f"{CALLS}:node", numbered(6), tmp_path))
        assert ray.is_initialized()
    assert len({end["result"] for _, end in ended}) == 2
    assert not list(tmp_path.iterdir())


def test_processes_of_ray_have_our_folder_data_and_one_thread(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEWLABELS_DATA", "over there")
    executor = RayExecutor(cluster)
    ((_, end),) = executor.run(f"{CALLS}:surroundings", numbered(1), tmp_path)
    told = end["result"]
    assert (told["folder"], told["FEWLABELS_DATA"]) == (str(tmp_path), "over there")
    assert told["OMP_NUM_THREADS"] == "1"


def test_a_node_that_does_not_see_the_folder_is_named(cluster, tmp_path, monkeypatch):
    def elsewhere(file, text):
        """Write to a disk that nobody else sees."""

    monkeypatch.setattr("fewlabels.jobs.cluster.replace_text", elsewhere)
    running = RayExecutor(cluster).run(f"{CALLS}:note", [{}], tmp_path)
    host = re.escape(socket.gethostname())
    with pytest.raises(UsageError, match=rf"not seen by {host} \(.*shared by all"):
        next(running)


def test_a_worker_that_fits_nowhere(cluster, tmp_path):
    executor = RayExecutor(cluster, cpus=3)
    assert executor.num_workers == 0
    with pytest.raises(UsageError, match=r"needs 3 cores and 0 GPUs.*1 and 0, 1 and 0"):
        next(executor.run(f"{CALLS}:note", [{}], tmp_path))


def test_ray_for_the_time_of_the_work_leaves_everything_as_it_was(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray keeps a token
    handler, before = signal.getsignal(signal.SIGTERM), dict(os.environ)
    executor = RayExecutor()
    assert executor.num_workers == num_cores()
    ((_, end),) = executor.run(f"{CALLS}:surroundings", numbered(1), tmp_path)
    assert eventually(lambda: not is_alive(end["result"]["process"]))
    assert signal.getsignal(signal.SIGTERM) == handler
    assert dict(os.environ) == before
    assert not sys.modules["ray"].is_initialized()


@pytest.mark.parametrize("address", ["nowhere", "localhost:{}", "ray://127.0.0.1:{}"])
def test_no_ray_at_the_address(address, tmp_path):
    with socket.socket() as held:  # a port where nobody listens
        held.bind(("localhost", 0))
        address = address.format(held.getsockname()[1])
        running = RayExecutor(address).run(f"{CALLS}:note", [{}], tmp_path)
        with pytest.raises(UsageError, match=rf"no Ray at '{address}'.*ray start"):
            next(running)


def test_without_ray_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'fewlabels\[ray\]'"):
        next(RayExecutor().run(f"{CALLS}:note", [{}], tmp_path))


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
def test_parts_are_done_in_order_whatever_becomes_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("fewlabels.jobs.processes.RETRIES", 1)
    double = partial(doubled, tmp_path)
    with connected(None) as ray:
        tasks = RayTasks(ray)
        assert list(tasks.map(double, range(20))) == list(range(0, 40, 2))
        assert (tmp_path / "died").exists()
        with pytest.raises(UsageError, match="-1 is below zero"):
            list(tasks.map(double, [1, -1]))
        with pytest.raises(JobError, match="was lost 2 times"):
            list(tasks.map(double, [101]))


# ------------------------------------------------------------------------ of GPUs


@pytest.fixture
def four_gpus(monkeypatch):
    """This machine seems to have four GPUs."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def seen_by(executor, folder):
    """Return the GPUs that each process sees, where none is given a second call."""
    calls = [
        {"folder": str(folder), "num": executor.num_workers}
    ] * executor.num_workers
    ended = executor.run(f"{CALLS}:meet", calls, folder)
    return sorted(end["result"] for _, end in ended)


@pytest.mark.usefixtures("four_gpus")
def test_four_gpus_have_four_workers_and_each_sees_one(tmp_path, monkeypatch):
    assert seen_by(LocalExecutor(), tmp_path) == ["0", "1", "2", "3"]
    (tmp_path / "few").mkdir()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,5,2,GPU-1a")
    assert seen_by(LocalExecutor(), tmp_path / "few") == ["2", "5", "7", "GPU-1a"]


@pytest.mark.usefixtures("four_gpus")
def test_gpus_are_shared_out_evenly(tmp_path):
    assert LocalExecutor().num_workers == 4
    assert LocalExecutor(gpus=2).devices == [["0", "1"], ["2", "3"]]
    assert LocalExecutor(gpus=2).num_workers == 2
    assert LocalExecutor(gpus=0).num_workers == num_cores()
    assert seen_by(LocalExecutor(6), tmp_path) == ["0", "0", "1", "1", "2", "3"]
    with pytest.raises(UsageError, match=r"gpus is 0.5, of type float"):
        LocalExecutor(gpus=0.5)
    with pytest.raises(UsageError, match="shall have 5 GPUs; 4 are there"):
        LocalExecutor(gpus=5)
