"""A project from its first image to its last export, and what may happen meanwhile."""

import csv
import os
import shutil
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file
from tests.data.pictures import save
from tests.projects.toy import (
    QUICK,
    answer,
    begin,
    go_on,
    num_events,
    paths,
    pictures,
    truth,
    write,
)
from tests.store.conftest import emptied

from fewlabels.errors import (
    DamagedStoreError,
    DataError,
    FewlabelsError,
    ProjectError,
    UnknownNameError,
    UnreadableFilesWarning,
    UsageError,
)
from fewlabels.projects import Project, predict
from fewlabels.runs import Choice
from fewlabels.store import Event, Kind, Store
from fewlabels.training import loop

RESUMABLE = Choice(
    name="supervised", options={"steps": 12, "save_every": 0.0, "checkpoint_every": 3}
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")


@pytest.fixture
def project(tmp_path):
    with begin(tmp_path) as opened:
        yield opened


def weights(project, number=0):
    return load_file(project.models_folder / f"model-{number:03d}/model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


# ------------------------------------------------------------------- all the way


def test_from_a_folder_to_a_model_that_is_used(project, tmp_path):
    for _ in range(2):
        go_on(project)
        assert project.train().is_new
    standing = project.status()
    assert (standing.num_rounds, standing.num_spent) == (2, 11)
    assert [point.num_labeled for point in standing.curve] == [4, 8]
    assert standing.curve[-1].audited.num_audited == 3
    done = project.export(tmp_path / "out")
    assert {path.name for path in done.files} >= {
        *("labels.csv", "labels.parquet", "predictions.parquet"),
        *("model.safetensors", "config.json", "README.md"),
    }
    with (tmp_path / "out/labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == done.num_labels == 11
    assert all(row["label"] == truth(row["file_name"]) for row in rows)
    assert sorted(row["strategy"] for row in rows) == ["audit"] * 3 + ["random"] * 8
    table = pq.read_table(tmp_path / "out/predictions.parquet").to_pylist()
    assert sum(row["source"] == "human" for row in table) == 11
    assert len(table) == 24
    found = predict(tmp_path / "out/model", pictures(tmp_path / "new", range(30, 35)))
    assert len(found.labels) == 5


def test_labels_alone_are_exported_before_any_training(project, tmp_path):
    go_on(project)
    done = project.export(tmp_path / "out")
    assert [path.name for path in done.files] == ["labels.csv", "labels.parquet"]
    assert not done.has_model
    with pytest.raises(UsageError, match="No model was trained yet"):
        project.export(tmp_path / "out", onnx=True)


def test_training_twice_without_new_labels_does_nothing(project):
    go_on(project)
    first = project.train()
    again = project.train()
    assert (first.is_new, again.is_new) == (True, False)
    assert again.record == first.record
    assert len(project.records()) == 1


def test_a_changed_label_trains_again(project, tmp_path):
    asked = go_on(project)
    project.train()
    name = next(
        name
        for one, name in zip(asked.items, paths(project, asked), strict=True)
        if one.role == "query"
    )
    other = "odd" if truth(name) == "even" else "even"
    project.tell(write(tmp_path / "b.csv", [(name, other)]), annotator="ann")
    assert project.train().is_new


def test_too_few_classes_to_train_on(project, tmp_path):
    with pytest.raises(UsageError, match="0 labels of 0 classes"):
        project.train()
    rows = [(name, "odd") for name in paths(project, project.ask())]
    project.tell(write(tmp_path / "a.csv", rows))
    with pytest.raises(UsageError, match=r"4 labels of 1 classes.* the 3 that measure"):
        project.train()


def test_a_class_that_is_renamed_keeps_labels_and_accuracy(project, tmp_path):
    go_on(project)
    project.train()
    before = project.status().curve[-1].audited
    renamed = Event(
        kind=Kind.CLASS_RENAMED,
        annotator="ann",
        class_number=0,
        payload={"name": "straight"},
    )
    project.store.append([renamed])
    standing = project.status()
    assert standing.classes == ("straight", "odd")
    assert standing.curve[-1].audited == before
    project.export(tmp_path / "out")
    table = pq.read_table(tmp_path / "out/predictions.parquet")
    assert {"p_straight", "p_odd"} <= set(table.column_names)
    found = predict(tmp_path / "out/model", project.images_folder)
    assert set(found.labels) <= {"straight", "odd"}


# ------------------------------------------------------------------ interruptions


def in_a_child(place, at_step):
    """Train the project in a forked process that does something at each step."""
    child = os.fork()
    if child:
        return child
    advance = loop.Training.advance

    def watched(self, step, minibatch):
        at_step(step)
        return advance(self, step, minibatch)

    loop.Training.advance = watched
    try:
        Project.open(place).train()
    finally:
        os._exit(0)


@needs_fork
def test_a_training_that_is_killed_goes_on_to_the_same_weights(tmp_path):
    pictures(tmp_path / "images")
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        shutil.copytree(tmp_path / "images", tmp_path / name / "images")
        with begin(tmp_path / name, trainer=RESUMABLE) as project:
            go_on(project)

    def die(step):
        if step == 8:
            os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(in_a_child(tmp_path / "killed/project", die), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        advance = loop.Training.advance
        patch.setattr(
            loop.Training,
            "advance",
            lambda self, step, batch: (steps.append(step), advance(self, step, batch))[
                1
            ],
        )
        with Project.open(tmp_path / "killed/project") as killed:
            assert not killed.records()
            assert killed.train().is_new
    assert min(steps) > 0  # it went on where it was
    with Project.open(tmp_path / "whole/project") as whole:
        whole.train()
        assert same(weights(killed), weights(whole))
    assert not (killed.models_folder / "model-000/training").exists()


@needs_fork
def test_labels_may_change_between_a_kill_and_the_next_training(tmp_path):
    with begin(tmp_path, trainer=RESUMABLE) as project:
        asked = go_on(project)

    def die(step):
        if step == 8:
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(in_a_child(tmp_path / "project", die), 0)
    with Project.open(tmp_path / "project") as project:
        names = [n for n in paths(project, asked) if truth(n) == "even"]
        project.tell(write(tmp_path / "b.csv", [(names[0], "odd")]), annotator="ann")
        assert project.train().is_new


@needs_fork
def test_while_one_process_trains_people_label_and_nobody_else_chooses(project):
    asked = project.ask()
    names = paths(project, asked)
    first = [(name, truth(name)) for name in names[:-1]]
    project.tell(write(project.folder / "a.csv", first), annotator="ann")
    is_training, told = os.pipe(), os.pipe()

    def wait(step):
        if step == 0:
            os.write(is_training[1], b"!")
            os.read(told[0], 1)

    child = in_a_child(project.folder, wait)
    os.read(is_training[0], 1)
    try:
        for verb in (project.ask, project.train):
            with pytest.raises(ProjectError, match="Another process chooses or trains"):
                verb()
        last = write(project.folder / "b.csv", [(names[-1], truth(names[-1]))])
        assert project.tell(last, annotator="ann").num_new == 1
        assert project.status().num_spent == 7
    finally:
        os.write(told[1], b"!")
        os.waitpid(child, 0)
    assert len(project.records()) == 1


# ------------------------------------------------------------------ files that move


def test_a_file_that_moves_keeps_its_label(project):
    go_on(project)
    before = project.snapshot().known
    deeper = project.images_folder / "deeper"
    deeper.mkdir()
    for path in list(project.images_folder.glob("*.png")):
        path.rename(deeper / path.name)
    project.index()
    snapshot = project.snapshot()
    assert {item.path.split("/")[0] for item in snapshot.items} == {"deeper"}
    assert snapshot.known == before
    assert project.train().record.num_labeled == 4


def test_a_changed_picture_is_asked_about_again(project):
    asked = go_on(project)
    place = [one.role for one in asked.items].index("query")
    name = paths(project, asked)[place]
    save(project.images_folder / name, 77)
    project.index()
    snapshot = project.snapshot()
    index = [item.path for item in snapshot.items].index(name)
    assert index in snapshot.candidates.tolist()
    assert snapshot.labels[index] == -1
    assert asked.items[place].item not in snapshot.known
    assert project.train().record.num_labeled == 3
    save(project.images_folder / name, int(name[:2]))  # the old content comes back
    project.index()
    assert asked.items[place].item in project.snapshot().known


def test_pictures_that_come_and_go(project):
    go_on(project)
    project.train()
    (project.images_folder / "00.png").unlink()
    pictures(project.images_folder, range(30, 33))
    project.train()
    assert project.status().num_images == 26
    assert len(project.ask().items) == 4
    for path in project.images_folder.iterdir():
        path.unlink()
    with pytest.raises(FewlabelsError, match="image"):
        project.ask()


def test_an_unreadable_file_is_named(project, tmp_path):
    (project.images_folder / "broken.png").write_bytes(b"no image")
    with pytest.warns(UnreadableFilesWarning, match=r"broken\.png"):
        asked = project.ask()
    assert len(asked.items) == 7
    shutil.copytree(project.images_folder, tmp_path / "other/images")
    with pytest.warns(UnreadableFilesWarning, match=r"broken\.png"):
        begin(tmp_path / "other").close()


def test_a_project_inside_its_images_is_no_image(tmp_path):
    images = pictures(tmp_path / "images")
    place = images / "project"
    options = {"budget": 12, "trainer": QUICK}
    with Project.create(place, images, ["a", "b"], **options) as project:
        save(place / "models/picture.png", 90)
        project.ask()
        assert project.status().num_images == 24


def test_a_project_that_moved_together_with_its_images_opens(tmp_path):
    (tmp_path / "here").mkdir()
    with begin(tmp_path / "here") as project:
        asked = go_on(project)
        project.train()
        before = project.status()
    (tmp_path / "here").rename(tmp_path / "there")
    with Project.open(tmp_path / "there/project") as project:
        assert project.status().num_spent == before.num_spent
        assert not project.train().is_new
        later = project.ask()
        assert not {o.item for o in later.items} & {o.item for o in asked.items}


# ---------------------------------------------------------------- beginning, trouble


def test_the_default_settings(tmp_path):
    with begin(tmp_path, budget=20, audit=None, query=None, strategy=None) as project:
        settings = project.settings
        assert (settings.audit, settings.query, settings.overlap) == (4, 20, 1)
        assert settings.strategy.name == "npc"
        assert settings.images == "../images"
        assert settings.shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"budget": 0}, ProjectError, "'budget' is 0"),
        ({"audit": 12}, ProjectError, "takes 12 of 12 labels"),
        ({"query": 0}, ProjectError, "'query' is 0"),
        ({"overlap": 0}, ProjectError, "'overlap' is 0"),
        ({"strategy": "nope"}, UnknownNameError, "no strategy called 'nope'"),
        ({"trainer": "nope"}, UnknownNameError, "no trainer called 'nope'"),
        (
            {"trainer": Choice(name="supervised", options={"stesp": 5})},
            FewlabelsError,
            "stesp",
        ),
    ],
)
def test_what_cannot_be_meant_leaves_no_trace(tmp_path, options, kind, message):
    with pytest.raises(kind, match=message):
        begin(tmp_path, **options)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("names", [["cat"], ["cat", "cat"], ["cat", " "], []])
def test_classes_that_are_none(tmp_path, names):
    pictures(tmp_path / "images", range(3))
    with pytest.raises(UsageError, match="at least two different names"):
        Project.create(tmp_path / "project", tmp_path / "images", names, budget=5)


def test_folders_that_cannot_be_meant(tmp_path):
    with pytest.raises(DataError, match="no folder"):
        Project.create(tmp_path / "p", tmp_path / "nothing", ["a", "b"], budget=5)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no readable image"):
        Project.create(tmp_path / "p", tmp_path / "empty", ["a", "b"], budget=5)
    images = pictures(tmp_path / "images", range(3))
    with pytest.raises(ProjectError, match="is not empty; nothing was touched"):
        Project.create(images, images, ["a", "b"], budget=5)
    with pytest.raises(ProjectError, match="There is no project in"):
        Project.open(tmp_path / "nothing")


def test_images_that_are_gone(project):
    project.images_folder.rename(project.folder.parent / "elsewhere")
    with pytest.raises(FewlabelsError, match="images"):
        project.ask()


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"budget": "many"}'])
def test_damaged_settings(project, content):
    project.settings_file.write_bytes(content)
    with pytest.raises(ProjectError, match=r"project\.json"):
        Project.open(project.folder)


def test_a_damaged_store(project):
    project.close()
    for path in project.folder.glob("labels.sqlite-*"):
        path.unlink()
    file = project.folder / "labels.sqlite"
    file.write_bytes(b"nonsense" * 1000)
    with pytest.raises(DamagedStoreError):
        Project.open(project.folder)
    file.unlink()
    with pytest.raises(FewlabelsError, match=r"labels\.sqlite"):
        Project.open(project.folder)
    assert not file.exists()  # nobody may take an empty store for the labels


def test_a_damaged_model_says_that_labels_are_safe(project):
    go_on(project)
    project.train()
    (project.models_folder / "model-000/training.json").write_text("{")
    with pytest.raises(ProjectError, match="Labels are not touched by this"):
        project.status()


def test_a_backup_holds_every_label(project, tmp_path):
    go_on(project)
    project.backup(tmp_path / "backup.sqlite")
    with Store.open(Path(tmp_path / "backup.sqlite")) as copy:
        assert copy.labels() == project.store.labels()


# --------------------------------------------------------------------- PostgreSQL


def test_the_same_on_postgresql(tmp_path, place):
    with begin(tmp_path, store=place) as project:
        asked = go_on(project)
        before = num_events(project)
        assert answer(project, asked).num_same == 7
        assert num_events(project) == before
        project.train()
        go_on(project)
        assert project.status().num_spent == 11
        project.backup(tmp_path / "backup.sqlite")
    with Project.open(tmp_path / "project") as again:
        assert again.status().num_spent == 11
        assert len(again.store.rounds()) == 2


def test_a_store_belongs_to_one_project(tmp_path, server):
    address = emptied(server)
    with begin(tmp_path, store=address) as project:
        go_on(project)
        before = num_events(project)
        with pytest.raises(ProjectError, match="2 classes and 1 rounds"):
            begin(tmp_path / "other", store=address)
        assert num_events(project) == before
