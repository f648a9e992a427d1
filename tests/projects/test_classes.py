"""Classes that come later, and that get another name."""

import pyarrow.parquet as pq
import pytest
from tests.projects.toy import begun, go_on, paths, truth, write

from fewlabels.errors import ReplayError, UnknownNameError, UsageError
from fewlabels.projects import Project
from fewlabels.projects.store import new_uuid


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        yield opened


def test_a_class_that_is_added_later(project, tmp_path):
    go_on(project)
    project.train()
    asked = project.ask()
    project.add_classes([" neither "])
    project.write_query(asked, tmp_path / "query.csv")
    names = paths(project, asked)
    rows = [(names[0], "neither"), *((name, truth(name)) for name in names[1:])]
    assert project.tell(write(tmp_path / "a.csv", rows)).num_new == 4
    status = project.status()
    assert status.classes == ("even", "odd", "neither")
    assert status.class_counts[2] == 1
    project.export(
        tmp_path / "before", as_is=True
    )  # of a model that does not know the class
    table = pq.read_table(tmp_path / "before/predictions.parquet").to_pylist()
    (row,) = [row for row in table if row["label"] == "neither"]
    assert (row["file_name"], row["source"], row["p_neither"]) == (names[0], "human", 0)
    trained = project.train()
    assert trained.record.classes == ("even", "odd", "neither")
    assert project.ask(strategy="npc").model == "model-001"


def test_a_model_that_does_not_know_a_class_can_choose(project):
    go_on(project)
    project.train()
    project.add_classes([" neither "])
    for strategy in ("npc", "margin", "random"):
        assert len(project.ask(strategy=strategy, anew=True).items) == 4


BAD_NAMES = ["odd", "ODD ", " ", "new, new", "a\x1b[31m", "?", " Skip", "unsure"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_class_that_could_not_be_told_apart_is_refused(project, name):
    with pytest.raises(UsageError, match="was not taken"):
        project.add_classes(name.split(","))
    if "," not in name:
        with pytest.raises(UsageError, match="was not taken"):
            project.rename_class("even", name)
    with pytest.raises(UnknownNameError, match="Did you mean 'even'"):
        project.rename_class("evne", "new")
    assert project.snapshot().classes == ("even", "odd")


@pytest.mark.parametrize("name", ["?", "Skip", "unsure"])
def test_a_word_that_files_of_answers_know_is_no_class(tmp_path, name):
    with pytest.raises(UsageError, match="a file of answers means something else"):
        Project.create(tmp_path / "p", tmp_path, ["even", name], budget=4)


def test_a_class_that_is_sent_twice_is_there_once(project):
    add, rename = new_uuid(), new_uuid()
    for _ in range(2):
        assert project.add_class("neither", uuid=add) == ("even", "odd", "neither")
    for _ in range(2):
        found = project.rename_class("neither", "none", uuid=rename)
        assert found == ("even", "odd", "none")
    assert project.add_class("neither", uuid=add) == ("even", "odd", "none")
    for wrong in (
        lambda: project.add_class("another", uuid=add),
        lambda: project.rename_class("odd", "neither", uuid=add),
        lambda: project.rename_class("odd", "other", uuid=rename),
        lambda: project.undo(uuid=rename),
    ):
        with pytest.raises((ReplayError, UsageError)):
            wrong()
    assert project.snapshot().classes == ("even", "odd", "none")
