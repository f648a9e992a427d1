"""An export: all of its files or none, and nothing of anybody else's replaced."""

import hashlib
import json
import os
import shutil

import pytest
from tests.harness.killed_project import killed_at
from tests.projects.toy import begin, begun, go_on, pictures

from fewlabels import files
from fewlabels.errors import UnlearnedLabelsError, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project, predict

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")


@pytest.fixture(scope="module")
def generations(tmp_path_factory):
    """A project, with exports of two moments: other labels and another model."""
    place = tmp_path_factory.mktemp("generations")
    with begun(place) as project:
        for name in ("old", "new"):
            go_on(project)
            project.train()
            project.export(place / name)
    return place


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        go_on(opened)
        yield opened


def contents(folder):
    """Return every file below a folder with its hash."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_model_that_trains_in_seconds_learns_all_labels_first(tmp_path):
    head = Choice(name="frozen-linear", options={"encoder": "pixels"})
    with begin(tmp_path, trainer=head) as project:
        go_on(project)
        for number in range(2):  # before there is a model, and after it is old
            done = project.export(tmp_path / "out")
            assert done.model.number == number
            assert done.model.num_labeled == 4 * (number + 1)
            told = f"model-00{number}, which learned from {4 * (number + 1)} labels"
            assert told in str(done)
            assert (tmp_path / "out/predictions.parquet").is_file()
            project.export(tmp_path / "out")
            assert len(project.records()) == number + 1  # nothing is new
            go_on(project)


def test_an_export_says_what_is_missing_where_training_takes_longer(project, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(UnlearnedLabelsError, match="There is no model yet, and train"):
        project.export(out)
    assert not out.exists()
    done = project.export(out, as_is=True)
    assert done.model is None
    assert "7 labels and no model" in str(done)
    project.train()
    assert project.export(out).model.name == "model-000"
    go_on(project)
    old = "model-000 has not learned from all labels, and training by 'superv"
    with pytest.raises(UnlearnedLabelsError, match=old):
        project.export(out)
    assert project.export(out, as_is=True).model.num_labeled == 4


def test_an_export_says_that_there_is_too_little_to_learn_from(tmp_path):
    head = Choice(name="frozen-linear", options={"encoder": "pixels"})
    with (
        begin(tmp_path, trainer=head) as project,
        pytest.raises(UnlearnedLabelsError, match="labels of at least two classes"),
    ):
        project.export(tmp_path / "out")


def test_a_later_export_takes_the_place_of_an_earlier_one(project, tmp_path):
    out = tmp_path / "out"
    project.train()
    project.export(out, also=lambda new: (new / "report.html").write_text("page"))
    assert "report.html" in json.loads((out / "manifest.json").read_text())["sha256"]
    before = contents(out)
    (out / ".DS_Store").touch()
    go_on(project)
    done = project.export(out, as_is=True)
    assert {path.relative_to(out).as_posix() for path in done.files} == set(
        contents(out)
    )
    assert not (out / "report.html").exists()  # it would tell of another model
    assert contents(out)["labels.csv"] != before["labels.csv"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"images", "project", "out"}


@pytest.mark.parametrize("name", ["report.html", "labels.csv", "model/notes.txt"])
def test_a_file_that_no_export_wrote_is_left_alone(project, tmp_path, name):
    out = tmp_path / "out"
    theirs = out / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("important")
    for _ in range(2):
        with pytest.raises(
            UsageError, match=f"out' holds '{name}', which the last export"
        ):
            project.export(out, as_is=True)
        assert list(contents(out)) == [name]
    theirs.unlink()
    project.export(out, as_is=True)
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("important")
    before = contents(out)
    with pytest.raises(
        UsageError, match=f"holds '{name}', which the last export did not write"
    ):
        project.export(out, as_is=True)
    assert contents(out) == before


def test_a_file_that_comes_while_an_export_is_written_is_left_alone(project, tmp_path):
    out = tmp_path / "out"
    project.export(out, as_is=True)
    with pytest.raises(UsageError, match=r"holds 'mine\.txt'"):
        project.export(
            out, as_is=True, also=lambda new: (out / "mine.txt").write_text("mine")
        )
    assert (out / "mine.txt").read_text() == "mine"


def test_links_are_neither_followed_nor_removed(project, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "out").symlink_to(elsewhere)
    project.export(tmp_path / "out", as_is=True)
    project.export(tmp_path / "out", as_is=True)
    assert (tmp_path / "out").is_symlink()
    assert (elsewhere / "labels.csv").is_file()
    (elsewhere / "labels.csv").replace(tmp_path / "labels.csv")
    (elsewhere / "labels.csv").symlink_to(tmp_path / "labels.csv")
    with pytest.raises(UsageError, match=r"holds 'labels\.csv'"):
        project.export(tmp_path / "out", as_is=True)
    assert (tmp_path / "labels.csv").is_file()


def test_places_where_no_export_can_stand(project, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file' is a file; an export needs a folder"):
        project.export(tmp_path / "file", as_is=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="You are in"):
        project.export(".", as_is=True)


def die_at(step, place):
    """Export over the old generation and die; return whether it came to the step."""

    def work():
        with Project.open(place / "project") as project:
            project.export(place / "out", as_is=True)

    return killed_at(step, place, work)


@needs_fork
@pytest.mark.parametrize(
    "in_one_step", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_step_leaves_one_generation(
    generations, monkeypatch, in_one_step, every
):
    if not in_one_step:
        monkeypatch.setattr(files, "_swap", lambda one, other: False)
    old, new = (contents(generations / name) for name in ("old", "new"))
    out, step, seen = generations / "out", 0, []
    is_whole = False
    while not is_whole:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(generations / "old", out)
        is_whole = not die_at(step, generations)
        if out.exists():
            seen.append(contents(out) == old)
            assert seen[-1] or contents(out) == new
        else:  # between the two renames of a system that has no better
            assert not in_one_step
        step += every
    assert not seen[-1]
    assert every * sum(seen) >= 20
    with Project.open(generations / "project") as project:
        project.export(out, as_is=True)  # whatever the kills have left beside it
    assert contents(out) == new
    photos = pictures(generations / "photos", range(30, 33))
    assert len(predict(out / "model", photos).labels) == 3
