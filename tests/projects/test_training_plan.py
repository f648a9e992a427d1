"""Plans, and times by a clock that only known work moves."""

from functools import cache

import pytest
import torch
from tests.data.pictures import save
from tests.projects.trained import images

from fewlabels import data, training
from fewlabels.data.derived import ChosenImages
from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.settings import Choice
from fewlabels.models import WideResNet, encoders
from fewlabels.models.cache import FeatureCache
from fewlabels.models.embedding import embedded
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.pool import ArrayImages, Pool
from fewlabels.projects import plan
from fewlabels.projects.training_plan import (
    MOST_JOINED,
    expected_seconds,
    from_scratch,
)
from fewlabels.training import darp

STEP, EMBED, REFINE = 0.5, 0.1, 0.01
ENCODED = {"encoder": "efficientnet-lite2", "encoder_options": {"size": 160}}
resolve_once = cache(encoders.resolve)  # a network of millions of weights


class Clock:
    """Stands still but for the work it is told of."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A step from scratch takes 0.5 s, an embedded image 0.1 s, refining 0.01 s."""
    clock = Clock()
    forward, solve = WideResNet.embed, darp.solve

    def embed_in_step(self, inputs):
        clock.now += STEP
        return forward(self, inputs[..., ::3, ::3])  # time is counted, not spent

    def embed(self, chunk):
        clock.now += EMBED * len(chunk)
        return torch.rand(len(chunk), self.feature_size)

    def timed_solve(*arguments, **options):
        clock.now += REFINE
        return solve(*arguments, **options)

    monkeypatch.setattr(encoders, "resolve", resolve_once)
    monkeypatch.setattr(WideResNet, "embed", embed_in_step)
    monkeypatch.setattr(ModuleEncoder, "embed", embed)
    monkeypatch.setattr(darp, "solve", timed_solve)
    return clock


class Many(ArrayImages):
    """More images than a graph is made of."""

    def __len__(self):
        return MOST_JOINED + 1

    def read(self, indices):
        return self.items[indices % len(self.items)]


@pytest.mark.parametrize(
    ("shape", "trainer", "options", "words"),
    [
        ((1, 28, 28), "blend", {}, "28 pixels a side and are gray"),
        ((3, 32, 32), "frozen-blend", ENCODED, "32 pixels a side: a head"),
        ((1, 100, 80), "frozen-blend", ENCODED, "100 pixels a side: a head"),
        ((3, 100, 80), "frozen-blend", ENCODED, "100 pixels a side: a head"),
    ],
)
def test_the_choice_depends_on_the_images_alone(clock, shape, trainer, options, words):
    found = plan(images(100, shape))
    assert (found.trainer.name, found.trainer.options) == (trainer, options)
    assert clock.now == 0  # nothing was timed
    assert training.make(found.trainer.name, **found.trainer.options).num_steps is None
    assert words in found.reason
    assert found.shape == shape  # images in memory stay as they are


@pytest.mark.parametrize(
    ("shares", "option"), [("even", "even"), ((0.7, 0.2, 0.1), [0.7, 0.2, 0.1])]
)
def test_known_shares_are_what_is_aligned_to(shares, option):
    over = plan(images(40, (3, 100, 80)), shares=shares)
    assert over.trainer.options == {**ENCODED, "shares": option}
    assert plan(images(40), shares=shares).trainer.options == {"shares": option}
    target = "uniform" if option == "even" else option
    scratch = from_scratch(shares)
    assert (scratch.name, scratch.options) == ("fixmatch-darp", {"target": target})
    assert from_scratch("unknown") == Choice(name="flexmatch")


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 8), (3, 100, 80)])
@pytest.mark.parametrize("shares", ["unknown", (0.5, 0.3, 0.2)])
def test_the_trainer_of_a_plan_exists_and_takes_its_options(clock, shape, shares):
    for kind in (ArrayImages, Many):
        found = plan(kind(images(40, shape).items), shares=shares)
        training.resolve(found.trainer.name, found.trainer.options)


def test_photos_are_read_as_large_as_the_network_sees_them(tmp_path):
    for number in range(40):
        save(tmp_path / f"{number}.png", number, height=100, width=120, channels=3)
    pool = data.load(tmp_path, "none")
    assert pool.images.shape == (3, 32, 32)  # what loading would make of them
    found = plan(pool.images)
    assert (found.trainer.name, found.trainer.options) == ("frozen-blend", ENCODED)
    assert found.shape == (3, 160, 160)
    assert "120 pixels a side: a head without training steps" in found.reason


def test_small_photos_are_read_as_they_are_and_enlarged_by_the_encoder(tmp_path):
    for number in range(3):
        save(tmp_path / f"{number}.png", number, height=30, width=32, channels=3)
    found = plan(data.load(tmp_path, "none").images)
    assert (found.trainer.options, found.shape) == (ENCODED, (3, 30, 32))


def test_past_what_a_graph_can_join_a_linear_head_is_fitted():
    photos = Many(images(10, (3, 40, 40)).items)
    assert plan(photos).trainer.name == "frozen-linear"
    few = images(10, (3, 40, 40))
    assert plan(few, num_items=10**6).trainer.name == "frozen-linear"
    gray = plan(Many(images(10, (1, 28, 28)).items))
    assert (gray.trainer.name, gray.trainer.options["encoder"]) == (
        "frozen-linear",
        "pixels",
    )


@pytest.mark.parametrize(
    ("asked", "side"),
    [
        ({"quality": "fast"}, 96),
        ({"quality": "best"}, 224),
        ({"quality": "best", "size": 64}, 64),
    ],
)
def test_quality_is_what_is_read_and_what_the_network_sees(tmp_path, asked, side):
    for number in range(3):
        save(tmp_path / f"{number}.png", number, height=100, width=120, channels=3)
    pool = data.load(tmp_path, "none")
    found = plan(pool.images, **asked)
    assert found.trainer.options["encoder_options"] == {"size": side}
    assert found.shape == (3, side, side)


def test_the_expected_time_knows_which_features_are_there(clock, tmp_path):
    chosen = Choice(name="frozen-linear", options={"encoder": "efficientnet-lite0"})
    pool = Pool.build(images(50), torch.arange(50) % 2, ["a", "b"])
    cache = FeatureCache(tmp_path)
    assert expected_seconds(chosen, pool, cache, clock) == pytest.approx(50 * EMBED)
    encoder = encoders.resolve("efficientnet-lite0")
    embedded(ChosenImages(pool.images, torch.arange(40)), encoder, cache=cache)
    assert expected_seconds(chosen, pool, cache, clock) == pytest.approx(10 * EMBED)
    embedded(pool.images, encoder, cache=cache)
    assert expected_seconds(chosen, pool, cache, clock) == 0
    changed = Pool.build(images(50, seed=1), pool.labels, pool.classes)
    assert expected_seconds(chosen, changed, cache, clock) == pytest.approx(50 * EMBED)


def test_the_time_of_a_shorter_training_is_shorter(clock, tmp_path):
    pool = Pool.build(images(50), torch.arange(50) % 2, ["a", "b"])
    chosen = Choice(name="fixmatch", options={"steps": 60})
    cache = FeatureCache(tmp_path)
    assert expected_seconds(chosen, pool, cache, clock) == pytest.approx(60 * STEP)
    for name in ("frozen-fixmatch", "somebody:Trainer"):
        assert expected_seconds(Choice(name=name), pool, cache, clock) is None


@pytest.mark.parametrize("name", ["blend", "frozen-poisson", "ot"])
def test_trainings_without_steps_are_rehearsed(name, tmp_path):
    pool = Pool.build(images(50, (1, 8, 8)), torch.arange(50) % 2, ["a", "b"])
    options = {"encoder": "pixels"} if name.startswith("frozen") else {}
    found = expected_seconds(
        Choice(name=name, options=options), pool, FeatureCache(tmp_path)
    )
    assert 0 < found < 60


@pytest.mark.parametrize("side", [50, 20])
def test_without_the_pretrained_network_pixels_are_compared(
    monkeypatch, tmp_path, side
):
    def refuse(name, **options):
        raise UsageError("Run: pip install 'fewlabels[encoders]'.")

    monkeypatch.setattr("fewlabels.models.encoders.resolve", refuse)
    for number in range(3):
        save(tmp_path / f"{number}.png", number, height=side, width=side, channels=3)
    found = plan(data.load(tmp_path, "none").images)
    small = min(side, 32)
    assert (found.trainer.name, found.shape) == ("blend", (3, small, small))
    assert "pip install 'fewlabels[encoders]'. Until then: a head" in found.reason


@pytest.mark.parametrize("some", [images(5, (6,)), images(0)], ids=["rows", "none"])
def test_no_plan_without_images(some):
    with pytest.raises(ShapeError, match="a plan is for images"):
        plan(some)
