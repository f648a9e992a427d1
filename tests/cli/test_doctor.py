"""``fewlabels doctor``: what is here, what is missing, and the command for it."""

import json
import re
from importlib.metadata import metadata

import pytest

from fewlabels.cli import doctor as module


def test_every_extra_for_users_has_a_purpose():
    declared = set(metadata("fewlabels").get_all("Provides-Extra"))
    assert set(module._EXTRAS) == declared - {"dev"}


def test_versions_devices_and_folders(fewlabels, monkeypatch, tmp_path):
    monkeypatch.setenv("FEWLABELS_CACHE", str(tmp_path / "later"))
    code, out, err = fewlabels("doctor")
    assert code == 0, err
    assert re.search(r"^torch: \d", out, re.MULTILINE)
    assert re.search(r"^devices: cpu \(\d+ cores\)", out, re.MULTILINE)
    assert "encoder pixels: here" in out
    assert f"folder {tmp_path / 'later'}: not there yet, can be written" in out


@pytest.mark.parametrize("installed", ["0.0.1", None])
def test_what_is_missing_comes_with_its_command(fewlabels, monkeypatch, installed):
    def version(name):
        if name != "fastapi":
            return "999"
        if installed is None:
            raise module.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(module, "version", version)
    out = fewlabels("doctor")[1]
    assert "pip install 'fewlabels[page]' (missing: fastapi" in " ".join(out.split())
    facts = json.loads(fewlabels("doctor", "--json")[1])
    assert [text[:7] for text in facts["missing"]["page"]] == ["fastapi"]
    assert facts["missing"]["ray"] == []
