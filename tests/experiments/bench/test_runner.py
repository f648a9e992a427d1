import io
import json
import sys

import pytest
import torch
from tests.experiments.bench import little
from tests.experiments.bench.little import done, opened, rounds

from fewlabels import progress
from fewlabels.errors import ForeignFolderError, UsageError
from fewlabels.experiments.bench.experiment import Cell, Condition, noise_cells, plan
from fewlabels.experiments.bench.folder import BenchFolder, read_results
from fewlabels.experiments.bench.runner import (
    do,
    estimate,
    measure,
    run,
    verify,
)
from fewlabels.experiments.settings import Choice, SeedOptions


def test_every_run_is_done_once_and_beginnings_come_first(finished):
    folder, engine, ended = finished
    todo = plan(little.experiment(retrainings=2))
    assert [len(todo.beginnings), len(todo.cells), len(todo.noise)] == [2, 4, 2]
    assert engine.done == list(todo.all)
    assert all(one.error is None for one in ended)
    assert not folder.missing(todo.all)


def test_a_terminal_shows_how_many_are_done_below_what_the_caller_prints(
    tmp_path, monkeypatch
):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_SECONDS", 0)
    for _ in run(little.experiment(seeds=(0,)), tmp_path / "b", little.Here()):
        screen.write("printed\n")
    shown = " ".join(screen.getvalue().split())
    assert (
        shown == "Runs 0/3 printed Runs 1/3 printed Runs 2/3 printed Runs 3/3 Runs 3/3"
    )


def test_strategies_of_a_seed_share_their_beginning_and_it_changes_nothing(
    finished, tmp_path
):
    folder, *_ = finished
    experiment = little.experiment()
    for cell in plan(experiment).cells:
        alone = BenchFolder(tmp_path)
        do(cell, alone)  # without the run that it begins like
        assert rounds(alone, cell) == rounds(folder, cell)
        beginning = folder.run_folder(cell.beginning)
        assert folder.run_folder(cell).start() == beginning.start()
        first = folder.run_folder(cell).lines()[0]
        assert first.accuracy == beginning.lines()[0].accuracy
        seconds = [t["train_seconds"] for t in folder.run_folder(cell).timings()]
        assert len(seconds) == 3


def test_more_seeds_and_strategies_add_what_is_missing(finished, tmp_path):
    folder, engine, _ = done(tmp_path / "b", little.experiment(seeds=(0,)))
    assert len(engine.done) == 1 + 2
    strategies = (*little.experiment().strategies, Choice(name="entropy"))
    asked = folder.ask_for(little.experiment(seeds=(0, 1), strategies=strategies))
    again = little.Here()
    list(run(asked, folder, again))
    labels = sorted(
        (one.settings.strategy.name, one.settings.seed) for one in again.done
    )
    assert labels == [
        ("entropy", 0), ("entropy", 1), ("margin", 1), ("random", 1), ("random", 1),
    ]  # fmt: skip
    other, *_ = finished
    for cell in plan(little.experiment()).cells:
        assert rounds(folder, cell) == rounds(other, cell)


def test_what_was_asked_for_is_remembered_together(tmp_path):
    folder = opened(tmp_path / "b")
    folder.ask_for(little.experiment(seeds=(5,), strategies=(Choice(name="entropy"),)))
    asked = folder.ask_for(little.experiment(seeds=(0,)))
    assert asked.seeds == (0, 5)
    assert [one.name for one in asked.strategies] == ["entropy", "random", "margin"]
    assert folder.experiments() == {"toy": asked}
    other = asked.conditions[0].settings.model_copy(update={"budget": 15})
    changed = little.experiment(conditions=(Condition(settings=other),))
    assert folder.ask_for(changed) == changed


def test_what_was_asked_for_is_known_again_whatever_holds_its_options(tmp_path):
    folder = opened(tmp_path / "b")
    settings = little.experiment().conditions[0].settings
    data = Choice(name="digits", options={"counts": (9,) * 10})
    conditions = (Condition(settings=settings.model_copy(update={"data": data})),)
    for seed in (0, 1):
        asked = folder.ask_for(little.experiment(conditions=conditions, seeds=(seed,)))
    assert asked.seeds == (0, 1)


def test_a_condition_may_have_fewer_seeds_and_pools_of_its_own():
    settings = little.experiment().conditions[0].settings
    conditions = (
        Condition(name="pools", settings=settings, own_pools=True),
        Condition(name="few", settings=settings, num_seeds=1),
    )
    experiment = little.experiment(conditions=conditions, seeds=(3, 5))
    seeds = [
        (cell.settings.seed, cell.settings.data.options.get("seed"))
        for cell in plan(experiment).cells
        if cell.settings.strategy.name == "margin"
    ]
    assert seeds == [(3, 3), (3, None), (5, 5)]


def test_addresses_tell_all_that_decides_apart():
    base = little.experiment().conditions[0].settings
    changes = [
        {},
        {"seed": 1},
        {"strategy": Choice(name="margin")},
        {"strategy": Choice(name="npc", options={"draws": 5})},
        {"budget": 25},
        {"zero_shot": True},
        {"seeds": SeedOptions(train=4)},
        {"data": Choice(name="digits", options={"counts": [9] * 10})},
        {"threads": 2},
    ]
    cells = [Cell(base.model_copy(update=change)) for change in changes]
    assert len({cell.address for cell in cells}) == len(changes)
    assert Cell(base.model_copy()).address == cells[0].address


def test_trials_that_share_start_and_first_have_one_beginning():
    base = little.experiment().conditions[0].settings
    shared = base.model_copy(
        update={"initial_models": 5, "seeds": SeedOptions(start=0, first=0)}
    )
    todo = plan(
        little.experiment(conditions=(Condition(settings=shared),), seeds=(0, 1, 2))
    )
    assert len(todo.beginnings) == 1
    assert sum(cell.num_trainings for cell in todo.all) == 5 + 2 * 3 * 2


def test_retrainings_share_their_labels_and_not_their_training(finished):
    folder, *_ = finished
    one, other = noise_cells(little.experiment(retrainings=2))
    assert folder.run_folder(one).start() == folder.run_folder(other).start()
    assert len(folder.run_folder(one).start()) == 20
    assert len(set(read_results(folder, little.experiment(retrainings=2)).noise)) == 2


def test_other_seeds_ask_for_no_other_retrainings():
    fresh = little.experiment(retrainings=2, seeds=(7, 8))
    assert noise_cells(fresh) == noise_cells(little.experiment(retrainings=2))


def test_results_are_arrays_with_seeds_in_one_order(finished):
    folder, *_ = finished
    (found,) = read_results(folder, little.experiment()).conditions
    assert found.num_labels == (10, 15, 20)
    assert found.accuracies("margin").shape == (2, 3)
    first = [line.accuracy for line in found.of("margin", 1).lines]
    assert found.accuracies("margin")[1].tolist() == first
    assert found.accuracies("margin", seeds=[1]).tolist() == [first]
    assert found.accuracies("margin", seeds=[]).shape == (0, 3)
    assert found.complete_seeds == (0, 1)
    run_of_margin = found.of("margin", 0)
    assert len(run_of_margin.acquired(10)) == 0
    assert len(run_of_margin.acquired(20)) == 10
    assert not set(run_of_margin.start) & set(run_of_margin.acquired(20))


def test_verify_does_a_run_again_and_says_what_differs(finished, tmp_path):
    folder, *_ = finished
    verdict = verify(folder, seed=4, allow_code=True)
    assert not verdict.differences
    assert not verdict.changes
    (tmp_path / "b").mkdir()
    file = folder.run_folder(verdict.cell).rounds_file
    before = file.read_text()
    lines = [json.loads(line) for line in before.splitlines()]
    lines[-1]["accuracy"] = 0.5
    del lines[-1]["checksum"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        found = verify(folder, seed=4, allow_code=True)
    finally:
        file.write_text(before)
    (difference,) = found.differences
    assert f"Round {len(lines) - 1}: accuracy was 0.5 and is now" in difference


def test_verify_says_what_has_changed_around_a_run(finished):
    folder, *_ = finished
    file = folder.run_folder(verify(folder, allow_code=True).cell).settings_file
    before = file.read_text()
    content = json.loads(before)
    content["data"]["hash"], content["platform"] = "another", "a typewriter"
    content["made"]["trainer"]["options"]["steps"] = 4
    del content["checksum"]
    file.write_text(json.dumps(content))
    try:
        platform, source, data = verify(folder, allow_code=True).changes
    finally:
        file.write_text(before)
    assert platform.startswith("platform was a typewriter and is now ")
    assert source == "Trainer: steps was 4 and is now 40."
    assert data == "The data are not those that the run was done on."


def test_nothing_finished_cannot_be_verified(tmp_path):
    folder = opened(tmp_path / "b")
    folder.ask_for(little.experiment())
    with pytest.raises(UsageError, match=r"No run in .* is finished; do 'fewlabels be"):
        verify(folder)


def test_cost_counts_what_is_left_and_learns_from_what_is_finished(finished, tmp_path):
    folder, *_ = finished
    experiment = little.experiment(seeds=(0, 1, 2))
    new = estimate(experiment, BenchFolder(tmp_path / "new"), num_workers=2)
    assert (new.num_cells, new.num_finished) == (3 + 6, 0)
    assert new.num_trainings == new.num_trainings_left == 3 * 1 + 6 * 2
    assert new.steps == 40
    assert new.source == "expected on one core"
    assert new.hours == pytest.approx(15 * 40 * 0.01 / 2 / 3600)
    assert new.disk == pytest.approx(15 * 0.1e6)
    assert not (tmp_path / "new").exists()
    later = estimate(experiment, folder, num_workers=2)
    assert (later.num_finished, later.num_trainings_left) == (6, 1 + 4)
    assert later.source == "measured in runs that are finished"
    seconds = [
        sum(value for key, value in entry.items() if key.endswith("_seconds"))
        for cell in plan(little.experiment()).cells
        for entry in folder.run_folder(cell).timings()[1:]
    ]
    assert later.seconds_per_training == pytest.approx(sum(seconds) / len(seconds))


def test_a_few_steps_can_be_measured_as_a_worker_would_do_them(monkeypatch):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    settings = little.experiment().conditions[0].settings
    trainer = Choice(name="supervised", options={"steps": 10_000})
    trained = settings.model_copy(update={"trainer": trainer, "threads": 3})
    experiment = little.experiment(conditions=(Condition(settings=trained),))
    found = measure(experiment, 3)
    assert threads[0] == 3
    assert found > 0
    with pytest.raises(
        UsageError, match="'supervised' cannot train 0 steps; measure 1"
    ):
        measure(experiment, 0)


def test_other_folders_are_not_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ForeignFolderError, match=r"mine\.txt"):
        BenchFolder(tmp_path).open()
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ForeignFolderError, match="does not contain a benchmark"):
        BenchFolder(tmp_path).experiments()
    with pytest.raises(ForeignFolderError, match="is a file"):
        BenchFolder(tmp_path / "mine.txt").open()


@pytest.mark.parametrize(
    "content", ["{", '{"kind": "fewlabels bench", "schema_version": 9}']
)
def test_a_damaged_description_or_a_later_version_is_refused(tmp_path, content):
    folder = opened(tmp_path / "b")
    folder.description_file.write_text(content)
    with pytest.raises(ForeignFolderError, match=r'"schema_version": 1}\. Give anoth'):
        folder.open()


def test_notes_of_a_run_are_kept(tmp_path):
    settings = little.experiment().conditions[0].settings
    many = settings.model_copy(
        update={
            "trainer": Choice(name="supervised", options={"steps": 2}),
            "query": 80,
            "budget": 90,
        }
    )
    npc = Choice(name="npc", options={"kernel": "last-layer", "draws": 5})
    experiment = little.experiment(
        conditions=(Condition(settings=many),), strategies=(npc,), seeds=(0,)
    )
    folder, _, ended = done(tmp_path / "b", experiment)
    assert ended[-1].error is None
    (found,) = read_results(folder, experiment).cells
    assert any("the choice is a tie" in note for note in found.notes)
    assert len(set(found.notes)) == len(found.notes)
