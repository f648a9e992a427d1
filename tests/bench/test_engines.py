"""Where runs are done, and what becomes of their workers, changes nothing in them."""

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
from tests.bench import odd_work, toy

from fewlabels.bench.folder import BenchFolder
from fewlabels.bench.local import LocalEngine, told_death
from fewlabels.bench.on_ray import RayEngine
from fewlabels.bench.work import do
from fewlabels.errors import UsageError
from fewlabels.jobs import Worker
from fewlabels.jobs.surroundings import num_cores
from fewlabels.runs import Choice


def opened(path):
    folder = BenchFolder(path)
    folder.open()
    return folder


def rounds(folder, cells):
    """Return what runs have written, by their addresses."""
    return {c.address: folder.run_folder(c).rounds_file.read_bytes() for c in cells}


def errors(ended):
    """Return what went wrong, by the addresses of the runs."""
    return {one.cell.address: one.error for one in ended}


@pytest.fixture(params=["local", "ray"])
def make(request):
    """What makes an engine of each kind."""
    if request.param == "local":
        request.getfixturevalue("forked_workers")
        return partial(LocalEngine, num_workers=2, retries=1)
    return partial(RayEngine, request.getfixturevalue("cluster"), retries=1)


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


@pytest.fixture
def engine(make):
    return make()


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


# ------------------------------------------------------------------ every engine


def test_runs_are_done_as_in_one_process_whatever_becomes_of_others(engine, tmp_path):
    folder, marker = opened(tmp_path / "bench"), tmp_path / "killed"
    fails = toy.cell(0, strategy="tests.bench.toy:Fails")
    options = {"marker": str(marker)}
    once = Choice(name="tests.bench.toy:KilledOnce", options=options)
    good = [toy.cell(1, trainer=once), *toy.cells(2)]
    cells = [fails, *good]
    ended = list(engine.run(cells, folder.path))
    assert len(ended) == len(cells)
    found = errors(ended)
    assert found.pop(fails.address) == "RuntimeError: out of ideas"
    assert folder.failure(fails).error == "RuntimeError: out of ideas"
    assert found == dict.fromkeys(cell.address for cell in good)
    assert folder.missing(cells) == (fails,)
    assert marker.exists()  # a worker was killed in its run, and no byte is another
    here = opened(tmp_path / "here")
    for cell in good:
        do(cell, here)
    assert rounds(folder, good) == rounds(here, good)


def test_a_run_that_dies_is_written_down_and_stops_no_other(make, tmp_path):
    folder = opened(tmp_path / "bench")
    engine = make(work="tests.bench.odd_work:dying")
    dies, other = toy.cells(2)
    found = errors(engine.run([dies, other], folder.path))
    assert found[other.address] is None
    assert "2 times" in found[dies.address]
    assert folder.failure(dies).error == found[dies.address]


def test_no_process_is_left_when_nobody_asks_for_more(make, tmp_path):
    folder = opened(tmp_path / "bench")
    engine = make(work="tests.bench.odd_work:sleeping")
    with closing(engine.run([toy.cell(1), toy.cell(0)], folder.path)) as running:
        assert next(running).cell == toy.cell(0)
        assert eventually(lambda: len(odd_work.processes(folder.path)) == 2)
    assert eventually(lambda: not any(map(is_alive, odd_work.processes(folder.path))))


def test_nothing_to_do(engine, tmp_path):
    assert not list(engine.run([], opened(tmp_path / "bench").path))


# --------------------------------------------------------------- of this machine


@pytest.fixture
def asleep(tmp_path):
    """A process whose worker trains for ever; its folder."""
    from tests import forked

    engine = LocalEngine(num_workers=1, work="tests.bench.odd_work:sleeping")

    def work():
        list(engine.run([toy.cell(1)], tmp_path))

    with forked.started(work, stderr=subprocess.PIPE) as process:
        assert eventually(lambda: odd_work.processes(tmp_path))
        yield process
        process.kill()


@pytest.mark.slow  # tests/jobs/test_jobs.py shows it of every worker
def test_workers_end_with_the_one_who_started_them(asleep, tmp_path):
    asleep.kill()
    assert eventually(lambda: not any(map(is_alive, odd_work.processes(tmp_path))))


def test_ctrl_c_ends_workers_without_a_word_of_theirs(asleep, tmp_path):
    os.killpg(asleep.pid, signal.SIGINT)  # as a terminal does
    _, printed = asleep.communicate()
    assert printed.count("Traceback") == 1
    assert not any(map(is_alive, odd_work.processes(tmp_path)))


def test_a_worker_that_leaves_python_is_told_of_with_its_last_words(tmp_path):
    folder = opened(tmp_path / "bench")
    engine = LocalEngine(num_workers=1, retries=0, work="tests.bench.odd_work:leaving")
    (ended,) = engine.run([toy.cell(0)], folder.path)
    assert "exit code 5, once" in ended.error
    assert "goodbye" in folder.failure(toy.cell(0)).traceback


def test_workers_have_one_thread_and_our_environment_is_untouched(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    engine = LocalEngine(num_workers=1, work="tests.bench.odd_work:threads")
    (ended,) = engine.run([toy.cell(0)], opened(tmp_path / "bench").path)
    assert ended.error == "1"
    assert dict(os.environ) == before


def test_no_more_workers_than_runs(tmp_path, monkeypatch):
    made = []

    def counted(**options):
        made.append(Worker(**options))
        return made[-1]

    monkeypatch.setattr("fewlabels.jobs.several.Worker", counted)
    folder = opened(tmp_path / "bench")
    engine = LocalEngine(num_workers=50, work="tests.bench.odd_work:process")
    list(engine.run(toy.cells(1), folder.path))
    assert len(made) == 1


def test_a_worker_does_one_run_after_the_other_and_what_it_prints_is_no_answer(
    tmp_path,
):
    engine = LocalEngine(num_workers=1, work="tests.bench.odd_work:process")
    ended = list(engine.run(toy.cells(3), opened(tmp_path / "bench").path))
    (process,) = {int(one.error) for one in ended}
    assert not is_alive(process)


def test_as_many_workers_as_cores_by_default():
    assert LocalEngine().num_workers == num_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("wrong", [{"num_workers": 0}, {"retries": -1}])
def test_numbers_that_cannot_be_meant(wrong):
    with pytest.raises(UsageError, match="give at least one worker"):
        LocalEngine(**wrong)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, r"signal 9 \(SIGKILL\), 2 times .* memory .* fewer workers"),
        (-11, r"signal 11 \(SIGSEGV\), 2 times .* library crashed"),
        (-2, r"signal 2 \(SIGINT\), 2 times .* Ctrl-C .* command again; the run"),
        (-63, "signal 63, 2 times .* does not say"),
        (3, "exit code 3, 2 times .* Mend"),
    ],
)
def test_a_death_is_told_with_what_to_do(code, words):
    assert re.search(words, told_death(code, 2))


# ------------------------------------------------------------------------ of Ray


def test_both_nodes_do_runs_and_a_connection_of_the_caller_stays(cluster, tmp_path):
    ray = pytest.importorskip("ray")
    assert RayEngine(cluster).num_workers == 2
    with ray.init(cluster, log_to_driver=False, logging_level="error"):
        engine = RayEngine(work="tests.bench.odd_work:node")
        assert engine.num_workers == 2
        folder = opened(tmp_path / "bench")
        ended = list(engine.run(toy.cells(6), folder.path))
        assert ray.is_initialized()
    assert len({one.error for one in ended}) == 2
    assert [file.name for file in folder.path.iterdir()] == ["bench.json"]


def test_processes_of_ray_have_our_folder_data_and_one_thread(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEWLABELS_DATA", "over there")
    (tmp_path / "own_work.py").write_text(
        "import os\n\ndef told(root, settings, *, tensorboard=False):\n"
        "    names = 'OMP_NUM_THREADS', 'FEWLABELS_DATA'\n"
        "    return ' '.join([os.getcwd(), *(os.environ[name] for name in names)])\n"
    )
    engine = RayEngine(cluster, work="own_work:told")
    (ended,) = engine.run([toy.cell(0)], opened(tmp_path / "bench").path)
    assert ended.error == f"{tmp_path} 1 over there"


def test_a_node_that_does_not_see_the_folder_is_named(cluster, tmp_path, monkeypatch):
    def elsewhere(file, text):
        """Write to a disk that nobody else sees."""

    monkeypatch.setattr("fewlabels.jobs.cluster.replace_text", elsewhere)
    running = RayEngine(cluster).run([toy.cell(0)], tmp_path)
    host = re.escape(socket.gethostname())
    with pytest.raises(UsageError, match=rf"shared by all .* not seen by: {host} \("):
        next(running)


def test_a_run_that_fits_nowhere(cluster, tmp_path):
    engine = RayEngine(cluster, cpus=3)
    assert engine.num_workers == 0
    with pytest.raises(UsageError, match=r"needs 3 cores and 0 GPUs.*1 and 0, 1 and 0"):
        next(engine.run([toy.cell(0)], tmp_path))


def test_ray_for_the_time_of_the_runs_leaves_everything_as_it_was(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray keeps a token
    handler, before = signal.getsignal(signal.SIGTERM), dict(os.environ)
    engine = RayEngine(work="tests.bench.odd_work:process")
    assert engine.num_workers == num_cores()
    (ended,) = engine.run([toy.cell(0)], opened(tmp_path / "bench").path)
    assert eventually(lambda: not is_alive(int(ended.error)))
    assert signal.getsignal(signal.SIGTERM) == handler
    assert dict(os.environ) == before
    assert not sys.modules["ray"].is_initialized()


@pytest.mark.parametrize("address", ["nowhere", "localhost:{}", "ray://127.0.0.1:{}"])
def test_no_ray_at_the_address(address, tmp_path):
    with socket.socket() as held:  # a port where nobody listens
        held.bind(("localhost", 0))
        address = address.format(held.getsockname()[1])
        running = RayEngine(address).run([toy.cell(0)], tmp_path)
        words = rf"no Ray at '{address}'.*ray start"
        with pytest.raises(UsageError, match=words):
            next(running)


def test_without_ray_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'fewlabels\[ray\]'"):
        next(RayEngine().run([toy.cell(0)], tmp_path))


@pytest.mark.parametrize("wrong", [{"cpus": 0}, {"gpus": -1}, {"retries": -1}])
def test_numbers_that_ray_cannot_be_given(wrong):
    with pytest.raises(UsageError, match="give more than 0 cores"):
        RayEngine(**wrong)
