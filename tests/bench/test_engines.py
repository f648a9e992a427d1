"""Where runs are done, and what becomes of their workers, changes nothing in them."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.bench import odd_work, toy

from fewlabels.bench.folder import BenchFolder
from fewlabels.bench.local import LocalEngine, num_cores, told_death
from fewlabels.bench.work import do
from fewlabels.errors import UsageError
from fewlabels.runs import Choice

ROOT = Path(__file__).parents[2]


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


@pytest.fixture(scope="module")
def in_process(tmp_path_factory):
    """The rounds of the runs, done one after the other in this process."""
    folder = opened(tmp_path_factory.mktemp("in-process") / "bench")
    for cell in toy.cells():
        do(cell, folder)
    return rounds(folder, toy.cells())


@pytest.fixture(params=["local"])
def make(request):
    """What makes an engine of each kind."""
    return partial(LocalEngine, num_workers=2, retries=2)


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


def test_all_runs_are_done_as_in_one_process(engine, in_process, tmp_path):
    folder = opened(tmp_path / "bench")
    ended = list(engine.run(toy.cells(), folder.path))
    assert len(ended) == len(toy.cells())
    assert errors(ended) == dict.fromkeys(in_process)
    assert rounds(folder, toy.cells()) == in_process


def test_a_run_that_fails_or_dies_is_written_down_and_stops_no_other(engine, tmp_path):
    folder = opened(tmp_path / "bench")
    fails = toy.cell(0, strategy="tests.bench.toy:Fails")
    dies = toy.cell(0, trainer=Choice(name="tests.bench.toy:Dies"))
    cells = [dies, fails, *toy.cells(2)]
    found = errors(engine.run(cells, folder.path))
    assert len(found) == 4
    assert found[fails.address] == "RuntimeError: out of ideas"
    assert "3 times" in found[dies.address]
    assert folder.missing(cells) == (dies, fails)
    for cell in (dies, fails):
        assert folder.failure(cell).error == found[cell.address]


def test_a_worker_killed_in_a_run_changes_no_byte(engine, tmp_path):
    folder, marker = opened(tmp_path / "bench"), tmp_path / "killed"
    options = {"marker": str(marker)}
    trainer = Choice(name="tests.bench.toy:KilledOnce", options=options)
    cell = toy.cell(1, trainer=trainer)
    (ended,) = engine.run([cell], folder.path)
    assert ended.error is None
    assert marker.exists()
    whole = opened(tmp_path / "whole")
    do(cell, whole)
    assert rounds(folder, [cell]) == rounds(whole, [cell])


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

BENCH = """
from pathlib import Path
import sys
from fewlabels.bench.local import LocalEngine
from tests.bench import toy
engine = LocalEngine(num_workers=2, work="tests.bench.odd_work:sleeping")
list(engine.run([toy.cell(1), toy.cell(2)], Path(sys.argv[1])))
"""


@pytest.fixture
def two_asleep(tmp_path):
    """A process whose two workers train for ever; its folder."""
    with subprocess.Popen(
        [sys.executable, "-c", BENCH, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert eventually(lambda: len(odd_work.processes(tmp_path)) == 2)
        yield process
        process.kill()


def test_workers_end_with_the_one_who_started_them(two_asleep, tmp_path):
    two_asleep.kill()
    assert eventually(lambda: not any(map(is_alive, odd_work.processes(tmp_path))))


def test_ctrl_c_ends_workers_without_a_word_of_theirs(two_asleep, tmp_path):
    os.killpg(two_asleep.pid, signal.SIGINT)  # as a terminal does
    _, printed = two_asleep.communicate()
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


def test_no_more_workers_than_runs(tmp_path):
    folder = opened(tmp_path / "bench")
    engine = LocalEngine(num_workers=50, work="tests.bench.odd_work:process")
    ended = list(engine.run(toy.cells(2), folder.path))
    assert len({one.error for one in ended}) == 2


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
        (-63, "signal 63, 2 times .* does not say"),
        (3, "exit code 3, 2 times .* Mend"),
    ],
)
def test_a_death_is_told_with_what_to_do(code, words):
    assert re.search(words, told_death(code, 2))
