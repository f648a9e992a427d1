"""Presets are the published recipes, and settings survive a file."""

import json
from dataclasses import asdict

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from fewlabels.data.augment import (
    OPERATIONS,
    PRESETS,
    RandAugment,
    Strong,
    StrongAugment,
    WeakAugment,
    argument,
    preset,
)
from fewlabels.errors import UnknownNameError


def test_the_pool_has_the_fourteen_operations_of_the_official_code():
    published = (
        *("identity", "autocontrast", "equalize", "rotate", "solarize", "color"),
        *("contrast", "brightness", "sharpness", "shear-x", "translate-x"),
        *("translate-y", "posterize", "shear-y"),
    )
    assert published == OPERATIONS
    for name in ("official", "paper-table", "usb"):
        assert preset(name).operations == OPERATIONS


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "official",
            {
                "num_operations": 2,
                "probability": 0.5,
                "levels": "whole",
                "ranges": "official",
                "empty": "grey",
                "cutout": 0.5,  # 16 pixels of 32
                "varies_cutout": False,
                "cutout_fill": 127,
                "shift": 0.125,  # 4 pixels of 32
                "flip": True,
            },
        ),
        (
            "paper-table",
            {
                "num_operations": 2,
                "probability": 0.5,
                "levels": "continuous",
                "ranges": "paper-table",
                "empty": "black",
                "cutout": 0.5,
                "varies_cutout": False,
                "cutout_fill": 127,
                "shift": 0.125,
                "flip": True,
            },
        ),
        (
            "usb",
            {
                "num_operations": 3,
                "probability": 1.0,
                "levels": "continuous",
                "ranges": "paper-table",
                "empty": "black",
                "cutout": 0.5,
                "varies_cutout": True,
                "cutout_fill": (125, 123, 114),
                "shift": 0.125,
                "flip": True,
            },
        ),
    ],
)
def test_a_preset_has_the_published_values(name, values):
    assert asdict(preset(name)) == {"operations": OPERATIONS, **values}


@pytest.mark.parametrize(
    ("operation", "ranges", "smallest", "largest"),
    [
        ("rotate", "official", 3, 27),
        ("shear-x", "official", 0.03, 0.27),
        ("translate-y", "official", 1, 9),
        ("solarize", "official", 231, 26),
        ("posterize", "official", 4, 1),
        ("contrast", "official", 0.28, 1.72),
        ("rotate", "paper-table", 0, 30),
        ("shear-y", "paper-table", 0, 0.3),
        ("translate-x", "paper-table", 0, 10),  # 0.3 · 32 = 9.6
        ("solarize", "paper-table", 256, 0),
        ("posterize", "paper-table", 4, 8),
        ("sharpness", "paper-table", 0.05, 0.95),
    ],
)
def test_ranges_end_where_the_recipes_say(operation, ranges, smallest, largest):
    ends = {"official": [1.0, 9.0], "paper-table": [0.0, 10.0]}[ranges]
    levels = torch.tensor(ends, dtype=torch.float64)
    found = argument(operation, ranges, levels, torch.ones_like(levels), (32, 32))
    assert found.tolist() == pytest.approx([smallest, largest])


def test_an_unknown_preset_is_explained():
    with pytest.raises(
        UnknownNameError,
        match=r"no preset of strong views called 'offical'. Did you mean 'official'",
    ):
        preset("offical")


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_a_file(name):
    written = json.dumps(asdict(preset(name)))
    assert TypeAdapter(Strong).validate_python(json.loads(written)) == preset(name)


@pytest.mark.parametrize("kind", [WeakAugment, StrongAugment, RandAugment])
def test_a_misspelt_setting_is_refused(kind):
    with pytest.raises(ValidationError, match="shfit"):
        TypeAdapter(kind).validate_python({"shfit": 0.1})
