"""Plans by a clock that only known work moves, so that times can be told exactly."""

from functools import cache

import pytest
import torch
from tests.data.pictures import save
from tests.projects.trained import images

from fewlabels import data, training
from fewlabels.data.derived import ChosenImages
from fewlabels.errors import ShapeError, UsageError
from fewlabels.features import FeatureCache, ModuleEncoder, embedded, encoders
from fewlabels.models import WideResNet
from fewlabels.pool import ArrayImages, Pool
from fewlabels.projects import plan
from fewlabels.projects.planning import MOST_JOINED, duration, expected_seconds
from fewlabels.runs import Choice
from fewlabels.training import darp

STEP, EMBED, REFINE = 0.5, 0.1, 0.01
ENCODED = {"encoder": "efficientnet-lite0", "encoder_options": {"size": 160}}
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


SLOW = {"bearable": 1000.0}  # of a clock that runs fast


def test_small_images_are_trained_on_from_scratch(clock):
    found = plan(images(100, (1, 28, 28)), 10, clock=clock, **SLOW)
    assert (found.trainer, found.options) == ("flexmatch", {})
    assert found.shape == (1, 28, 28)
    assert found.seconds == pytest.approx(600 * STEP)
    assert "28 pixels a side, at most 32: a network is trained from" in found.reason
    assert str(found).endswith("Expected time: about 5 minutes.")


@pytest.mark.parametrize(
    ("shares", "target"), [("even", "uniform"), ((0.7, 0.2, 0.1), [0.7, 0.2, 0.1])]
)
def test_known_shares_are_what_darp_aligns_to(clock, shares, target):
    found = plan(images(100), 3, shares=shares, clock=clock, **SLOW)
    assert (found.trainer, found.options) == ("fixmatch-darp", {"target": target})
    # 600 steps, and 600 * (1 - 0.4) / 10 refinements of 100 rows.
    assert found.seconds == pytest.approx(600 * STEP + 36 * REFINE)
    told = "even" if target == "uniform" else target
    over = plan(images(40, (3, 100, 80)), 3, shares=shares, clock=clock)
    assert over.options == {**ENCODED, "shares": told}


def test_the_trainer_of_a_plan_exists_and_takes_its_options(clock):
    for shape in ((1, 8, 8), (3, 100, 80)):
        for shares in ("unknown", (0.5, 0.3, 0.2)):
            found = plan(images(40, shape), 3, shares=shares, clock=clock)
            assert found.trainer in training.names()
            training.resolve(found.trainer, found.options)


def test_refinement_counts_with_the_pool(clock):
    class Many(ArrayImages):
        def __len__(self):
            return 50_000

        def read(self, indices):
            return self.items[indices % len(self.items)]

    many = Many(images(10).items)
    found = plan(many, 10, shares="even", clock=clock, **SLOW)
    assert found.seconds == pytest.approx(600 * STEP + 36 * REFINE * 10)


def test_photos_get_a_head_over_pretrained_features(clock, tmp_path):
    for number in range(40):
        save(tmp_path / f"{number}.png", number, height=100, width=120, channels=3)
    pool = data.load(tmp_path, "none")
    assert pool.images.shape == (3, 32, 32)  # what loading would make of them
    found = plan(pool.images, 10, clock=clock)
    assert found.trainer == "frozen-spreading"
    assert found.options == ENCODED
    assert found.shape == (3, 160, 160)
    assert found.seconds == pytest.approx(40 * EMBED)
    assert "120 pixels a side, more than 32: labels spread among" in found.reason


def test_past_what_a_graph_can_join_a_linear_head_is_fitted(clock):
    class Many(ArrayImages):
        def __len__(self):
            return MOST_JOINED + 1

        def read(self, indices):
            return self.items[indices % len(self.items)]

    photos = Many(images(10, (3, 40, 40)).items)
    assert plan(photos, 10, clock=clock).trainer == "frozen-linear"
    few = images(10, (3, 40, 40))
    assert plan(few, 10, num_items=10**6, clock=clock).trainer == "frozen-linear"
    grey = Many(images(10, (1, 28, 28)).items)
    assert plan(grey, 10, clock=clock).trainer == "flexmatch"


@pytest.mark.parametrize(
    ("asked", "side"),
    [
        ({"quality": "fast"}, 96),
        ({"quality": "best"}, 224),
        ({"quality": "best", "size": 64}, 64),
    ],
)
def test_quality_is_what_is_read_and_what_the_network_sees(
    clock, tmp_path, asked, side
):
    for number in range(3):
        save(tmp_path / f"{number}.png", number, height=100, width=120, channels=3)
    pool = data.load(tmp_path, "none")
    found = plan(pool.images, 2, clock=clock, **asked)
    assert found.options["encoder_options"] == {"size": side}
    assert found.shape == (3, side, side)
    assert bool(found.choice) == ("size" not in asked)


def test_the_cost_of_each_quality_is_told(clock, monkeypatch):
    def embed(self, chunk):
        clock.now += self.side * len(chunk)
        return torch.rand(len(chunk), self.feature_size)

    monkeypatch.setattr(ModuleEncoder, "embed", embed)
    found = plan(images(40, (3, 100, 80)), 3, clock=clock)
    assert found.embedding == {"fast": 96 * 40, "normal": 160 * 40, "best": 224 * 40}
    assert found.seconds == pytest.approx(160 * 40)
    assert found.choice == (
        "Features take about 1.1 hours at quality fast (96 pixels a side), about 1.8 "
        "hours at normal (160) and about 2.5 hours at best (224), once."
    )


def test_what_decides_nothing_is_timed_only_where_it_is_told(clock):
    large, small = images(40, (3, 100, 80)), images(40, (3, 8, 8))
    found = plan(large, 3, clock=clock, is_timed=False)
    assert not clock.now
    timed = plan(large, 3, clock=clock)
    assert (found.trainer, found.options) == (timed.trainer, timed.options)
    assert str(found) == found.reason == timed.reason
    assert plan(small, 3, clock=clock, is_timed=False).seconds > 0  # which decides


@pytest.mark.parametrize(
    ("channels", "trainer", "options", "seconds", "words"),
    [
        (1, "spreading", {}, 0, "among similar pixels"),
        (3, "frozen-spreading", ENCODED, 100, "among similar features"),
    ],
    ids=["grey", "color"],
)
def test_nobody_waits_for_a_network_from_scratch_in_each_round(
    clock, channels, trainer, options, seconds, words
):
    small = images(100, (channels, 28, 28))
    found = plan(small, 10, clock=clock)  # 300 s from scratch
    assert (found.trainer, found.options) == (trainer, options)
    assert "from scratch would take about 5 minutes in each round" in found.reason
    assert "the trainer 'flexmatch' does it all the same" in found.reason
    assert words in found.reason
    assert found.seconds == pytest.approx(seconds * EMBED)


def test_a_network_from_scratch_is_trained_where_features_take_longer(clock):
    many = images(5000, (3, 8, 8))  # features would take 500 s, steps take 300
    assert plan(many, 10, clock=clock).trainer == "flexmatch"


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


@pytest.mark.parametrize("name", ["spreading", "frozen-poisson", "ot"])
def test_trainings_without_steps_are_rehearsed(name, tmp_path):
    pool = Pool.build(images(50, (1, 8, 8)), torch.arange(50) % 2, ["a", "b"])
    options = {"encoder": "pixels"} if name.startswith("frozen") else {}
    found = expected_seconds(
        Choice(name=name, options=options), pool, FeatureCache(tmp_path)
    )
    assert 0 < found < 60


def test_without_the_pretrained_network_photos_are_made_small(
    clock, monkeypatch, tmp_path
):
    def refuse(name, **options):
        raise UsageError("Run: pip install 'fewlabels[pretrained]'.")

    monkeypatch.setattr("fewlabels.features.encoders.resolve", refuse)
    for number in range(3):
        save(tmp_path / f"{number}.png", number, height=50, width=40)
    found = plan(data.load(tmp_path, "none").images, 2, clock=clock)
    assert (found.trainer, found.shape) == ("flexmatch", (1, 32, 32))
    assert "pip install 'fewlabels[pretrained]'. Until then: a network" in found.reason


def test_by_the_real_clock_it_takes_some_time():
    assert plan(images(1, (1, 8, 8)), 2).seconds > 0
    assert plan(images(40, (3, 8, 8)), 100).seconds > 0  # more classes than images


@pytest.mark.parametrize("some", [images(5, (6,)), images(0)], ids=["rows", "none"])
def test_no_plan_without_images(some):
    with pytest.raises(ShapeError, match="a plan is made for images"):
        plan(some, 3)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "a second"),
        (12.4, "about 12 seconds"),
        (89, "about 1 minute"),
        (600, "about 10 minutes"),
        (3600, "about 1.0 hour"),
        (9000, "about 2.5 hours"),
    ],
)
def test_times_as_people_say_them(seconds, words):
    assert duration(seconds) == words
