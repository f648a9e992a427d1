import json
import os
import shutil
import threading
from dataclasses import replace
from functools import partial

import pytest
import torch
from filelock import FileLock
from tests.experiments.runs import toy

from fewlabels.errors import (
    DataChangedWarning,
    DataError,
    ForeignFolderError,
    RunError,
    RunInUseError,
    SettingsChangedError,
    StorageError,
)
from fewlabels.experiments.diagnosis import diagnose
from fewlabels.experiments.runs import RoundLine, RunFolder, execute
from fewlabels.experiments.settings import Choice
from fewlabels.pool import Answers, ArrayImages, Pool, Query, Round
from fewlabels.report import write_report
from fewlabels.strategies import Margin, uncertainty


@pytest.fixture(scope="module")
def digits():
    return toy.digits()


@pytest.fixture(scope="module")
def finished(tmp_path_factory, digits):
    path = tmp_path_factory.mktemp("finished") / "run"
    rounds, _ = toy.whole_run(path, digits)
    return path, rounds


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run, to be damaged at will."""
    return RunFolder(shutil.copytree(finished[0], tmp_path / "run"))


def test_a_run_holds_what_is_promised(finished, digits):
    path, rounds = finished
    lines = [
        json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()
    ]
    assert [line["num_labeled"] for line in lines] == [10, 15, 20]
    assert list(lines[0]) == [
        "schema_version", "step", "num_labeled", "accuracy", "median_accuracy",
        "calibration_error", "brier_score", "ids", "indices", "labels",
        "class_counts", "kernel", "value", "ceiling", "tie", "record", "checksum",
    ]  # fmt: skip
    assert lines[0]["ids"] == [digits.ids[i] for i in lines[0]["indices"]]
    assert lines[0]["labels"] == digits.labels[lines[0]["indices"]].tolist()
    assert lines[0]["value"] <= lines[0]["ceiling"]
    assert lines[2]["ids"] == []
    assert [line["accuracy"] for line in lines] == [done.accuracy for done in rounds]
    medians = [line["median_accuracy"] for line in lines]
    assert medians == [done.median_accuracy for done in rounds]
    assert None not in medians
    description = json.loads((path / "run.json").read_text())
    assert description["settings"]["seed"] == 3
    assert description["data"]["num_items"] == 1297
    assert description["versions"]["torch"]
    assert description["made"]["strategy"]["options"]["draws"] == 300
    assert description["made"]["trainer"]["options"]["mu"] == 2  # not given
    timings = RunFolder(path).timings()
    assert [timing["step"] for timing in timings] == [0, 1, 2]
    for kind in ("train", "measure"):
        assert all(timing[f"{kind}_seconds"] >= 0 for timing in timings)
    start = json.loads((path / "start.json").read_text())
    assert sorted(start["labels"]) == list(range(10))
    for step in range(3):
        assert (path / f"round-{step:03d}" / "model.safetensors").exists()


def test_the_same_seed_gives_the_same_bytes(finished, tmp_path, digits):
    toy.whole_run(tmp_path / "again", digits)
    again = (tmp_path / "again" / "rounds.jsonl").read_bytes()
    assert again == (finished[0] / "rounds.jsonl").read_bytes()


def test_a_finished_run_is_read_and_not_repeated(run, finished, digits):
    before = {file: file.stat().st_mtime_ns for file in run.path.rglob("*.json*")}
    again = list(execute(toy.settings(), run.path, digits))
    for one, other in zip(again, finished[1], strict=True):
        assert torch.equal(one.query.indices, other.query.indices)
        assert one.accuracy == other.accuracy
    assert before == {
        file: file.stat().st_mtime_ns for file in run.path.rglob("*.json*")
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 4}, "seed was 3 and is now 4"),
        ({"budget": 21}, "budget was 20 and is now 21"),
        (
            {"strategy": Choice(name="random")},
            "strategy was .*'npc'.* and is now .*random",
        ),
    ],
)
def test_changed_settings_are_refused_and_nothing_is_touched(
    run, digits, changes, message
):
    before = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
    with pytest.raises(SettingsChangedError, match=message):
        list(execute(toy.settings(**changes), run.path, digits))
    after = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
    assert before == after


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, digits):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(ForeignFolderError, match=r"contains 'thesis\.tex'"):
        list(execute(toy.settings(), tmp_path, digits))
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", [".lock", "run.json", "rounds.jsonl"])
def test_nothing_is_swept_from_a_folder_of_somebody_else(tmp_path, digits, name):
    (tmp_path / "sub").mkdir()
    for file in (name, "film.mp4.partial", "sub/film.mp4.partial"):
        (tmp_path / file).write_text("precious")
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with pytest.raises(RunError):
        list(execute(toy.settings(), tmp_path, digits))
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_a_missing_round_or_start_is_noticed(run, digits):
    lines = (run.path / "rounds.jsonl").read_text().splitlines(keepends=True)
    (run.path / "rounds.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(RunError, match=r"its rounds are numbered \[1, 2\]"):
        list(execute(toy.settings(), run.path, digits))
    (run.path / "rounds.jsonl").write_text("".join(lines[:1]))
    (run.path / "start.json").unlink()
    with pytest.raises(RunError, match=r"start\.json that it builds on is gone"):
        list(execute(toy.settings(), run.path, digits))


def test_changed_labels_are_noticed(run, digits):
    swapped = replace(digits, labels=(digits.labels + 1) % 10)
    with pytest.warns(DataChangedWarning, match="The data changed since the run"):
        list(execute(toy.settings(), run.path, swapped))
    measured = replace(digits.test, labels=digits.test.labels.flip(0))
    with pytest.warns(DataChangedWarning, match="The data changed since the run"):
        list(execute(toy.settings(), run.path, replace(digits, test=measured)))


def test_rows_that_hold_other_numbers_are_noticed(tmp_path):
    items = torch.arange(24.0).reshape(12, 2) % 5
    pool = Pool.build(ArrayImages(items), torch.arange(12) % 2, classes=("a", "b"))
    changes = {
        "strategy": Choice(name="random"),
        "trainer": Choice(name="linear"),
        "start": 2,
        "query": 2,
        "budget": 4,
    }
    toy.whole_run(tmp_path, pool, **changes)
    other = replace(pool, images=ArrayImages(items + 1))
    with pytest.warns(DataChangedWarning, match="now; their rows hold other numbers"):
        toy.whole_run(tmp_path, other, **changes)


def test_a_file_is_no_folder(tmp_path, digits):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ForeignFolderError, match="is a file; a run needs a folder"):
        list(execute(toy.settings(), tmp_path / "file", digits))


@pytest.mark.parametrize(
    "content", ['{"name": "marathon"}', '{"kind": "fewlabels run"}', "[]"]
)
def test_a_run_json_of_another_program_is_refused(tmp_path, digits, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ForeignFolderError, match="does not describe a run"):
        list(execute(toy.settings(), tmp_path, digits))
    assert (tmp_path / "run.json").read_text() == content


def test_a_run_json_that_says_too_little_is_refused_by_all_who_read_it(run, digits):
    content = json.loads(run.settings_file.read_text("utf-8")) | {"data": {}}
    del content["checksum"]
    run.settings_file.write_text(json.dumps(content), "utf-8")
    for reads in (
        lambda: list(execute(toy.settings(), run.path, digits)),
        lambda: list(diagnose(run, digits)),
        lambda: write_report(run.report_file, run, digits),
    ):
        with pytest.raises(ForeignFolderError, match="does not describe a run"):
            reads()


@pytest.mark.parametrize("kind", ["pipe", "endless", "deep"])
@pytest.mark.parametrize("name", ["run.json", "start.json", "rounds.jsonl"])
def test_files_of_a_stranger_keep_nobody_waiting(run, digits, name, kind):
    (run.path / name).unlink()
    if kind == "pipe":
        os.mkfifo(run.path / name)
    elif kind == "endless":
        (run.path / name).symlink_to("/dev/zero")
    else:
        (run.path / name).write_text("[" * 99_999)
    message = "nested too deep" if kind == "deep" else "not a regular file"
    with pytest.raises(RunError, match=rf"{name}' could not be read: .*{message}"):
        list(execute(toy.settings(), run.path, digits))


def test_two_processes_do_not_mix(run, digits):
    held, release = threading.Event(), threading.Event()

    def hold():
        with FileLock(run.path / ".fewlabels-lock"):
            held.set()
            release.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(30)
    try:
        with pytest.raises(RunInUseError, match="Another process is using"):
            list(execute(toy.settings(), run.path, digits))
    finally:
        release.set()
        other.join()


@pytest.mark.parametrize("content", ['{"half": ', '{"strange": 1}', "[1]"])
@pytest.mark.parametrize("name", ["rounds.jsonl", "timings.jsonl", "start.json"])
def test_a_damaged_file_is_named(run, digits, name, content):
    cut = (run.path / "rounds.jsonl").read_text().splitlines(keepends=True)[0]
    (run.path / "rounds.jsonl").write_text(cut)
    (run.path / name).write_text(content)
    with pytest.raises(RunError, match=f"{name}' could not be read"):
        list(execute(toy.settings(), run.path, digits))


def test_an_item_that_is_gone_moves_no_label(run, digits):
    lines = run.lines()
    labels = dict(zip(lines[0].ids, lines[0].labels, strict=True))
    shifted = {name: index + 5 for index, name in enumerate(digits.ids)}
    gone = lines[0].ids[2]
    del shifted[gone]
    again = lines[0].to_round(shifted)
    assert len(again.answers.indices) == 4
    for index, label in zip(
        again.answers.indices.tolist(), again.answers.labels.tolist(), strict=True
    ):
        assert labels[digits.ids[index - 5]] == label


def test_other_classes_are_refused(run, digits):
    fewer = toy.load("digits", counts=[50] * 10)
    with pytest.warns(
        DataChangedWarning, match="1297 items and 500 to measure on then, 500"
    ):
        list(execute(toy.settings(), run.path, fewer))
    renamed = toy.replace_classes(digits, "ABCDEFGHIJ")
    with pytest.raises(DataError, match=r"classes \['0', .* 'J'\]. Restore"):
        list(execute(toy.settings(), run.path, renamed))


def test_a_folder_that_cannot_be_written_is_named(tmp_path, digits):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="could not be written"):
        list(execute(toy.settings(), tmp_path / "file" / "run", digits))


def test_a_partial_answer_survives_the_file():
    query = Query(torch.tensor([5, 3, 8]), 0.25, {"arm": "margin", "weights": [1, 2]})
    answers = Answers(torch.tensor([5]), torch.tensor([1]), skipped=torch.tensor([8]))
    done = Round(
        step=2,
        num_labeled=7,
        class_counts=(3, 4),
        accuracy=None,
        query=query,
        answers=answers,
    )
    pool = toy.tiny_pool(10)
    line = RoundLine.of(done, pool)
    assert line.labels == (1, None, -1)
    again = RoundLine.model_validate_json(line.to_json()).to_round(
        {name: index for index, name in enumerate(pool.ids)}
    )
    assert torch.equal(again.query.indices, query.indices)
    assert again.query.record == query.record
    assert again.answers.indices.tolist() == [5]
    assert again.answers.skipped.tolist() == [8]
    assert again.accuracy is None
    assert again.median_accuracy is None


def test_a_strategy_from_outside_is_written_down(tmp_path, digits):
    choice = Choice(name="tests.experiments.runs.toy:FirstOnes")
    toy.whole_run(tmp_path / "run", digits, strategy=choice, budget=15)
    made = RunFolder(tmp_path / "run").description()["made"]["strategy"]
    assert made["type"] == "FirstOnes"
    assert len(made["source"]["tests.experiments.runs.toy"]) == 64


def test_an_edited_trainer_is_not_gone_on_with(tmp_path, digits, monkeypatch):
    file = tmp_path / "my_own_trainer.py"
    file.write_text(
        "from tests.experiments.runs.toy import Resuming\n\n\nclass Mine(Resuming): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    changes = {"trainer": Choice(name="my_own_trainer:Mine"), "budget": 15}
    changes["strategy"] = Choice(name="random")
    toy.whole_run(tmp_path / "run", digits, **changes)
    file.write_text(file.read_text() + "# better now\n")
    toy.whole_run(tmp_path / "run", digits, **changes)  # a comment changes nothing
    file.write_text(file.read_text() + "Mine.share = 2\n")
    told = r"trainer: the source of 'my_own_trainer' is not what it was"
    with pytest.raises(SettingsChangedError, match=told):
        toy.whole_run(tmp_path / "run", digits, **changes)


def test_a_default_that_changed_is_not_gone_on_with(tmp_path, digits, monkeypatch):
    margin = Choice(name="margin")
    toy.whole_run(tmp_path / "run", digits, strategy=margin, budget=15)
    later = partial(Margin, on="logits")
    monkeypatch.setattr(uncertainty, "Margin", later)
    told = r"strategy: on was 'probabilities' and is now 'logits'"
    with pytest.raises(SettingsChangedError, match=told):
        toy.whole_run(tmp_path / "run", digits, strategy=margin, budget=15)
