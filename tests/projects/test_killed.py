"""Every command of a project, killed at any moment: nothing is lost or doubled."""

import os
from dataclasses import replace

import pytest
from tests.harness import killed_project
from tests.harness.killed_project import Life

from fewlabels.projects import Project
from fewlabels.projects.store import new_uuid

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")


@pytest.mark.parametrize(
    ("kills", "rounds"),
    [(2, 1), pytest.param(200, 2, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_a_project_that_is_killed_over_and_over_loses_nothing(tmp_path, kills, rounds):
    found = killed_project.survive(tmp_path, kills, seed=1, rounds=rounds)
    assert found["faults"] == []
    assert found["kills"] == kills


def test_the_comparison_sees_what_is_lost_doubled_or_mixed(tmp_path):
    life = Life(tmp_path / "life")
    for verb in ("init", "ask", "tell", "train", "export", "predict"):
        life.do(verb)
        life.acknowledge(verb)
    assert life.faults("") == []
    life.done.append("train")
    life.told["99.png"] = "odd"
    (life.out / "labels.csv").write_text("another export's")
    life.table.write_text("file_name,label\n")
    labels, models, export, predictions = life.faults("")
    assert labels == "7 labels, not 8 or 8"
    assert models == "1 models, not 2"
    assert "holds 'labels.csv', which the last export did not write" in export
    assert predictions == "0 predictions"
    with Project.open(life.folder) as project:
        (event, *_) = [one for one in project.store.events() if one.item]
        again = replace(event, uuid=new_uuid())
        project.store.append([again])
    assert "a label is there twice" in life.faults("")
