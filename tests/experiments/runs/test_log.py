"""Figures are kept as lines of strict JSON and as curves of TensorBoard."""

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fewlabels import files
from fewlabels.errors import StorageError, UsageError
from fewlabels.experiments.runs import SCHEMA, TrainingLog
from fewlabels.progress import part, reporting, tell, track


def strict(text):
    """Read JSON as a reader would that knows no NaN."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def points(folder):
    """Step and value of every figure that TensorBoard shows of a folder."""
    events = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def read(log):
    return files.read_entries(log.file)


def test_a_line_says_when_where_what_and_how(tmp_path):
    log = TrainingLog(tmp_path / "new" / "training.jsonl")
    with reporting(log), part("round-002"), track("Training", 20):
        tell(10, {"loss": 0.5, "kept-refined": np.float32(0.25)})
        tell(20, {"loss": torch.tensor(0.25)})
    first, second = map(strict, log.file.read_text().splitlines())
    assert list(first) == [
        "schema_version", "time", "part", "task", "step", "loss", "kept-refined"
    ]  # fmt: skip
    assert first["time"] <= second["time"]
    del first["time"], second["time"]
    common = {"schema_version": SCHEMA, "part": "round-002", "task": "Training"}
    assert first == common | {"step": 10, "loss": 0.5, "kept-refined": 0.25}
    assert second == common | {"step": 20, "loss": 0.25}


def test_figures_belong_to_the_task_that_was_started_last(tmp_path):
    log = TrainingLog(tmp_path / "a.jsonl")
    with reporting(log):
        tell(0, {})
        with track("Run", 2):
            tell(1, {})
            with track("Training", 2):
                tell(2, {})
            with track("Search", 2):
                tell(3, {})
            tell(4, {})
    tasks = [line["task"] for line in read(log)]
    assert tasks == [None, "Run", "Training", "Search", "Run"]


def test_nothing_is_written_before_a_figure(tmp_path):
    log = TrainingLog(tmp_path / "a.jsonl", tmp_path / "board")
    with reporting(log), track("Training", 2) as advance:
        advance(2)
    log.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_know_is_null(tmp_path, value):
    log = TrainingLog(tmp_path / "a.jsonl")
    log.tell(1, {"loss": value, "kept": 0.5})
    line = strict(log.file.read_text())
    assert line["loss"] is None
    assert line["kept"] == 0.5


@given(st.data())
def test_a_file_that_was_cut_anywhere_goes_on_with_whole_lines(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    entries = [{"step": step, "words": "ä\n\u2028" * step} for step in range(4)]
    for entry in entries:
        files.append_entry(path, entry)
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    num_whole = content[:cut].count(b"\n")
    assert files.read_entries(path) == entries[:num_whole]
    files.append_entry(path, {"step": 9}, durable=True)
    assert files.read_entries(path) == [*entries[:num_whole], {"step": 9}]
    assert path.read_bytes().endswith(b"\n")


def test_no_file_has_no_lines(tmp_path):
    assert files.read_entries(tmp_path / "a.jsonl") == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
def test_figures_that_were_reported_outlive_a_kill(tmp_path):
    log = TrainingLog(tmp_path / "a.jsonl", tmp_path / "board")
    child = os.fork()
    if not child:
        log.tell(1, {"loss": 0.5})
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert read(log)[0]["loss"] == 0.5
    assert points(tmp_path / "board") == {"loss": [(1, 0.5)]}


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder' could not be written"):
        files.append_entry(tmp_path / "folder", {"step": 1})
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file' could not be written"):
        TrainingLog(tmp_path / "file" / "a.jsonl").tell(1, {})


def test_tensorboard_gets_a_curve_per_part(tmp_path):
    log = TrainingLog(tmp_path / "a.jsonl", tmp_path)
    with reporting(log):
        for number in range(2):
            with part(f"round-{number:03d}"), track("Training", 20):
                tell(10, {"loss": 0.5 + number})
                tell(20, {"loss": 0.25, "accuracy": 0.75})
        tell(3, {"alone": 1.0})
    log.close()
    assert points(tmp_path / "round-000") == {
        "Training/loss": [(10, 0.5), (20, 0.25)],
        "Training/accuracy": [(20, 0.75)],
    }
    assert points(tmp_path / "round-001")["Training/loss"] == [(10, 1.5), (20, 0.25)]
    assert points(tmp_path)["alone"] == [(3, 1.0)]


def test_a_training_that_is_taken_up_again_has_one_curve(tmp_path):
    for steps in ([10, 20, 30], [20, 30, 40]):  # killed after 30, saved after 10
        log = TrainingLog(tmp_path / "a.jsonl", tmp_path)
        with reporting(log), part("round-000"), track("Training", 40):
            for step in steps:
                tell(step, {"loss": step})
        log.close()
    shown = points(tmp_path / "round-000")["Training/loss"]
    assert shown == [(10, 10.0), (20, 20.0), (30, 30.0), (40, 40.0)]


def test_two_listen_at_once(tmp_path):
    logs = [TrainingLog(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    with reporting(logs[0]), reporting(logs[1]), track("Training", 2):
        tell(1, {"loss": 0.5})
        tell(2, {"loss": 0.25})
    for log in logs:
        seen = [(line["step"], line["loss"], line["task"]) for line in read(log)]
        assert seen == [(1, 0.5, "Training"), (2, 0.25, "Training")]


def test_without_tensorboard_the_command_to_install_it_is_named(monkeypatch):
    monkeypatch.setattr("fewlabels.names.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'fewlabels\[track\]'"):
        TrainingLog(Path("nowhere"), Path("nowhere"))
