import json
from math import nan

import pytest

from fewlabels.errors import ForeignFolderError, RunError
from fewlabels.experiments.runs import RoundLine, RunFolder

LINE = {
    "step": 0,
    "num_labeled": 4,
    "accuracy": 0.5,
    "median_accuracy": None,
    "ids": ["a", "b"],
    "indices": [3, 1],
    "labels": [1, None],
    "class_counts": [2, 2],
    "kernel": None,
    "value": None,
    "ceiling": None,
    "tie": None,
    "record": {},
}
DESCRIPTION = {
    "kind": "fewlabels run",
    "schema_version": 3,
    "settings": {"data": "digits"},
    "data": {"num_items": 9, "num_test": 3, "classes": ["0", "1"]},
    "versions": {"fewlabels": "0.1"},
}


@pytest.fixture
def folder(tmp_path):
    start = {"ids": ["c", "d"], "labels": [0, 1]}
    (tmp_path / "run.json").write_text(json.dumps(DESCRIPTION))
    (tmp_path / "start.json").write_text(json.dumps(start))
    return RunFolder(tmp_path)


def test_what_can_be_is_read(folder):
    folder.rounds_file.write_text(json.dumps(LINE) + "\n")
    assert folder.description() == DESCRIPTION
    assert folder.start() == {"c": 0, "d": 1}
    assert folder.lines()[0].ids == ("a", "b")
    assert RoundLine.model_validate(LINE | {"accuracy": nan}).accuracy is not None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("timings.jsonl", '{"step": [1]}'),
        ("timings.jsonl", '{"step": 0, "train_seconds": "long"}'),
        ("timings.jsonl", '{"step": 0, "finished": "yesterday"}'),
        ("start.json", '{"ids": ["a"], "labels": [1e400]}'),
        ("start.json", '{"ids": ["a"], "labels": [99999999999999999999]}'),
        ("start.json", '{"ids": [["a"]], "labels": [1]}'),
    ],
)
def test_what_a_file_says_is_checked(folder, name, content):
    (folder.path / name).write_text(content)
    with pytest.raises(RunError, match=f"{name}' could not be read"):
        folder.start() if name == "start.json" else folder.timings()


@pytest.mark.parametrize(
    "change",
    [{"labels": [1]}, {"accuracy": 1.5}, {"indices": [1, 2**40]}, {"step": 2**40}],
)
def test_a_round_that_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match="1 validation error"):
        RoundLine.model_validate(LINE | change)


def test_rounds_of_different_classes_are_refused(folder):
    second = LINE | {"step": 1, "class_counts": [2, 3, 1]}
    folder.rounds_file.write_text(f"{json.dumps(LINE)}\n{json.dumps(second)}\n")
    with pytest.raises(RunError, match="its rounds count labels of different classes"):
        folder.lines()


@pytest.mark.parametrize(
    "change",
    [
        {"versions": 3},
        {"made": {"trainer": {"label": {}}}},
        {"data": {"num_items": -1, "num_test": 0, "classes": []}},
        {"data": {"num_items": 1, "num_test": 10**400, "classes": []}},
        {"data": None},
        {"data": {"num_items": "many", "num_test": 3, "classes": []}},
        {"data": {"num_items": 9, "num_test": 3, "classes": None}},
        {"data": {"num_items": 9, "num_test": 3, "classes": [], "shape": 0.5}},
        {"settings": []},
        {"settings": {"data": {}}},
        {"settings": {"trainer": {"name": 7, "options": {}}}},
    ],
)
def test_a_description_that_cannot_be_is_refused(folder, change):
    folder.settings_file.write_text(json.dumps(DESCRIPTION | change))
    with pytest.raises(ForeignFolderError, match="does not describe a run"):
        folder.description()
