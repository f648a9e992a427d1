"""Beginnings of a project that meet each other, or that are killed."""

import os
import shutil

import pytest
from tests.harness.killed_project import killed_at
from tests.projects.toy import begin, go_on, pictures
from tests.sizes import seeds

from fewlabels.errors import ProjectError
from fewlabels.projects import Project, image_index
from fewlabels.projects.store import Store


def paused(monkeypatch, meanwhile):
    """Let something happen while the next project to begin looks at its images."""
    look = image_index.scan

    def slow(*arguments, **options):
        monkeypatch.setattr(image_index, "scan", look)
        meanwhile()
        return look(*arguments, **options)

    monkeypatch.setattr(image_index, "scan", slow)


@pytest.mark.parametrize("is_there", [False, True])
def test_of_two_that_begin_in_one_folder_the_slower_is_refused(
    tmp_path, monkeypatch, is_there
):
    if is_there:
        (tmp_path / "project").mkdir()
    pictures(tmp_path / "images")

    def faster():
        with begin(tmp_path) as project:
            go_on(project)

    paused(monkeypatch, faster)
    with pytest.raises(ProjectError, match="is not empty; nothing was touched"):
        begin(tmp_path)
    with Project.open(tmp_path / "project") as project:
        assert project.status().num_spent == 7
    assert {path.name for path in tmp_path.iterdir()} == {"images", "project"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.parametrize("number", seeds(2, 4))
def test_of_two_that_begin_at_the_same_time_one_wins(tmp_path, number):
    pictures(tmp_path / "images")
    if number % 2:
        (tmp_path / "project").mkdir()
    ready, go = os.pipe()
    children = []
    for seed in range(2):
        child = os.fork()
        if not child:
            code = 2
            try:
                os.read(ready, 1)
                begin(tmp_path, seed=seed)
                code = 0
            except ProjectError:
                code = 1
            finally:
                os._exit(code)
        children.append(child)
    os.write(go, b"!!")
    codes = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children]
    assert sorted(codes) == [0, 1]
    with Project.open(tmp_path / "project") as project:
        assert project.settings.seed == codes.index(0)
        go_on(project)
    assert {path.name for path in tmp_path.iterdir()} == {"images", "project"}


def test_what_is_called_like_something_of_ours_is_left_alone(tmp_path):
    theirs = tmp_path / "project.partial"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("important")
    begin(tmp_path).close()
    assert (theirs / "thesis.tex").read_text() == "important"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_beginning_that_is_killed_at_any_moment_is_begun_anew(
    tmp_path, is_there, every
):
    pictures(tmp_path / "images", range(6))
    place, moment, is_whole = tmp_path / "project", 0, False
    while not is_whole:
        shutil.rmtree(place, ignore_errors=True)
        if is_there:
            place.mkdir()
        is_whole = not killed_at(moment, tmp_path, lambda: begin(tmp_path))
        if (place / "project.json").exists():
            Project.open(place).close()
        else:
            begin(tmp_path).close()
        moment += every
    assert moment >= 8


def test_a_beginning_that_was_killed_while_it_looked_at_its_store_is_begun_anew(
    tmp_path,
):
    place, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    place.mkdir()
    elsewhere.mkdir()
    with Store.open(elsewhere / "labels.sqlite") as store:
        store.add_classes(("even", "odd"), annotator="owner")
        for file in elsewhere.iterdir():
            shutil.copy(file, place)
    assert (place / "labels.sqlite-wal").exists()
    with begin(tmp_path) as project:
        go_on(project)
