"""The picture of views is drawn, and missing data are told in a sentence."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fewlabels.errors import DataError

SCRIPT = Path(__file__).parents[3] / "scripts" / "views_picture.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("views_picture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_drawn(script, tmp_path):
    out = tmp_path / "views.png"
    assert script.main(["--sets", "digits", "--out", str(out)]) == 0
    with Image.open(out) as drawn:
        pixels = np.asarray(drawn.convert("L"))
    assert pixels.shape[1] > 2 * pixels.shape[0]
    assert len(np.unique(pixels)) > 20


def test_missing_data_are_told(script, monkeypatch, capsys):
    def missing(name, **_):
        raise DataError(f"{name} is not here.")

    monkeypatch.setattr(script.fewlabels, "load", missing)
    assert script.main(["--sets", "mnist"]) == 1
    assert capsys.readouterr().out == (
        "mnist is not here. Or choose what to draw, such as --sets digits.\n"
    )
