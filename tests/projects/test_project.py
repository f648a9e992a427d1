"""A project from its first image to its last export."""

import csv
import shutil

import pyarrow.parquet as pq
import pytest
from tests.projects import toy
from tests.projects.toy import (
    begin,
    begun,
    go_on,
    paths,
    pictures,
    truth,
    write,
)

from fewlabels.errors import (
    UsageError,
)
from fewlabels.experiments.settings import Choice
from fewlabels.models.cache import FeatureCache
from fewlabels.projects import NextStep, predict
from fewlabels.projects.store import Event, Kind


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        yield opened


def test_from_a_folder_to_a_model_that_is_used(project, tmp_path):
    for _ in range(2):
        go_on(project)
        assert project.train().is_new
    status = project.status()
    assert (status.num_rounds, status.num_spent) == (2, 11)
    assert [point.num_labeled for point in status.curve] == [4, 8]
    assert status.curve[-1].audited.num_audited == 3
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
    done = project.export(tmp_path / "out", as_is=True)
    names = [path.name for path in done.files]
    assert names == ["labels.csv", "labels.parquet", "manifest.json"]
    assert done.model is None
    with pytest.raises(UsageError, match="No model has been trained yet"):
        project.export(tmp_path / "out", onnx=True, as_is=True)


def test_labels_that_were_swapped_are_to_be_trained_on(project):
    asked = go_on(project)
    project.train()
    assert project.status().next_step is NextStep.ASK
    one, other = (
        next(a.item for a in asked.items if a.role == "query" and truth(a.item) == name)
        for name in ("even", "odd")
    )
    project.change(one, "odd", annotator="ann")
    project.change(other, "even", annotator="ann")
    assert project.status().next_step is NextStep.TRAIN
    assert project.train().is_new
    assert project.status().next_step is NextStep.ASK


def test_training_twice_without_new_labels_does_nothing(project):
    go_on(project)
    first = project.train()
    again = project.train()
    assert (first.is_new, again.is_new) == (True, False)
    assert again.record == first.record
    assert len(project.records()) == 1


def test_too_few_classes_to_train_on(project, tmp_path):
    with pytest.raises(UsageError, match="0 labels of 0 classes"):
        project.train()
    rows = [(name, "odd") for name in paths(project, project.ask())]
    project.tell(write(tmp_path / "a.csv", rows))
    with pytest.raises(UsageError, match=r"4 labels of 1 classes.*3 audit"):
        project.train()
    assert project.status().next_step is NextStep.ASK


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
    status = project.status()
    assert status.classes == ("straight", "odd")
    assert status.curve[-1].audited == before
    project.export(tmp_path / "out")
    table = pq.read_table(tmp_path / "out/predictions.parquet")
    assert {"p_straight", "p_odd"} <= set(table.column_names)
    found = predict(tmp_path / "out/model", project.images_folder)
    assert set(found.labels) <= {"straight", "odd"}


def test_a_head_over_an_encoder_of_ones_own(tmp_path, monkeypatch):
    options = {"steps": 5, "encoder": "tests.projects.toy:ENCODER"}
    trainer = Choice(name="frozen-supervised", options=options)
    with begin(tmp_path, strategy="npc", trainer=trainer) as project:
        go_on(project)
        project.train()
        assert len(list(FeatureCache.of_this_user().folder.glob("*.rows"))) >= 1
        assert not (project.folder / "features").exists()

        plain, seen = toy.Halves.forward, []

        def counted(self, images):
            seen.append(len(images))
            return plain(self, images)

        with monkeypatch.context() as patch:
            patch.setattr(toy.Halves, "forward", counted)
            go_on(project)
            project.train()
            project.export(tmp_path / "out")
        assert len(seen) == 2  # a look at one image whenever the model is loaded
        table = pq.read_table(tmp_path / "out/predictions.parquet").to_pylist()
        assert len(table) == 24


def test_another_project_with_the_same_photographs_embeds_none(tmp_path, monkeypatch):
    options = {"steps": 5, "encoder": "tests.projects.toy:ENCODER"}
    trainer = Choice(name="frozen-supervised", options=options)
    monkeypatch.setenv("FEWLABELS_CACHE", str(tmp_path / "cache"))
    with begin(tmp_path / "one", trainer=trainer) as project:
        go_on(project)
        project.train()
    images = tmp_path / "two" / "images"
    shutil.copytree(tmp_path / "one" / "images", images)
    (images / "moved").mkdir()
    for path in sorted(images.glob("*.png"))[:3]:
        path.rename(images / "moved" / path.name)
    monkeypatch.setattr(toy.Halves, "forward", None)
    with begin(tmp_path / "two", trainer=trainer) as project:
        go_on(project)
        assert project.train().is_new
