"""Runs that fail, are damaged, or are done by two commands at once."""

import shutil
from pathlib import Path

import pytest
from tests.experiments.bench import little
from tests.experiments.bench.little import done, opened

from fewlabels import files
from fewlabels.errors import RunInUseError, StorageError
from fewlabels.experiments.bench.experiment import Condition, plan
from fewlabels.experiments.bench.folder import Failure, read_results
from fewlabels.experiments.bench.runner import do, estimate, run
from fewlabels.experiments.settings import Choice
from fewlabels.files import hold_lock


def test_a_failing_run_is_recorded_and_does_not_stop_the_others(tmp_path):
    strategies = (little.FAILING, Choice(name="random"))
    experiment = little.experiment(strategies=strategies, seeds=(0,))
    folder, _, ended = done(tmp_path / "b", experiment)
    lines = Path(little.__file__).read_text("utf-8").splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "raise RuntimeError" in text)
    assert [one.error for one in ended] == [
        None, f"RuntimeError: nothing left to say (little.py, line {line}, in select)", None,
    ]  # fmt: skip
    broken, fine = plan(experiment).cells
    failure = folder.result(broken).failure
    assert "in select" in failure.traceback
    assert len(folder.run_folder(broken).lines()) == 1  # what it did before is kept
    assert folder.is_finished(fine)
    assert folder.result(fine).failure is None
    results = read_results(folder, experiment)
    assert results.failures == (failure,)
    assert results.num_finished == 1
    assert results.conditions[0].complete_seeds == ()


def test_a_failed_run_is_tried_again(tmp_path):
    experiment = little.experiment(strategies=(little.FAILING,), seeds=(0,))
    folder, *_ = done(tmp_path / "b", experiment)
    again = little.Here()
    list(run(experiment, folder, again))
    assert again.done == list(plan(experiment).cells)


def damaged(folder, cell):
    folder.run_folder(cell).rounds_file.write_text("[]\n")
    return cell


def test_a_damaged_run_fails_alone_and_is_told_with_what_to_do(tmp_path):
    experiment = little.experiment(seeds=(0,))
    folder, *_ = done(tmp_path / "b", experiment)
    broken = damaged(folder, plan(experiment).cells[0])
    assert estimate(experiment, folder, num_workers=1).num_finished == 2
    (ended,) = run(experiment, folder, little.Here())
    assert ended.cell == broken
    assert str(ended) == f"{broken.label}: {ended.error}"
    assert "rounds.jsonl' could not be read" in ended.error
    assert f"remove '{folder.run_folder(broken).path}'" in ended.error
    results = read_results(folder, experiment)
    assert [one.error for one in results.failures] == [ended.error]
    assert results.num_finished == 1
    folder.clear_failure(broken)
    (failure,) = read_results(folder, experiment).failures
    assert "rounds.jsonl" in failure.error
    shutil.rmtree(folder.run_folder(broken).path)
    assert [one.error for one in run(experiment, folder, little.Here())] == [None]


def test_a_run_that_another_command_is_at_work_on_has_not_failed(tmp_path):
    experiment = little.experiment(seeds=(0,), strategies=(Choice(name="random"),))
    folder = opened(tmp_path / "b")
    (cell,) = plan(experiment).cells
    with folder.run_folder(cell).owned():
        ended = list(run(experiment, folder, little.Here()))
    assert "Another process is using" in ended[-1].error
    assert folder.result(cell).failure is None


def test_what_is_finished_has_not_failed_whatever_was_written_down(tmp_path):
    folder = opened(tmp_path / "b")
    cell = plan(little.experiment()).cells[0]
    failure = Failure(label=cell.label, error="by another command")
    folder.write_failure(cell, failure)
    assert folder.result(cell).failure == failure
    (file,) = (folder.path / "failures").iterdir()
    file.write_text("{")
    assert "could not be read; do the run again" in folder.result(cell).failure.error
    do(cell, folder)
    assert folder.result(cell).failure is None


def test_a_full_disk_is_told_although_it_cannot_be_written_down(tmp_path, monkeypatch):
    written = files.replace_text

    def full(path, text):
        if path.parent.name == "experiments":
            return written(path, text)
        raise StorageError(f"The disk is full: '{path}' could not be written.")

    folder = opened(tmp_path / "b")
    monkeypatch.setattr("fewlabels.files.replace_text", full)
    experiment = little.experiment(seeds=(0,))
    ended = list(run(experiment, folder, little.Here()))
    assert len(ended) == 3
    assert all("The disk is full" in one.error for one in ended)


def test_a_run_that_warned_before_it_began_leaves_nothing_in_its_way(tmp_path):
    settings = little.experiment().conditions[0].settings
    unfit = Condition(settings=settings.model_copy(update={"trainer": little.UNFIT}))
    experiment = little.experiment(conditions=(unfit,), seeds=(0,))
    folder = opened(tmp_path / "b")
    ended = list(run(experiment, folder, little.Here()))
    assert {one.error for one in ended} == {"there is nothing to train on"}
    for one in ended:
        folder.run_folder(one.cell).check_ours()


def test_one_command_at_a_time_writes_what_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("fewlabels.experiments.bench.folder._TIMEOUT", 0.1)
    folder = opened(tmp_path / "b")
    before = folder.ask_for(little.experiment(seeds=(0,)))
    lock = folder.path / "experiments" / ".fewlabels-lock"
    with (
        hold_lock(lock, RunInUseError("by this test")),
        pytest.raises(RunInUseError, match=r"for 0\.1 seconds\. Wait for it"),
    ):
        folder.ask_for(little.experiment(seeds=(1,)))
    assert folder.experiments() == {"toy": before}
    assert folder.ask_for(little.experiment(seeds=(1,))).seeds == (0, 1)
