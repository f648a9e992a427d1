"""Vectors that somebody brings are trained on directly, by a head."""

import numpy as np
import pytest
import torch

import fewlabels
from fewlabels import data, rng, training
from fewlabels.errors import ShapeError, UsageError


def clouds(scale=50.0, middle=200.0):
    """Three clouds of vectors, far from zero and wide; and a test split of others."""
    draws = np.random.default_rng(0)
    labels = np.arange(150) % 3
    rows = draws.normal(size=(150, 6)) + 4 * np.eye(3, 6)[labels]
    rows = scale * rows + middle
    return data.load(rows[:90], labels[:90], test=(rows[90:], labels[90:]))


@pytest.mark.parametrize("network", ["linear", "mlp-16"])
def test_a_run_from_start_to_budget(network):
    trainer = training.resolve("supervised", {"network": network, "steps": 60})
    done = list(
        fewlabels.run(
            clouds(), strategy="npc", trainer=trainer, start=3, query=3, budget=9
        )
    )
    assert [one.num_labeled for one in done] == [3, 6, 9]
    assert done[-1].accuracy > 0.8


def test_vectors_are_standardized_so_that_their_scale_does_not_matter():
    trainer = training.make("supervised", network="linear", steps=20)
    logits = [
        trainer.fit(pool, rng.stream(0, "train"))
        .outputs(pool.images, torch.arange(len(pool)))
        .logits
        for pool in (clouds(1.0, 0.0), clouds(1000.0, -5000.0))
    ]
    torch.testing.assert_close(*logits, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("fixmatch", UsageError, r"vectors of shape \(6,\).*Take the trainer 'superv"),
        ("fixmatch-darp", UsageError, "strong views, which are made of images"),
        ("frozen-fixmatch", UsageError, "strong views, which are made of images"),
        ("frozen-supervised", ShapeError, "take the trainer 'supervised' with the"),
        ("supervised", UsageError, "served by the networks 'linear' and 'mlp-256'"),
    ],
)
def test_what_needs_images_says_what_to_take_instead(name, kind, message, tmp_path):
    options = {"cache": str(tmp_path)} if name.startswith("frozen") else {}
    trainer = training.resolve(name, options)
    with pytest.raises(kind, match=message):
        trainer.fit(clouds(), rng.stream(0, "train"))
