"""A project over a network of timm, from the first question to the export."""

import shutil

import pytest
from tests.models import saved
from tests.projects.toy import begin, go_on

from fewlabels.errors import DataError
from fewlabels.models.model_folder import load_model


def test_an_exported_model_finds_its_published_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "models--timm--net" / "snapshots" / "main"
    saved.saved_timm(snapshot)
    with begin(tmp_path, trainer=None, encoder="timm/net") as project:
        assert project.settings.shape == (1, 35, 35)
        go_on(project)
        assert "Expected: " in project.expectation()
        project.train()
        project.export(tmp_path / "export")
    loaded = load_model(tmp_path / "export" / "model")
    assert loaded.classifier.encoder.published == ("timm/net", {})
    shutil.rmtree(snapshot)
    with pytest.raises(DataError, match="'timm/net' is not on this machine"):
        load_model(tmp_path / "export" / "model")
