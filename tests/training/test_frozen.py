"""Trainers over frozen features: views embedded once, heads trained as networks are."""

import pytest
import torch
from tests.models.toy import Flickering, Means
from tests.training.conftest import NUM_ITEMS, changed, tiny_pool
from tests.training.test_trainers import fit, weights

from fewlabels import strategies, training
from fewlabels.errors import UsageError
from fewlabels.rng import stream
from fewlabels.training.frozen import FrozenViews

EVERY = torch.arange(NUM_ITEMS)
NAMES = ["frozen-supervised", "frozen-fixmatch", "frozen-fixmatch-darp"]
POOL = tiny_pool(shape=(1, 8, 8))

each_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def trained(tmp_path):
    """Make a trainer whose encoder takes a moment."""

    def make(name, **options):
        settings = {"steps": 12, "minibatch_size": 4, "accelerator": "cpu"}
        encoder = "tests.models.toy:Means"
        place = str(tmp_path / "cache")
        given = settings | {"encoder": encoder, "cache": place} | options
        return training.resolve(name, given)

    return make


def views_of(trainer):
    return trainer.inputs.of(POOL, trainer.execution.cache)


@pytest.mark.parametrize(
    "name",
    ["frozen-fixmatch", pytest.param("frozen-fixmatch-darp", marks=pytest.mark.slow)],
)
def test_features_that_come_alive_in_strong_views_do_no_harm(trained, name):
    trainer = trained(name, encoder=f"{Flickering.__module__}:Flickering", steps=200)
    for seed in range(3):  # the loss exploded, and training stopped
        classifier = fit(trainer, POOL, seed=seed)
        found = classifier.outputs(POOL.images, EVERY).logits.argmax(dim=1)
        assert (found == EVERY % 2).float().mean() > 0.9


def test_views_are_embedded_once(trained, monkeypatch):
    counted = []
    embed = Means.embed

    def counting(self, images):
        counted.append(len(images))
        return embed(self, images)

    monkeypatch.setattr(Means, "embed", counting)
    fit(trained("frozen-fixmatch", weak_views=2, strong_views=3), POOL)
    assert sum(counted) == NUM_ITEMS * (1 + 2 + 3)
    fit(trained("frozen-fixmatch-darp", weak_views=2, strong_views=3), POOL, seed=1)
    assert sum(counted) == NUM_ITEMS * (1 + 2 + 3)


def test_a_step_reads_views_of_its_own_items(trained):
    trainer = trained("frozen-fixmatch", strong_views=3)
    views = views_of(trainer)
    assert isinstance(views, FrozenViews)
    items = torch.tensor([5, 5, 5, 5, 5, 5, 5, 5, 9])
    rows = views.read_views(items, {"strong": ("strong", stream(0, "s"))})["strong"]
    assert rows.shape == (9, Means.feature_size)
    own = [
        views._stored["strong"].read(items[:1], torch.tensor([n]))[0] for n in range(3)
    ]
    seen = {tuple(row) for row in rows[:8].tolist()}
    assert 1 < len(seen) <= 3
    assert seen <= {tuple(row.tolist()) for row in own}


@each_name
def test_it_is_kept_and_found_again(trained, name, tmp_path):
    trainer = trained(name)
    first = fit(trainer, POOL, workspace=tmp_path / "work")
    found = training.restored(trainer, POOL, stream(0, "train", 0), tmp_path / "work")
    assert torch.equal(weights(first), weights(found))


def test_strategies_can_ask(trained):
    classifier = fit(trained("frozen-fixmatch"), POOL)
    asked = strategies.resolve("npc").select(classifier, POOL, 5, stream(0, "query"))
    assert len(asked.indices) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weak_views": 0}, "weak_views is 0"),
        ({"encoder": "resnet"}, "There is no encoder called 'resnet'"),
        ({"network": "wrn-10-1"}, "takes images; choose 'linear'"),
        (
            {"encoder": "pixels", "encoder_options": {"step": 1}},
            "option of 'pixels' called 'step'",
        ),
    ],
)
def test_wrong_options_are_explained(trained, options, message):
    with pytest.raises(UsageError, match=message):
        fit(trained("frozen-supervised", **options), POOL)


def test_other_weights_of_an_encoder_train_anew(trained, tmp_path):
    trainer = trained("frozen-supervised")
    first = fit(trainer, POOL, workspace=tmp_path / "work")
    louder = changed(trainer, encoder_options={"name": "louder", "scale": 3.0})
    with_name = changed(trainer, encoder_options={"name": "means", "scale": 1.0})
    assert not torch.equal(weights(first), weights(fit(louder, POOL)))
    views = {views_of(t).identity for t in (trainer, louder, with_name)}
    assert views == {"means", "louder"}


def test_views_travel_without_their_rows(trained):
    views = views_of(trained("frozen-fixmatch"))
    views.prepare({"weak", "strong"})
    assert views.shape == (Means.feature_size,)  # rows are there now
    assert set(views.__getstate__()) == {"inputs", "pool", "encoder", "cache"}
