"""Classes that come later, and that get another name."""

import pyarrow.parquet as pq
import pytest
from tests.projects.toy import begun, go_on, paths, truth, write

from fewlabels.errors import ReplayError, UnknownNameError, UsageError
from fewlabels.projects import Project
from fewlabels.projects.store import Kind, Store, new_uuid


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
        assert project.add_classes(["neither"], uuid=add) == ("even", "odd", "neither")
    for _ in range(2):
        found = project.rename_class("neither", "none", uuid=rename)
        assert found == ("even", "odd", "none")
    assert project.add_classes(["neither"], uuid=add) == ("even", "odd", "none")
    for wrong in (
        lambda: project.add_classes(["another"], uuid=add),
        lambda: project.rename_class("odd", "neither", uuid=add),
        lambda: project.rename_class("odd", "other", uuid=rename),
        lambda: project.undo(uuid=rename),
    ):
        with pytest.raises((ReplayError, UsageError)):
            wrong()
    assert project.snapshot().classes == ("even", "odd", "none")


def labels_of(project):
    name_of = {entry.number: entry.name for entry in project.store.classes()}
    return {
        (label.item, label.annotator): name_of[label.class_number]
        for label in project.store.labels()
    }


def label_three(project):
    """Label images with a third class, one of them by two people; return them."""
    project.add_classes(["two"])
    items = [entry.item for entry in project.ask().items]
    for item in items[:3]:
        project.label(item, "two", annotator="ann")
    project.label(items[0], "two", annotator="bob")
    project.label(items[3], "odd", annotator="ann")
    return items


def test_a_merge_changes_all_labels_and_one_call_takes_it_back(project):
    items = label_three(project)
    before = labels_of(project)
    num_spent = project.status().num_spent
    own = new_uuid()
    for _ in range(2):  # sent again, it changes nothing
        assert project.merge_classes("two", "even", uuid=own) == 4
    after = labels_of(project)
    assert sorted(after.values()) == ["even"] * 4 + ["odd"]
    assert project.status().num_spent == num_spent
    assert [entry.is_active for entry in project.store.classes()] == [True, True, False]
    with pytest.raises(ReplayError):
        project.merge_classes("two", "odd", uuid=own)
    project.change(items[1], "odd", annotator="ann")  # what was changed since stays
    again = new_uuid()
    for _ in range(2):
        assert project.restore_class("two", uuid=again) == 3
    assert labels_of(project) == before | {(items[1], "ann"): "odd"}
    with pytest.raises(UnknownNameError):
        project.restore_class("two")


def test_images_of_a_deleted_class_are_skipped_until_it_is_back(project):
    items = label_three(project)
    before = labels_of(project)
    assert project.merge_classes("two", None) == 4
    assert labels_of(project) == {(items[3], "ann"): "odd"}
    assert project.snapshot().skipped == set(items[:3])
    assert project.restore_class("two") == 4
    assert labels_of(project) == before
    for wrong in (("two", "two"), ("two", "none"), ("none", "two")):
        with pytest.raises((UsageError, UnknownNameError)):
            project.merge_classes(*wrong)
    project.merge_classes("two", "odd")
    with pytest.raises(UsageError, match="needs two classes"):
        project.merge_classes("even", "odd")


@pytest.mark.parametrize("failing", [Kind.CLASS_RETIRED, Kind.UNDO])
def test_a_merge_that_fails_half_way_changes_nothing(project, monkeypatch, failing):
    label_three(project)
    if failing is Kind.UNDO:
        project.merge_classes("two", "even")
    before, events = labels_of(project), len(list(project.store.events()))
    append = Store.append

    def fail(store, events):
        given = tuple(events)
        if any(event.kind is failing for event in given):
            raise OSError("The disk is full.")
        return append(store, given)

    monkeypatch.setattr(Store, "append", fail)
    call, names = project.merge_classes, ("two", "even")
    if failing is Kind.UNDO:
        call, names = project.restore_class, ("two",)
    with pytest.raises(OSError, match="full"):
        call(*names)
    monkeypatch.undo()
    assert labels_of(project) == before
    assert len(list(project.store.events())) == events


def test_a_model_learns_without_a_merged_class(project, tmp_path):
    project.add_classes(["two"])
    for item in [entry.item for entry in project.ask().items][:6]:
        name = ("even", "odd", "two")[int(item[:2]) % 3]
        project.label(item, name)
    project.merge_classes("two", "even")
    record = project.train().record
    assert record.class_counts[2] == 0
    assert project.status().num_unused == 0
