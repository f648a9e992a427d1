import json
import linecache
import shutil

import pytest
import torch
from tests.bench import little

from fewlabels import journal
from fewlabels.bench.asking import checked, read_experiment
from fewlabels.bench.cells import Cell, noise_cells, plan
from fewlabels.bench.cost import estimate, measure
from fewlabels.bench.experiment import Condition
from fewlabels.bench.folder import BenchFolder, Failure
from fewlabels.bench.outdated import outdated
from fewlabels.bench.results import read_results
from fewlabels.bench.runner import _Watch, run
from fewlabels.bench.verify import verify
from fewlabels.bench.work import do, pool_of
from fewlabels.cli.bench_words import outdated_lines
from fewlabels.errors import ForeignFolderError, RunError, StorageError, UsageError
from fewlabels.runs import Choice, SeedOptions, execute


def opened(path):
    folder = BenchFolder(path)
    folder.open()
    return folder


def done(path, experiment):
    folder, engine = opened(path), little.Here()
    ended = list(run(folder.ask_for(experiment), folder, engine))
    return folder, engine, ended


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "toy"
    return done(path, little.experiment(retrainings=2))


def rounds(folder, cell):
    return folder.run_folder(cell).rounds_file.read_bytes()


def test_every_run_is_done_once_and_beginnings_come_first(finished):
    folder, engine, ended = finished
    todo = plan(little.experiment(retrainings=2))
    assert [len(todo.beginnings), len(todo.cells), len(todo.noise)] == [2, 4, 2]
    assert engine.done == list(todo.all)
    assert all(one.error is None for one in ended)
    assert not folder.missing(todo.all)


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


def test_a_failing_run_is_recorded_and_does_not_stop_the_others(tmp_path):
    strategies = (little.FAILING, Choice(name="random"))
    experiment = little.experiment(strategies=strategies, seeds=(0,))
    folder, _, ended = done(tmp_path / "b", experiment)
    assert [one.error for one in ended] == [
        None, "RuntimeError: nothing left to say", None,
    ]  # fmt: skip
    broken, fine = plan(experiment).cells
    failure = folder.failure(broken)
    assert "in select" in failure.traceback
    assert len(folder.run_folder(broken).lines()) == 1  # what it did before is kept
    assert folder.is_finished(fine)
    assert folder.failure(fine) is None
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
    assert found.complete_seeds == (0, 1)
    run_of_margin = found.of("margin", 0)
    assert len(run_of_margin.acquired(10)) == 0
    assert len(run_of_margin.acquired(20)) == 10
    assert not set(run_of_margin.start) & set(run_of_margin.acquired(20))


def test_verify_does_a_run_again_and_says_what_differs(finished, tmp_path):
    folder, *_ = finished
    verdict = verify(folder, seed=4)
    assert verdict.is_same
    assert not verdict.changes
    (tmp_path / "b").mkdir()
    file = folder.run_folder(verdict.cell).rounds_file
    before = file.read_text()
    lines = [json.loads(line) for line in before.splitlines()]
    lines[-1]["accuracy"] = 0.5
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        found = verify(folder, seed=4)
    finally:
        file.write_text(before)
    (difference,) = found.differences
    assert f"Round {len(lines) - 1}: accuracy was 0.5 and is now" in difference


def test_changed_code_of_a_strategy_is_noticed(tmp_path, monkeypatch):
    file = tmp_path / "my_strategy.py"
    file.write_text(
        "from tests.runs.toy import FirstOnes as Base\n\n\n"
        "class Mine(Base):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = Choice(name="my_strategy:Mine")
    experiment = little.experiment(seeds=(0,), strategies=(mine, Choice(name="random")))
    folder, *_ = done(tmp_path / "b", experiment)
    own, _ = plan(experiment).cells
    assert outdated(experiment, folder) == ()
    file.write_text(file.read_text() + "# changed\n")
    linecache.checkcache()
    assert outdated(experiment, folder) == (own,)
    (line,) = outdated_lines(outdated(experiment, folder))
    assert "the code of 'my_strategy:Mine' has changed since 1 of its runs" in line


def test_nothing_finished_cannot_be_verified(tmp_path):
    folder = opened(tmp_path / "b")
    folder.ask_for(little.experiment())
    with pytest.raises(UsageError, match=r"No run in .* is finished"):
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
    assert found.num_steps == 3
    assert found.seconds_per_step > 0
    with pytest.raises(UsageError, match="0 steps of 'supervised'"):
        measure(experiment, 0)


def test_other_folders_are_not_touched(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(ForeignFolderError, match=r"mine\.txt"):
        BenchFolder(tmp_path).open()
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ForeignFolderError, match="does not hold a benchmark"):
        BenchFolder(tmp_path).experiments()
    with pytest.raises(ForeignFolderError, match="is a file"):
        BenchFolder(tmp_path / "mine.txt").open()


def test_a_later_version_is_refused(tmp_path):
    folder = opened(tmp_path / "b")
    folder.description_file.write_text(
        '{"kind": "fewlabels bench", "schema_version": 9}'
    )
    with pytest.raises(ForeignFolderError, match="version 9"):
        folder.open()


def test_a_damaged_experiment_is_named(tmp_path):
    folder = opened(tmp_path / "b")
    folder.ask_for(little.experiment())
    (folder.path / "experiments" / "toy.json").write_text("{")
    with pytest.raises(RunError, match=r"toy\.json"):
        folder.experiments()


def test_a_damaged_experiment_does_not_stop_another(tmp_path):
    folder = opened(tmp_path / "b")
    folder.ask_for(little.experiment())
    (folder.path / "experiments" / "toy.json").write_text("{")
    other = little.experiment(name="other")
    assert folder.ask_for(other) == other
    with pytest.raises(RunError, match=r"toy\.json' could not be read: Invalid JSON"):
        folder.ask_for(little.experiment())


def test_a_damaged_description_is_told_with_the_remedy(tmp_path):
    folder = opened(tmp_path / "b")
    whole = folder.description_file.read_text()
    folder.description_file.write_text(whole[:9])
    with pytest.raises(
        ForeignFolderError, match="replace what is in that file"
    ) as told:
        folder.open()
    folder.description_file.write_text(str(told.value).partition(" by ")[2])
    folder.open()


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


def test_an_experiment_can_be_a_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "title: Mine\n"
        "conditions: [{settings: {data: digits, trainer: supervised}}]\n"
        "strategies: [random, {name: npc, draws: 50}]\n"
        "seeds: [0, 1]\n"
        "footprint: {seconds_per_step: 0.01, megabytes: 1}\n"
    )
    found = read_experiment(file)
    assert [one.label for one in found.strategies] == ["random", "npc (draws = 50)"]
    file.write_text("name: mine\n")
    with pytest.raises(UsageError, match="'title' is missing"):
        read_experiment(file)
    with pytest.raises(UsageError, match="could not be read"):
        read_experiment(tmp_path / "nothing.yaml")


def test_wrong_parts_are_told_before_anything_is_loaded():
    twice = little.experiment().model_copy(update={"seeds": (0, 0)})
    with pytest.raises(UsageError, match="Seeds are given twice"):
        checked(twice)
    unknown = little.experiment().model_copy(
        update={"strategies": (Choice(name="mystery"),)}
    )
    with pytest.raises(UsageError, match="mystery"):
        checked(unknown)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": 0}, "query is 0"),
        ({"start": 30}, "budget of 20 labels is smaller than the start of 30"),
        ({"query": 11}, "leaves 10"),
        ({"data": Choice(name="digits", options={"sise": 8})}, "'size'"),
        ({"data": Choice(name="digits", options={"size": "big"})}, "'size' is 'big'"),
    ],
)
def test_wrong_settings_are_told_once_and_not_by_every_run(changes, message):
    settings = little.experiment().conditions[0].settings
    wrong = Condition(settings=settings.model_copy(update=changes))
    with pytest.raises(UsageError, match=message):
        checked(little.experiment(conditions=(wrong,)))


@pytest.mark.parametrize("name", ["../mine", "a/b", "", ".hidden", "two words"])
def test_a_name_that_cannot_name_a_file_is_refused(name):
    renamed = little.experiment().model_copy(update={"name": name})
    with pytest.raises(UsageError, match=r"'name' is .* files are named by it"):
        checked(renamed)


def test_the_place_of_data_does_not_depend_on_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    settings = little.experiment().conditions[0].settings
    here = settings.model_copy(update={"data": Choice(name="photos")})
    found = checked(little.experiment(conditions=(Condition(settings=here),)))
    assert found.conditions[0].settings.data.name == str(tmp_path / "photos")
    assert checked(little.experiment()) == little.experiment()


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
    assert any("singular" in note for note in found.notes)
    assert len(set(found.notes)) == len(found.notes)


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
    assert "Another process is at work" in ended[-1].error
    assert folder.failure(cell) is None


def test_what_is_finished_has_not_failed_whatever_was_written_down(finished):
    folder, *_ = finished
    cell = plan(little.experiment()).cells[0]
    folder.write_failure(cell, Failure(label=cell.label, error="by another command"))
    try:
        assert folder.failure(cell) is None
    finally:
        folder.clear_failure(cell)


def test_a_full_disk_is_told_although_it_cannot_be_written_down(tmp_path, monkeypatch):
    def full(path, text):
        raise StorageError(f"The disk is full: '{path}' could not be written.")

    folder = opened(tmp_path / "b")
    for module in ("fewlabels.bench.folder", "fewlabels.runs.folder"):
        monkeypatch.setattr(f"{module}.replace_text", full)
    experiment = little.experiment(seeds=(0,))
    ended = list(run(experiment, folder, little.Here()))
    assert len(ended) == 3
    assert all("The disk is full" in one.error for one in ended)


def test_progress_looks_no_second_time_at_what_is_finished(finished, monkeypatch):
    folder, *_ = finished
    cells = plan(little.experiment(retrainings=2)).all
    watch = _Watch(folder, cells, steps=40)
    assert watch.done() == watch.total == 40 * (2 + 4 * 2 + 2)
    monkeypatch.setattr(BenchFolder, "lines", None)
    assert watch.done() == watch.total


def test_progress_counts_the_steps_of_the_training_that_goes_on(tmp_path):
    folder = opened(tmp_path / "b")
    cell = plan(little.experiment()).cells[0]
    watch = _Watch(folder, [cell], steps=40)
    execution = execute(
        cell.settings, folder.run_folder(cell).path, pool_of(cell.settings)
    )
    assert watch.done() == 0
    next(execution)
    assert watch.done() == 0  # the first training is that of another run
    journal.append(
        folder.run_folder(cell).training_file, {"part": "round-001", "step": 30}
    )
    assert watch.done() == 30
    next(execution)
    execution.close()
    assert watch.done() == 40
