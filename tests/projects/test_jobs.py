"""A training in a process of its own: watched, canceled, killed, and as any other."""

import shutil

import pytest
from safetensors.torch import load_file
from tests.projects.toy import begin, go_on, pictures

from fewlabels.errors import UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.projects import Project
from fewlabels.projects.project import train

LONG = Choice(name="supervised", options={"steps": 200, "checkpoint_every": 200})


pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """As in this process; another number would give other bits."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def trained(job):
    """Yield how many steps of the training are done, whenever a job tells."""
    for event in job.events():
        if event.get("task") == "Training" and not event["is_over"]:
            yield event["done"]


def weights(project):
    return load_file(project.models_folder / "model-000/model.safetensors")


def test_a_training_canceled_and_killed_ends_with_the_weights_of_an_undisturbed_one(
    tmp_path,
):
    pictures(tmp_path / "images")
    with begin(tmp_path, trainer=LONG) as project:
        go_on(project)
    shutil.copytree(tmp_path / "project", tmp_path / "undisturbed")
    with Project.open(tmp_path / "project") as project:
        first = project.start_training()
        steps = trained(first)
        assert next(steps) == 0
        assert next(steps) > 0
        first.cancel()
        assert first.wait() == {"event": "canceled"}
        (state,) = project.models_folder.rglob("state.safetensors")  # within 20 seconds
        second = project.start_training()
        steps = trained(second)
        saved = next(steps)
        assert saved > 0
        assert next(steps) > saved
        second.kill()
        assert second.end["event"] == "died"
        third = project.start_training()
        assert next(trained(third)) >= saved
        assert third.result() == {"model": "model-000", "is_new": True}
        assert not state.exists()
        assert not project.train().is_new
    with Project.open(tmp_path / "undisturbed") as undisturbed:
        undisturbed.train()
    found, expected = weights(project), weights(undisturbed)
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in found)


def test_what_a_training_refuses_is_raised_in_the_job(tmp_path):
    with begin(tmp_path) as project, pytest.raises(UsageError, match="two classes"):
        train(str(project.folder), allow_code=False)
