"""``--encoder`` on the commands that train."""

import json
import os
import subprocess
import sys

import pytest
from tests.cli.test_quick_start import LOADED
from tests.experiments.bench.little import experiment
from tests.models.test_onnx_encoder import written
from tests.projects.toy import pictures

from fewlabels.cli.bench import build_experiment
from fewlabels.errors import UsageError
from fewlabels.experiments.bench import Condition
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.projects import Project

COMMANDS = {
    "init": ("project", "--images", "images", "--classes", "a,b", "--budget", "8"),
    "run": ("digits",),
    "bench": ("run", "cifar10", "--dry-run"),
}


def test_a_run_takes_its_features_from_it(fewlabels, tmp_path):
    words = ("run", "digits", "--encoder", "pixels", "--trainer", "frozen-linear")
    code, _, err = fewlabels(*words, "--start", "10", "--budget", "10", "--out", "run")
    assert code == 0, err
    trainer = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert trainer["trainer"]["options"] == {"encoder": "pixels"}


def test_without_a_trainer_it_is_the_default_one_over_features():
    settings = RunSettings.merged(None, {"data": "digits"}, encoder="pixels")
    default = RunSettings(data=Choice(name="digits")).trainer.name
    assert settings.trainer.name == f"frozen-{default}"


def test_options_of_the_encoder_before_go(tmp_path):
    file = tmp_path / "x.yaml"
    options = {"encoder": "my:own", "encoder_options": {"size": 3}, "steps": 7}
    file.write_text(json.dumps({"trainer": {"name": "frozen-supervised", **options}}))
    given = {"data": "digits"}
    settings = RunSettings.merged(file, given, encoder="pixels", allow_code=True)
    assert settings.trainer.options == {"encoder": "pixels", "steps": 7}


@pytest.mark.parametrize("command", ["run", "init", "bench"])
def test_a_trainer_of_images_says_that_it_has_no_use_for_it(
    fewlabels, tmp_path, command
):
    pictures(tmp_path / "images")
    if command == "bench":
        words = ("bench", "run", "digits", "--dry-run")
    else:
        words = (command, *COMMANDS[command], "--trainer", "fixmatch")
    code, _, err = fewlabels(*words, "--encoder", "pixels")
    assert code == 2
    assert "takes no encoder 'pixels'" in err
    assert "take 'frozen-fixmatch" in err


def test_a_benchmark_has_it_in_all_conditions(tmp_path):
    settings = experiment().conditions[0].settings
    trainer = Choice(name="frozen-linear", options={"encoder": "efficientnet-lite0"})
    settings = settings.model_copy(update={"trainer": trainer})
    conditions = (Condition(settings=settings), Condition(name="b", settings=settings))
    content = experiment(conditions=conditions).model_dump(mode="json")
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    found = build_experiment(
        str(tmp_path / "x.yaml"), None, None, "pixels", allow_code=False
    )
    told = [one.settings.trainer.options for one in found.conditions]
    assert told == [{"encoder": "pixels"}] * 2


def test_a_project_over_an_encoder(tmp_path):
    pictures(tmp_path / "images")
    with Project.create(
        tmp_path / "project", tmp_path / "images", "ab", budget=8, encoder="pixels"
    ) as project:
        assert project.settings.trainer.name == "frozen-blend"
        assert project.settings.trainer.options == {"encoder": "pixels"}
        assert project.settings.shape[1:] == (16, 16)
        assert project.settings.reason.startswith("You chose the encoder pixels;")


def test_a_path_is_kept_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "images")
    written(tmp_path / "net.onnx")
    with Project.create(
        "project", "images", "ab", budget=8, encoder="onnx:net.onnx"
    ) as p:
        assert p.settings.trainer.options == {"encoder": f"onnx:{tmp_path}/net.onnx"}
        assert p.settings.shape == (1, 6, 6)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_that_is_not_here_is_told_before_anything_heavy_is_loaded(
    tmp_path, command
):
    words = (command, *COMMANDS[command], "--encoder", "hf-hub:org/net")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps([words])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub")},
    )
    (told,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "The model 'org/net' is not on this machine" in told
    assert told.endswith("copy it to local-dir:PATH. --download downloads it.")
    assert done.stdout == "loaded: huggingface_hub\n"


def test_a_download_needs_something_to_fetch(fewlabels):
    code, _, err = fewlabels("run", "digits", "--download")
    assert code == 2
    assert "nothing to download; name it with --encoder" in err


def test_a_download_is_done_only_if_asked_for(fewlabels, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    asked = []
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda name, revision, **_: asked.append((name, revision)),
    )
    for name, place in (
        ("hf-hub:org/net@v1", ("org/net", "v1")),
        ("timm/net", ("timm/net", None)),
    ):
        assert fewlabels("run", "digits", "--encoder", name)[0] == 2
        assert not asked
        fewlabels("run", "digits", "--encoder", name, "--download")
        assert [asked.pop()] == [place]


def test_a_wrong_name_in_python_is_told(tmp_path):
    pictures(tmp_path / "images")
    with pytest.raises(UsageError, match="There is no encoder called 'nosuch'"):
        Project.create(
            tmp_path / "p", tmp_path / "images", "ab", budget=8, encoder="nosuch"
        )
