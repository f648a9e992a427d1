"""An encoder learns from images alone, goes on after a kill, and beats pixels."""

import os
import signal
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tests.models import toy

import fewlabels
from fewlabels import files, rng
from fewlabels.data.augment import StrongAugment
from fewlabels.errors import TrainingError, UnknownNameError, UsageError
from fewlabels.models import checkpoint, self_supervised
from fewlabels.models.self_supervised import SelfSupervised, contrastive_loss
from fewlabels.progress import reporting

SETTINGS = SelfSupervised(
    steps=6, minibatch_size=16, hidden_size=8, projection_size=4, save_every=0.0
)
IMAGES = toy.images(40)


def fit(workspace=None, settings=SETTINGS, images=IMAGES, seed=0):
    return settings.fit(images, rng.stream(seed, "fit"), workspace=workspace)


@pytest.fixture
def counted(monkeypatch):
    """Numbers of the steps taken since the test began."""
    steps = []
    advance = self_supervised._Training.advance

    def counting(self, step, *others):
        steps.append(step)
        return advance(self, step, *others)

    monkeypatch.setattr(self_supervised._Training, "advance", counting)
    return steps


def loss_naive(first, second, temperature):
    """SimCLR, Eq. 1, one pair after the other."""
    views = [*first, *second]
    total = 0.0
    for i in range(len(views)):
        j = (i + len(first)) % len(views)
        alike = [
            torch.exp(torch.cosine_similarity(views[i], other, dim=0) / temperature)
            for other in views
        ]
        total -= torch.log(alike[j] / (sum(alike) - alike[i]))
    return total / len(views)


def test_the_loss_is_that_of_the_paper():
    draws = rng.stream(0, "projections")
    first, second = torch.randn(2, 5, 3, generator=draws, dtype=torch.float64)
    found = contrastive_loss(first, second, temperature=0.3)
    torch.testing.assert_close(found, loss_naive(first, second, 0.3))
    alike = contrastive_loss(first, first + 1e-3 * second, temperature=0.3)
    assert alike < found


@pytest.mark.usefixtures("untouched_randomness")
def test_the_generator_decides_everything():
    one, same, other = fit(), fit(), fit(seed=1)
    assert one.name == same.name != other.name
    assert one.feature_size == 64
    rows = one.embed(IMAGES.items)
    assert torch.equal(rows, same.embed(IMAGES.items))
    assert not torch.equal(rows, other.embed(IMAGES.items))


def test_it_works_inside_inference_mode():
    with torch.inference_mode():
        assert fit().name == fit().name


def test_a_finished_encoder_is_found_again(tmp_path, counted):
    first = fit(tmp_path / "a" / "b")
    assert counted == [0, 1, 2, 3, 4, 5]
    assert fit(tmp_path / "a" / "b").name == first.name
    assert len(counted) == 6
    assert fit().name == first.name
    files = {path.name for path in (tmp_path / "a" / "b").iterdir()}
    assert files == {"encoder.safetensors"}


@pytest.mark.parametrize(
    "change",
    [
        {"settings": replace(SETTINGS, temperature=0.4)},
        {"settings": replace(SETTINGS, views=StrongAugment(rotation=3))},
        {"images": toy.images(41)},
        {"seed": 1},
    ],
)
def test_another_encoder_is_trained_anew(tmp_path, counted, change):
    fit(tmp_path)
    anew = fit(tmp_path, **change)
    assert len(counted) == 12
    assert anew.name == fit(**change).name


def test_how_often_it_is_saved_changes_nothing(tmp_path, counted):
    fit(tmp_path)
    fit(tmp_path, settings=replace(SETTINGS, save_every=1000.0))
    assert len(counted) == 6


@pytest.mark.parametrize("cut", [0, 100, -1])
def test_damaged_files_count_as_none(tmp_path, cut):
    first = fit(tmp_path)
    for name in ("encoder.safetensors", "encoder-state.safetensors"):
        path = tmp_path / "encoder.safetensors"
        content = path.read_bytes()[:cut]
        path.unlink()
        (tmp_path / name).write_bytes(content)
        assert fit(tmp_path).name == first.name


def test_an_unfinished_training_goes_on_bit_for_bit(tmp_path, counted, monkeypatch):
    counting = self_supervised._Training.advance

    def tired(self, step, *others):
        if step == 4:
            raise KeyboardInterrupt
        return counting(self, step, *others)

    monkeypatch.setattr(self_supervised._Training, "advance", tired)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path)
    monkeypatch.setattr(self_supervised._Training, "advance", counting)
    resumed = fit(tmp_path)
    assert counted == [0, 1, 2, 3, 4, 5]
    assert resumed.name == fit().name


def killed_at(moment, workspace):
    """Fork, train, and die at some writing, having written a part of it."""
    child = os.fork()
    if not child:
        plain, writes = checkpoint.write, []

        def write(tensors, path, words):
            writes.append(path)
            if len(writes) == moment:
                files._beside(path).write_bytes(b"torn")
                os.kill(os.getpid(), signal.SIGKILL)
            plain(tensors, path, words)

        checkpoint.write = write
        fit(workspace)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that can fork")
@pytest.mark.parametrize(
    ("moments", "left"), [([1], range(6)), ([1, 3, 2], [3, 4, 5]), ([1, 3, 5], [])]
)
def test_a_kill_while_a_file_is_written_costs_a_step(tmp_path, counted, moments, left):
    for moment in moments:
        assert killed_at(moment, tmp_path)
    resumed = fit(tmp_path)
    assert counted == list(left)
    assert resumed.name == fit().name
    assert {path.name for path in tmp_path.iterdir()} == {"encoder.safetensors"}


def test_progress_and_loss_are_told(tmp_path):
    told = []

    class Heard:
        def start(self, task, total, done):
            told.append((task, total, done))
            return 0

        def advance(self, handle, amount):
            told.append(amount)

        def tell(self, step, figures):
            told.append((step, *figures))

        def finish(self, handle):
            told.append("end")

    with reporting(Heard()):
        fit(settings=replace(SETTINGS, steps=12))
    assert told == [
        ("Learning features", 12, 0),
        10,
        (10, "loss"),
        2,
        (12, "loss"),
        "end",
    ]


def test_a_lost_training_is_told():
    lost = replace(SETTINGS, learning_rate=1e30, steps=20)
    with pytest.raises(TrainingError, match=r"loss is nan at step \d+ of 20.*Lower"):
        fit(settings=lost)


def test_wrong_settings_are_explained():
    with pytest.raises(UsageError, match=r"momentum is 1\.0; it must be above 0"):
        replace(SETTINGS, momentum=1.0)
    with pytest.raises(UnknownNameError):
        replace(SETTINGS, network="resnet")


def test_one_image_is_too_few():
    with pytest.raises(UsageError, match="number of images is 1"):
        fit(images=toy.images(1))


def nearest(rows, test_rows, pool, seed):
    """Accuracy of the nearest of 30 labeled items, one per class at least."""
    order = torch.randperm(len(pool), generator=rng.stream(seed, "probe"))
    firsts = torch.stack([order[pool.labels[order] == c][0] for c in range(10)])
    others = order[~torch.isin(order, firsts)][:20]
    labeled = torch.cat([firsts, others])
    middle = rows.mean(dim=0)
    cosines = (
        F.normalize(test_rows - middle, dim=1)
        @ F.normalize(rows[labeled] - middle, dim=1).mT
    )
    found = pool.labels[labeled][cosines.argmax(dim=1)]
    return float((found == pool.test.labels).double().mean())


@pytest.mark.slow
def test_features_beat_pixels_on_digits():
    """1-NN with 30 labels, mean over five label sets; the margin is about 15 points."""
    pool = fewlabels.load("digits")
    everything, tested = torch.arange(len(pool)), torch.arange(len(pool.test))
    images, test_images = pool.images.read(everything), pool.test.images.read(tested)
    encoder = SelfSupervised(steps=300).fit(pool.images, rng.stream(0, "encoder"))
    pixels = [
        nearest(images.flatten(1).float(), test_images.flatten(1).float(), pool, seed)
        for seed in range(5)
    ]
    learned = [
        nearest(encoder.embed(images), encoder.embed(test_images), pool, seed)
        for seed in range(5)
    ]
    assert sum(learned) / 5 > sum(pixels) / 5 + 0.05
