"""The official settings are those of FixMatch's official code."""

import pytest
import torch

from fewlabels import models, rng
from fewlabels.data.augment import WeakAugment
from fewlabels.pool import UNKNOWN, ArrayImages, Pool
from fewlabels.training import make
from fewlabels.training.fixmatch import FixMatch
from fewlabels.training.loop import sgd

OFFICIAL = {
    "network": "wrn-28-2",
    "steps": 1_048_576,
    "minibatch_size": 64,
    "mu": 7,
    "threshold": 0.95,
    "consistency_weight": 1.0,
    "learning_rate": 0.03,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "ema_decay": 0.999,
    "dropout": 0.0,
    "weak": WeakAugment(flip=True, shift=4 / 32),
    "strong": "official",
    "forward": "joint",
    "balances_classes": False,
}


def test_the_settings():
    settings = make("fixmatch", preset="official")
    assert {name: settings.options[name] for name in OFFICIAL} == OFFICIAL


def test_statistics_forget_as_fast_as_averaged_weights():
    images = ArrayImages(torch.zeros(4, 1, 8, 8, dtype=torch.uint8))
    unlabeled = Pool.build(images, torch.full((4,), UNKNOWN), ["a", "b"])
    trainer = make("fixmatch", preset="official", network="wrn-10-1")
    network = trainer.fit(unlabeled, rng.stream(0)).module
    assert network.norm.momentum == pytest.approx(0.001)


def test_a_learner_may_have_official_settings_of_its_own(monkeypatch):
    monkeypatch.setattr(FixMatch, "official", {"mu": 1, "weight_decay": 1e-3})
    settings = make("fixmatch", preset="official", weight_decay=2e-3)
    assert (settings.options["mu"], settings.options["weight_decay"]) == (1, 2e-3)
    assert settings.num_steps == OFFICIAL["steps"]
    assert make("fixmatch").learner == FixMatch()


def test_the_optimizer():
    schedule = make("fixmatch", preset="official").schedule
    network = models.build("wrn-10-1", (3, 8, 8), 10, rng.stream(0, "w"))
    optimizer = sgd(network, schedule.learning_rate, schedule.momentum, 5e-4)
    decays = {
        group["weight_decay"]: group["params"] for group in optimizer.param_groups
    }
    assert all(group["nesterov"] for group in optimizer.param_groups)
    assert {p.ndim for p in decays[5e-4]} == {2, 4}
    assert {p.ndim for p in decays[0.0]} == {1}


OWN = {
    "adamatch": {"mu": 3, "memory_decay": 0.999, "weight_decay": 0.001},
    "ceal": {"mu": 1, "threshold": 0.05, "ramp_up": 0},
    "fixmatch-abc": {"mu": 7, "balanced_weight": 1.0},
    "fixmatch-cdmad": {"mu": 7, "correct_from": 0.2},
    "fixmatch-cta": {"mu": 7, "cutout": 0.5},
    "freematch": {"mu": 7, "memory_decay": 0.999},
    "mean-teacher": {"mu": 1, "consistency_weight": 50.0, "ema_decay": 0.999},
    "mixmatch": {
        "mu": 1,
        "temperature": 0.5,
        "mixup": 0.75,
        "consistency_weight": 75.0,
        "ramp_up": 1 / 64,
    },
    "pi-model": {"mu": 1, "consistency_weight": 10.0},
    "pseudo-label": {"mu": 1, "threshold": 0.95, "ramp_up": 0.4},
    "remixmatch": {
        "mu": 1,
        "temperature": 0.5,
        "mixup": 0.75,
        "consistency_weight": 1.5,
        "anchor_weight": 0.5,
        "rotation_weight": 0.5,
        "ramp_up": 1 / 64,
    },
    "softmatch": {"mu": 7, "memory_decay": 0.999},
}


@pytest.mark.parametrize("name", OWN)
def test_the_settings_of_a_learners_own_code(name):
    options = make(name, preset="official").options
    assert {option: options[option] for option in OWN[name]} == OWN[name]
    small = make(name)
    assert small.learner == type(small.learner)()
