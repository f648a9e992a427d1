"""A project whose processes are killed, or work at the same time."""

import os
import shutil
import signal

import pytest
from safetensors.torch import load_file
from tests.projects.toy import (
    begin,
    begun,
    go_on,
    paths,
    pictures,
    truth,
    write,
)

from fewlabels.errors import FewlabelsWarning, ProjectError, UnlearnedLabelsError
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.training import loop

RESUMABLE = Choice(
    name="supervised", options={"steps": 12, "save_every": 0.0, "checkpoint_every": 3}
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")


@pytest.fixture
def project(tmp_path):
    with begun(tmp_path) as opened:
        yield opened


def weights(project, number=0):
    return load_file(project.models_folder / f"model-{number:03d}/model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


def in_a_child(place, at_step, *trainer):
    """Train the project in a forked process that does something at each step."""
    child = os.fork()
    if child:
        return child
    advance = loop.Stepper.advance

    def watched(self, step, minibatch):
        at_step(step)
        return advance(self, step, minibatch)

    loop.Stepper.advance = watched
    try:
        Project.open(place).train(*trainer)
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
        advance = loop.Stepper.advance
        patch.setattr(
            loop.Stepper,
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
    assert not (killed.models_folder / "training").exists()


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
def test_while_one_process_trains_others_label_ask_look_and_export(project, tmp_path):
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
        with pytest.raises(ProjectError, match="Another process is training in"):
            project.train()
        assert project.ask().items == asked.items[-1:]
        last = write(project.folder / "b.csv", [(names[-1], truth(names[-1]))])
        assert project.tell(last, annotator="ann").num_new == 1
        assert project.status().num_spent == 7
        with pytest.warns(FewlabelsWarning, match="no model was trained"):
            fresh = project.ask()
        assert fresh.is_new
        go_on(project)
        assert project.status().num_spent == 11
        done = project.export(tmp_path / "export", as_is=True)
        assert done.model is None
    finally:
        os.write(told[1], b"!")
        os.waitpid(child, 0)
    (record,) = project.records()
    assert record.num_labeled == 3 + (asked.items[-1].role == "audit")  # as it began


@needs_fork
def test_the_projects_own_trainer_works_while_another_one_trains(project):
    go_on(project)
    is_training, told = os.pipe(), os.pipe()

    def wait(step):
        if step == 0:
            os.write(is_training[1], b"!")
            os.read(told[0], 1)

    few = Choice(name="fixmatch", options={"steps": 3})
    child = in_a_child(project.folder, wait, few)
    os.read(is_training[0], 1)
    try:
        with pytest.raises(ProjectError, match="Another process is training in"):
            project.train("supervised")
        with pytest.warns(FewlabelsWarning, match="no model was trained"):
            go_on(project)
        assert project.train().record.name == "model-000"
    finally:
        os.write(told[1], b"!")
        os.waitpid(child, 0)
    own, other = project.records()
    assert (own.trainer, own.num_labeled) == ("supervised", 8)
    assert (other.trainer, other.num_labeled) == ("fixmatch", 4)
    assert not (project.models_folder / "other-training").exists()
    with pytest.raises(UnlearnedLabelsError, match="it was trained by 'fixmatch'"):
        project.export(project.folder / "export")
    assert project.train().record.name == "model-002"


@needs_fork
def test_of_two_that_choose_at_once_one_is_told_so(project):
    with (
        project.alone(".lock", "choosing images"),
        pytest.raises(ProjectError, match="Another process is choosing images in"),
    ):
        project.ask()
