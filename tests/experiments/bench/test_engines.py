"""Where runs are done, and what becomes of their workers, changes nothing in them."""

from tests.experiments.bench import toy
from tests.experiments.bench.little import opened, rounds

from fewlabels.experiments.bench import run_cells
from fewlabels.experiments.bench.runner import do
from fewlabels.experiments.settings import Choice
from fewlabels.jobs import LocalExecutor


def test_runs_are_done_as_in_one_process_whatever_becomes_of_others(
    tmp_path, forked_workers
):
    folder, marker = opened(tmp_path / "bench"), tmp_path / "killed"
    fails = toy.cell(0, strategy="tests.experiments.bench.toy:Fails")
    options = {"marker": str(marker)}
    once = Choice(name="tests.experiments.bench.toy:KilledOnce", options=options)
    good = [toy.cell(1, trainer=once), *toy.cells(2)]
    cells = [fails, *good]
    ended = list(run_cells(cells, folder, LocalExecutor(2)))
    found = {one.cell.address: one.error for one in ended}
    assert found.pop(fails.address).startswith("RuntimeError: out of ideas (toy.py")
    assert "RuntimeError: out of ideas" in folder.result(fails).failure.error
    assert found == dict.fromkeys(cell.address for cell in good)
    assert folder.missing(cells) == (fails,)
    assert marker.exists()  # a worker was killed in its run, and no byte is another
    here = opened(tmp_path / "here")
    for cell in good:
        do(cell, here)
        assert rounds(folder, cell) == rounds(here, cell)


def test_a_run_that_kills_its_workers_is_written_down(
    tmp_path, forked_workers, monkeypatch
):
    monkeypatch.setattr("fewlabels.jobs.processes.RETRIES", 1)
    folder = opened(tmp_path / "bench")
    trainer = Choice(name="tests.experiments.bench.toy:Killed")
    dies, other = toy.cell(0, trainer=trainer), toy.cell(1)
    ended = run_cells([dies, other], folder, LocalExecutor(1))
    found = {one.cell.address: one.error for one in ended}
    assert found[other.address] is None
    assert "lost 2 times (signal 9 (Killed)" in found[dies.address]
    assert folder.result(dies).failure.error == found[dies.address]
