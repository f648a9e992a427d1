import shutil

import pytest
from tests.experiments.bench import little
from tests.experiments.bench.little import opened, rounds

from fewlabels.errors import RunError
from fewlabels.experiments.bench.experiment import plan
from fewlabels.experiments.bench.folder import BenchFolder, read_results
from fewlabels.experiments.bench.runner import do, estimate, run


def test_a_damaged_experiment_does_not_stop_another(tmp_path):
    folder = opened(tmp_path / "b")
    folder.ask_for(little.experiment())
    (folder.path / "experiments" / "toy.json").write_text("{")
    other = little.experiment(name="other")
    assert folder.ask_for(other) == other
    with pytest.raises(RunError, match=r"toy\.json' could not be read: Expecting"):
        folder.ask_for(little.experiment())


@pytest.mark.parametrize("name", ["rounds.jsonl", "run.json", "start.json"])
def test_a_damaged_run_is_a_failure_of_its_own(finished, tmp_path, name):
    experiment = little.experiment(retrainings=2)
    shutil.copytree(finished[0].path, tmp_path / "b")
    folder = BenchFolder(tmp_path / "b")
    hurt = plan(experiment).cells[1]
    file = folder.run_folder(hurt).path / name
    file.write_text(file.read_text()[:20])
    cost = estimate(experiment, folder, num_workers=1)
    assert (cost.num_cells, cost.num_finished) == (8, 7)
    (ended,) = run(experiment, folder, little.Here())
    assert ended.cell == hurt
    assert name in ended.error
    assert f"remove '{folder.run_folder(hurt).path}'" in ended.error
    results = read_results(folder, experiment)
    assert results.num_finished == 3
    assert [one.error for one in results.failures] == [ended.error]
    shutil.rmtree(folder.run_folder(hurt).path)
    (ended,) = run(experiment, folder, little.Here())
    assert ended.error is None
    assert rounds(folder, hurt) == rounds(finished[0], hurt)


def test_notes_and_timings_that_are_damaged_cost_no_result(finished, tmp_path):
    shutil.copytree(finished[0].path, tmp_path / "b")
    folder, experiment = BenchFolder(tmp_path / "b"), little.experiment()
    for cell in plan(experiment).cells:
        folder.notes_file(cell).write_text("not JSON\n")
        folder.run_folder(cell).timings_file.write_text("not JSON\n")
    assert estimate(experiment, folder, num_workers=1).source == "expected on one core"
    results = read_results(folder, experiment)
    assert (results.num_finished, results.failures) == (4, ())
    assert all(one.timings == one.notes == () for one in results.cells)


def test_a_damaged_beginning_is_done_without(finished, tmp_path):
    shutil.copytree(finished[0].path, tmp_path / "b")
    folder, cell = BenchFolder(tmp_path / "b"), plan(little.experiment()).cells[0]
    folder.run_folder(cell.beginning).start_file.write_text("{")
    shutil.rmtree(folder.run_folder(cell).path)
    do(cell, folder)
    assert rounds(folder, cell) == rounds(finished[0], cell)
