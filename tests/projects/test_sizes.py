"""How large images are read, by the encoder and the quality that were chosen."""

import pytest
import torch
from tests.data.pictures import save
from tests.projects.toy import begin

from fewlabels.experiments.settings import Choice
from fewlabels.projects import training_plan

OWN_SIZE = {"encoder_options": {"size": 40}}
OWN_ENCODER = "torch.nn:Flatten"


@pytest.mark.parametrize(
    ("chosen", "side"),
    [
        ({"trainer": "frozen-linear"}, 160),
        ({"encoder": "efficientnet-lite2", "quality": "fast"}, 96),
        ({"encoder": "efficientnet-lite0", "size": 64}, 64),
        ({"trainer": Choice(name="frozen-fixmatch", options=OWN_SIZE)}, 40),
    ],
    ids=str,
)
def test_images_are_read_as_large_as_the_encoder_wants_them(tmp_path, chosen, side):
    for number in range(3):
        save(
            tmp_path / "images" / f"{number}.png",
            number,
            height=70,
            width=90,
            channels=3,
        )
    with begin(tmp_path, **{"trainer": None, "audit": 0, **chosen}) as project:
        settings = project.settings
        assert settings.trainer.options["encoder_options"]["size"] == side
        assert settings.shape == (3, side, side)
        read = project.images(project.snapshot()).read(torch.arange(3))
        assert read.shape == (3, 3, side, side)


def test_images_that_are_not_indexed_yet_count_for_the_training(tmp_path, monkeypatch):
    for number in range(5):
        path = tmp_path / "images" / f"{number}.png"
        save(path, number, height=70, width=90, channels=3)
    monkeypatch.setattr(training_plan, "MOST_JOINED", 3)
    chosen = {"trainer": None, "audit": 0, "first": 2}
    with begin(tmp_path, **chosen) as project:
        assert project.settings.trainer.name == "frozen-linear"


@pytest.mark.parametrize(
    ("chosen", "side"),
    [
        ({"encoder": OWN_ENCODER}, 160),
        ({"encoder": OWN_ENCODER, "quality": "fast"}, 96),
        ({"encoder": OWN_ENCODER, "quality": "best", "size": 50}, 50),
    ],
    ids=str,
)
def test_photographs_for_an_encoder_that_takes_any_size(tmp_path, chosen, side):
    save(tmp_path / "images" / "0.png", 0, height=147, width=90, channels=3)
    save(tmp_path / "images" / "1.png", 1, height=140, width=99, channels=3)
    options = {"trainer": None, "audit": 0, **chosen}
    with begin(tmp_path, **options) as project:
        settings = project.settings
        assert settings.shape == (3, side, side)
        assert "encoder_options" not in settings.trainer.options
        assert f"images are read at {side} x {side} pixels" in settings.reason


def test_small_images_for_an_own_encoder_keep_their_size(tmp_path):
    with begin(tmp_path, trainer=None, encoder=OWN_ENCODER) as project:
        assert project.settings.shape == (1, 8, 8)
